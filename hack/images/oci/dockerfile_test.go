package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var label = regexp.MustCompile(`([a-z.]+)="([^"]*)"`)

// TestDockerfilesAgree holds the Dockerfiles against the images that are built
// without a registry: who uses which must not matter.
func TestDockerfilesAgree(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for command, spec := range map[string]*Spec{"manager": Manager("a/b:1", "x"), "agent": Agent("a/b:1", "x")} {
		t.Run(command, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(root, "cmd", command, "Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			// Instructions of the last stage.
			stages := strings.Split(string(data), "\nFROM ")
			last := map[string]string{}
			for line := range strings.Lines(stages[len(stages)-1]) {
				name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				last[name] = rest
			}
			var entrypoint []string
			if err := json.Unmarshal([]byte(last["ENTRYPOINT"]), &entrypoint); err != nil {
				t.Errorf("ENTRYPOINT %q: %v", last["ENTRYPOINT"], err)
			}
			labels := map[string]string{}
			for _, l := range label.FindAllStringSubmatch(last["LABEL"], -1) {
				labels[l[1]] = l[2]
			}
			got := &Spec{User: last["USER"], Entrypoint: entrypoint, Labels: labels}
			if diff := cmp.Diff(&Spec{User: spec.User, Entrypoint: spec.Entrypoint, Labels: spec.Labels}, got); diff != "" {
				t.Errorf("the image that is built without a registry (-) and the Dockerfile (+) differ:\n%s", diff)
			}
			if want := fmt.Sprintf("--from=build /out/%s /%s", command, command); last["COPY"] != want {
				t.Errorf("COPY %s, want %s", last["COPY"], want)
			}
			if !strings.Contains(stages[len(stages)-2], "CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build "+strings.Join(buildFlags, " ")+" -ldflags=\""+linkFlags+"\" ") {
				t.Errorf("is not built as %v %q", buildFlags, linkFlags)
			}
		})
	}
}
