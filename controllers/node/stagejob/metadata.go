package stagejob

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
)

// MaxForeignAnnotations is how many bytes of a node's foreign annotations are
// handed to packages: pods have the same 256 KiB for theirs.
const MaxForeignAnnotations = 64 << 10

const (
	annotationLabels      = nodestate.Prefix + "node-labels"
	annotationAnnotations = nodestate.Prefix + "node-annotations"
	annotationPackages    = nodestate.Prefix + "packages"
)

// metadataFiles are what a package finds under node-metadata/, each projected
// from an annotation of the pod.
var metadataFiles = []struct{ file, annotation string }{
	{"labels.json", annotationLabels},
	{"annotations.json", annotationAnnotations},
	{"packages.json", annotationPackages},
}

// packagesFile is packages.json.
type packagesFile struct {
	AgentVersion string                  `json:"agentVersion"`
	Packages     map[string]packageEntry `json:"packages"`
}

type packageEntry struct {
	Name               string                        `json:"name"`
	Version            string                        `json:"version"`
	Image              string                        `json:"image"`
	AgentImageOverride string                        `json:"agentImageOverride,omitempty"`
	Interrupt          *v1alpha1.Interrupt           `json:"interrupt,omitempty"`
	ConfigInterrupts   map[string]v1alpha1.Interrupt `json:"configInterrupts,omitempty"`
}

// addMetadata puts the contents of the metadata files into the annotations of
// the pod.
func addMetadata(annotations map[string]string, s *Settings, r *Request) (dropped []string, err error) {
	foreign, dropped := foreignAnnotations(r.Annotations)
	packages := packagesFile{AgentVersion: tag(s.AgentImage), Packages: map[string]packageEntry{}}
	for name, p := range r.NodeWright.Spec.Packages {
		packages.Packages[name] = packageEntry{
			Name: name, Version: p.Version, Image: p.Image, AgentImageOverride: p.AgentImageOverride,
			Interrupt: p.Interrupt, ConfigInterrupts: p.ConfigInterrupts,
		}
	}
	labels := r.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	for _, f := range []struct {
		annotation string
		value      any
	}{{annotationLabels, labels}, {annotationAnnotations, foreign}, {annotationPackages, packages}} {
		data, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.annotation, err)
		}
		annotations[f.annotation] = string(data)
	}
	return dropped, nil
}

// foreignAnnotations leaves out the operator's own keys, and the largest
// values while all are over the limit together.
func foreignAnnotations(all map[string]string) (kept map[string]string, dropped []string) {
	kept = map[string]string{}
	size := 0
	for key, value := range all {
		if _, owned := nodestate.OwnerOf(key); owned {
			continue
		}
		kept[key] = value
		size += len(key) + len(value)
	}
	bySize := slices.SortedFunc(maps.Keys(kept), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(kept[b]), len(kept[a])), cmp.Compare(a, b))
	})
	for _, key := range bySize {
		if size <= MaxForeignAnnotations {
			break
		}
		size -= len(key) + len(kept[key])
		delete(kept, key)
		dropped = append(dropped, key)
	}
	slices.Sort(dropped)
	return kept, dropped
}

// tag is the tag or digest of an image.
func tag(image string) string {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return digest
	}
	_, tag, _ := validation.SplitImage(image)
	return tag
}
