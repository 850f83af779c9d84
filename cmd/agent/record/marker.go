package record

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nodewright/nodewright/cmd/agent/config"
)

// Marker tells steps of one path apart: arguments and return codes, as Python
// prints lists, since that is how earlier agents named their flags.
func Marker(step *config.Step) string {
	arguments := make([]string, 0, len(step.Arguments))
	for _, a := range step.Arguments {
		arguments = append(arguments, pythonString(a))
	}
	codes := make([]string, 0, len(step.ReturnCodes))
	for _, c := range step.ReturnCodes {
		codes = append(codes, strconv.Itoa(c))
	}
	return "[" + strings.Join(arguments, ", ") + "]_[" + strings.Join(codes, ", ") + "]"
}

// pythonString writes a string as Python does in a list: in single quotes,
// unless only double ones need no escape.
func pythonString(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for i, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			// Cannot come out of JSON.
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}
