package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxProblems is how many problems are told at once.
const maxProblems = 20

// Problem is one field that is wrong.
type Problem struct {
	// Field as modes.apply[0].path; empty for the whole.
	Field string
	// Is says what it is, and Want what would be valid.
	Is   string
	Want string
}

func (p Problem) String() string {
	field := p.Field
	if field == "" {
		field = "the file"
	}
	return fmt.Sprintf("%s: %s, want %s", Printable(field), p.Is, p.Want)
}

// maxPrinted is how much of a name that a package brings is printed, in bytes.
const maxPrinted = 300

// Printable is a name in one line, of bounded length, in which nothing is hidden.
// Whoever wrote a package may have put anything into it.
func Printable(name string) string {
	if len(name) > maxPrinted {
		name = strings.ToValidUTF8(name[:maxPrinted], "") + "…"
	}
	hidden := func(r rune) bool { return !unicode.IsGraphic(r) }
	if utf8.ValidString(name) && !strings.ContainsFunc(name, hidden) {
		return name
	}
	quoted := strconv.QuoteToGraphic(name)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Problems are an error that names all of them.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, 0, len(p))
	for i, problem := range p {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(p)-i))
			break
		}
		lines = append(lines, problem.String())
	}
	return strings.Join(lines, "; ")
}

// place says where in the data the error is, where that is known.
func place(data []byte, err error) error {
	var syntax *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("it is empty")
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return errors.New("it begins with a byte order mark, which is to be left out")
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return errors.New("it is UTF-16, want UTF-8")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it ends in the middle, in line %d", line(data))
	case errors.As(err, &syntax) && syntax.Offset <= int64(len(data)):
		return fmt.Errorf("line %d: %w", line(data[:syntax.Offset]), err)
	}
	return err
}

// line is the number of the last line of the data.
func line(data []byte) int { return bytes.Count(data, []byte("\n")) + 1 }
