package v1alpha1

import "testing"

func TestConfigKeyMatches(t *testing.T) {
	tests := map[string]struct {
		pattern, key string
		want         bool
	}{
		"same":                {"a.conf", "a.conf", true},
		"dot is a dot":        {"a.conf", "axconf", false},
		"end":                 {"*.conf", "a.conf", true},
		"star for nothing":    {"*.conf", ".conf", true},
		"beginning":           {"a*", "a.conf", true},
		"other beginning":     {"a*", "b.conf", false},
		"middle":              {"a*.conf", "ab.conf", true},
		"no overlap":          {"ab*ba", "aba", false},
		"two stars":           {"a*b*c", "axxbxxc", true},
		"two stars, order":    {"a*b*c*", "acb", false},
		"all":                 {"*", "", true},
		"nothing":             {"", "a", false},
		"brackets are no set": {"[ab]", "a", false},
		"question mark":       {"?", "a", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ConfigKeyMatches(tc.pattern, tc.key); got != tc.want {
				t.Errorf("ConfigKeyMatches(%q, %q) = %t", tc.pattern, tc.key, got)
			}
		})
	}
}
