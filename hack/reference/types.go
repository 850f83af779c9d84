package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// structType is a struct of the package that is read.
type structType struct {
	doc    string
	fields []fieldType
}

// fieldType is a field with a name in JSON.
type fieldType struct {
	name string
	doc  string
	expr ast.Expr
}

// types of a package, by name. others are named types that are no structs.
type types struct {
	structs map[string]structType
	others  map[string]ast.Expr
}

// readTypes reads the types of the package in dir, tests and generated files
// apart.
func readTypes(dir string) (types, error) {
	t := types{structs: map[string]structType{}, others: map[string]ast.Expr{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return t, fmt.Errorf("list files: %w", err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return t, fmt.Errorf("read file: %w", err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return t, fmt.Errorf("parse file: %w", err)
		}
		if err := t.add(file); err != nil {
			return t, fmt.Errorf("read %s: %w", filepath.Base(name), err)
		}
	}
	if len(t.structs) == 0 {
		return t, fmt.Errorf("no struct in %s", dir)
	}
	return t, nil
}

func (t types) add(file *ast.File) error {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			typ := spec.(*ast.TypeSpec)
			body, ok := typ.Type.(*ast.StructType)
			if !ok {
				t.others[typ.Name.Name] = typ.Type
				continue
			}
			fields, err := readFields(body)
			if err != nil {
				return fmt.Errorf("type %s: %w", typ.Name.Name, err)
			}
			doc := typ.Doc
			if doc == nil {
				doc = general.Doc
			}
			t.structs[typ.Name.Name] = structType{doc: prose(doc), fields: fields}
		}
	}
	return nil
}

func readFields(body *ast.StructType) ([]fieldType, error) {
	var fields []fieldType
	for _, f := range body.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return nil, fmt.Errorf("read tag: %w", err)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name == "" || name == "-" || name == "metadata" {
			continue
		}
		fields = append(fields, fieldType{name: name, doc: prose(f.Doc), expr: f.Type})
	}
	return fields, nil
}

// prose is a comment without markers, each paragraph in one line.
func prose(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	var paragraphs []string
	var open bool
	for line := range strings.Lines(group.Text()) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "+"):
		case line == "":
			open = false
		case open:
			paragraphs[len(paragraphs)-1] += " " + line
		default:
			paragraphs = append(paragraphs, line)
			open = true
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
