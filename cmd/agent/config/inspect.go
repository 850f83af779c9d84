package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Inspection is what config.json says, and all that is wrong with it. Where
// there are problems, Package holds what can be read all the same, with zero
// values for what cannot.
type Inspection struct {
	Package
	Problems Problems
	// Known tells whether it is an object of a version of the schema that is
	// known. If not, nothing more can be said than Problems do.
	Known bool
}

// StepField is the name of the i-th step of a mode, as modes.apply[0].
func StepField(mode Mode, i int) string { return fmt.Sprintf("modes.%s[%d]", mode, i) }

// maxNames is how many wrong names are told of one field.
const maxNames = 5

// Inspect reads config.json. It is an error if that is no JSON at all, or too
// large.
func Inspect(data []byte) (*Inspection, error) {
	tree, err := validate(data)
	r := &Inspection{}
	if err != nil && !errors.As(err, &r.Problems) {
		return nil, err
	}
	r.Known = tree != nil
	r.Name, _ = tree["package_name"].(string)
	r.Version, _ = tree["package_version"].(string)
	r.ConfigFiles = texts(tree["expected_config_files"])
	r.Unknown = unknown("", tree, fields)
	r.Steps = map[Mode][]Step{}
	modes, _ := tree["modes"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		list, _ := modes[name].([]any)
		for i, s := range list {
			object, _ := s.(map[string]any)
			r.step(Mode(name), StepField(Mode(name), i), object)
		}
	}
	for i, f := range r.ConfigFiles {
		if f != "" && !filepath.IsLocal(f) {
			r.problem(fmt.Sprintf("expected_config_files[%d]", i), fmt.Sprintf("%.100q leaves configmaps", f), "the name of a file in configmaps")
		}
	}
	return r, nil
}

func (r *Inspection) problem(field, is, want string) {
	r.Problems = append(r.Problems, Problem{Field: field, Is: is, Want: want})
}

func (r *Inspection) step(mode Mode, field string, object map[string]any) {
	step := decodeStep(object)
	r.Unknown = append(r.Unknown, unknown(field+".", object, stepFields)...)
	if step.Path != "" && !filepath.IsLocal(path.Join(StepDir, step.Path)) {
		r.problem(field+".path", fmt.Sprintf("%.100q leaves the package", step.Path), "the path of a file below "+StepDir)
	}
	// The validator gives no place for what is wrong with a name.
	var wrong []string
	for _, variable := range slices.Sorted(maps.Keys(step.Env)) {
		if variable == "" || strings.ContainsAny(variable, "=\x00") {
			wrong = append(wrong, fmt.Sprintf("%.100q", variable))
		}
	}
	if len(wrong) > 0 {
		r.problem(field+".env", "has names as "+strings.Join(wrong[:min(len(wrong), maxNames)], ", "), "names without '=' and NUL")
	}
	r.Steps[mode] = append(r.Steps[mode], step)
}

// decodeStep does not go through encoding/json, for which PATH would be another
// path. What is not of its type is left out: the schema has found it.
func decodeStep(s map[string]any) Step {
	step := Step{Arguments: texts(s["arguments"])}
	step.Name, _ = s["name"].(string)
	step.Path, _ = s["path"].(string)
	step.OnHost, _ = s["on_host"].(bool)
	step.AlwaysRuns, _ = s["idempotence"].(bool)
	step.Upgrades, _ = s["upgrade_step"].(bool)
	codes, _ := s["returncodes"].([]any)
	for _, code := range codes {
		// 1e0 is an integer for the schema as well.
		number, _ := code.(json.Number)
		if value, err := number.Float64(); err == nil {
			step.ReturnCodes = append(step.ReturnCodes, int(value))
		}
	}
	if env, ok := s["env"].(map[string]any); ok {
		step.Env = map[string]string{}
		for name, value := range env {
			step.Env[name], _ = value.(string)
		}
	}
	return step
}

// texts keeps the place of what is no text, as an empty one.
func texts(value any) []string {
	list, _ := value.([]any)
	var out []string
	for _, v := range list {
		text, _ := v.(string)
		out = append(out, text)
	}
	return out
}
