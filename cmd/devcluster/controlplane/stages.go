package controlplane

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
)

// stageFiles holds the stages of the simulation. kwok's stages cannot share expressions, so the files name them as @@name@@ and the
// shared text is in stages/snippets: *.jq are expressions (put in as one line), *.tmpl parts of templates (put in with the
// indentation of the line that names them).
//
//go:embed stages/*.yaml stages/snippets/*
var stageFiles embed.FS

var placeholder = regexp.MustCompile(`@@[A-Za-z]+@@`)

// snippetDepth bounds how deep snippets may name each other.
const snippetDepth = 3

// renderStages returns all stages as one YAML stream. podDuration is how long a pod runs that does not say otherwise.
func renderStages(podDuration time.Duration) (string, error) {
	values := map[string]string{
		"@@kubernetesVersion@@": assets.KubernetesVersion,
		"@@podMilliseconds@@":   strconv.FormatInt(podDuration.Milliseconds(), 10),
	}
	snippets, err := fs.Glob(stageFiles, "stages/snippets/*")
	if err != nil {
		return "", fmt.Errorf("list snippets: %w", err)
	}
	for _, name := range snippets {
		content, err := stageFiles.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read snippet: %w", err)
		}
		text := strings.TrimSpace(string(content))
		extension := path.Ext(name)
		if extension == ".jq" {
			text = oneLine(text)
		}
		values["@@"+strings.TrimSuffix(path.Base(name), extension)+"@@"] = text
	}
	files, err := fs.Glob(stageFiles, "stages/*.yaml")
	if err != nil {
		return "", fmt.Errorf("list stages: %w", err)
	}
	var documents []string
	for _, name := range files {
		content, err := stageFiles.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read stages: %w", err)
		}
		text, err := expand(string(content), values)
		if err != nil {
			return "", fmt.Errorf("render %s: %w", name, err)
		}
		documents = append(documents, text)
	}
	return strings.Join(documents, "\n---\n"), nil
}

// oneLine joins the lines of a jq expression, without its comments.
func oneLine(expression string) string {
	var kept []string
	for line := range strings.Lines(expression) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " ")
}

// expand replaces the placeholders of text, also those that the replacement brings.
func expand(text string, values map[string]string) (string, error) {
	for range snippetDepth {
		if !placeholder.MatchString(text) {
			return text, nil
		}
		var lines []string
		for line := range strings.Lines(text) {
			indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
			lines = append(lines, placeholder.ReplaceAllStringFunc(line, func(name string) string {
				value, ok := values[name]
				if !ok {
					return name
				}
				return strings.ReplaceAll(value, "\n", "\n"+indent)
			}))
		}
		text = strings.Join(lines, "")
	}
	if left := placeholder.FindString(text); left != "" {
		return "", fmt.Errorf("nothing is known as %s", left)
	}
	return text, nil
}
