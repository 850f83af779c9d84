package job

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 20_000) + "end"
	for name, tc := range map[string]struct {
		in   string
		want string
	}{
		"empty": {}, "short": {in: "abc", want: "abc"}, "as long as the limit": {in: "abcdefgh", want: "abcdefgh"},
		"longer": {in: "abcdefghi", want: "bcdefghi"}, "many chunks": {in: long, want: "56789end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := readTail(strings.NewReader(tc.in), 8); err != nil || got != tc.want {
				t.Errorf("readTail() = %q, %v, want %q", got, err, tc.want)
			}
			if got, err := readTail(iotest.OneByteReader(strings.NewReader(tc.want)), 8); err != nil || got != tc.want {
				t.Errorf("readTail() byte by byte = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	if got, err := readTail(iotest.TimeoutReader(iotest.HalfReader(strings.NewReader(long))), 8); !errors.Is(err, iotest.ErrTimeout) || got == "" {
		t.Errorf("readTail() of a log that breaks off = %q, %v, want what was read and the error", got, err)
	}
}
