package nodewright

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	// maxHints is how many values are named: the first tells what to do with all.
	maxHints = 5
	// maxHintValue is how much of a value is shown, in bytes.
	maxHintValue = 32
)

// durationHints says how a duration is written, for each field of a NodeWright
// that should hold one and holds something else, in the order of the fields.
//
// The schema refuses these values afterwards. Of a number without quotes, as in
// stageTimeout: 60, it only says that it is no string.
func durationHints(raw []byte) []string {
	var object struct {
		Spec any `json:"spec"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil
	}
	h := &hints{}
	h.look("spec", object.Spec, reflect.TypeFor[v1alpha1.NodeWrightSpec]())
	slices.Sort(h.found)
	return h.found[:min(len(h.found), maxHints)]
}

type hints struct{ found []string }

// look walks a value beside the type that it is to be decoded into.
func (h *hints) look(path string, value any, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[metav1.Duration]() {
		h.duration(path, value)
		return
	}
	object, ok := value.(map[string]any)
	switch {
	case !ok:
	case typ.Kind() == reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			h.look(path+"["+key+"]", object[key], typ.Elem())
		}
	case typ.Kind() == reflect.Struct:
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if v, there := object[name]; there {
				h.look(path+"."+name, v, f.Type)
			}
		}
	}
}

func (h *hints) duration(path string, value any) {
	if value == nil {
		return
	}
	text, isText := value.(string)
	if _, err := time.ParseDuration(text); isText && err == nil {
		return
	}
	example := "60s"
	if number, isNumber := value.(int64); isNumber {
		example = fmt.Sprintf("%ds", number)
	}
	shown := fmt.Sprintf("%v", value)
	h.found = append(h.found, fmt.Sprintf("%s: %.*s is not a duration: write a number with a unit, such as %s, 30m or 1h30m; there is no unit for days, write 24h",
		path, maxHintValue, shown, example))
}
