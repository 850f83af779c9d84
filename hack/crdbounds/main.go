// Command crdbounds closes the gap between what a generated CRD admits and
// what the Go types decode. The schema of a quantity, a time or a 32-bit
// number, as controller-gen writes it, admits values that fail in the client;
// one stored object with such a value stops every informer of its kind.
//
//	crdbounds FILE...
//
// rewrites the files in place. Running it twice changes nothing more.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crdbounds:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	if len(files) == 0 {
		return fmt.Errorf("no files given; usage: crdbounds FILE")
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read CRD: %w", err)
		}
		out, err := bound(data)
		if err != nil {
			return fmt.Errorf("bound %s: %w", name, err)
		}
		if err := os.WriteFile(name, out, 0o644); err != nil {
			return fmt.Errorf("write CRD: %w", err)
		}
	}
	return nil
}
