package nodestate

import (
	"strings"
	"unicode/utf8"
)

// CapString makes s valid UTF-8 of at most limit bytes, cut at the end at a
// rune boundary. Repair comes first: it makes text grow (one bad byte becomes
// three), so a cap before it would not hold.
func CapString(s string, limit int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// CapTail is CapString for logs: it keeps the end of s.
func CapTail(s string, limit int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	start := len(s) - limit
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}
