package manifests

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadWrite(t *testing.T) {
	objects, err := Read(strings.NewReader("---\nkind: A\nmetadata: {name: a}\n---\n# nothing\n---\n{\"kind\":\"B\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 || objects[0].GetKind() != "A" || objects[0].GetName() != "a" || objects[1].GetKind() != "B" {
		t.Fatalf("read %v", objects)
	}
	text, err := Write(objects)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects, again); diff != "" {
		t.Errorf("written and read again (-want +got):\n%s", diff)
	}
	if _, err := Read(strings.NewReader("a: [")); err == nil {
		t.Error("read what is no YAML")
	}
}
