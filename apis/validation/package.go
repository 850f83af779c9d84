package validation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// maxConfigMap is what a ConfigMap holds, in bytes.
const maxConfigMap = 1 << 20

var (
	packageVersion = regexp.MustCompile(`^v?[0-9]+([.][0-9]+){0,2}(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?$`)
	// unitName is what agents take for a unit: others would fail on a node that is
	// cordoned and drained already.
	unitName = regexp.MustCompile(`^[A-Za-z0-9_@:.\\][A-Za-z0-9_@:.\\-]{0,254}$`)
)

// packageErrors checks one package under its key.
func packageErrors(path *field.Path, key string, p *v1alpha1.Package, rules Rules) field.ErrorList {
	var errs field.ErrorList
	if !nodestate.ValidPackageName(key) {
		errs = append(errs, field.Invalid(path, key,
			"the name of a package (the key) has lower-case letters, digits and dashes, begins and ends with a letter, and has 2 to 43 characters"))
	}
	if p.Name != "" && p.Name != key {
		errs = append(errs, field.Invalid(path.Child("name"), p.Name, fmt.Sprintf("must be the same as its key, %s; leave it out", key)))
	}
	errs = append(errs, versionErrors(path.Child("version"), p)...)
	errs = append(errs, packageImage(path.Child("image"), p.Image, p.Version)...)
	errs = append(errs, allowed(path.Child("image"), p.Image, rules.AllowedRegistries)...)
	if p.ContainerSHA != "" && !imageDigest.MatchString(p.ContainerSHA) {
		errs = append(errs, field.Invalid(path.Child("containerSHA"), p.ContainerSHA, "must be sha256: and 64 hexadecimal digits in lower case"))
	}
	if p.AgentImageOverride != "" {
		at := path.Child("agentImageOverride")
		errs = append(errs, agentImage(at, p.AgentImageOverride)...)
		errs = append(errs, allowed(at, p.AgentImageOverride, rules.AllowedRegistries)...)
	}
	errs = append(errs, interrupts(path, p)...)
	errs = append(errs, configMap(path.Child("configMap"), p.ConfigMap)...)
	errs = append(errs, environment(path.Child("env"), p)...)
	errs = append(errs, resources(path.Child("resources"), p.Resources)...)
	errs = append(errs, upToMax(path.Child("gracefulShutdown"), p.GracefulShutdown)...)
	if p.StageTimeout != nil {
		errs = append(errs, StageTimeout(path.Child("stageTimeout"), p.StageTimeout.Duration)...)
	}
	if u := p.Uninstall; u != nil && u.Apply && !u.Enabled {
		errs = append(errs, field.Invalid(path.Child("uninstall", "apply"), true, "needs enabled: true, which says that the package can be uninstalled"))
	}
	return errs
}

// versionErrors checks a version, which is compared as a semantic one and whose
// bytes are the tag.
func versionErrors(path *field.Path, p *v1alpha1.Package) field.ErrorList {
	if p.Version == "" {
		return field.ErrorList{field.Required(path, "one to three numbers, as 1.2.3; it is the tag of the image")}
	}
	_, err := nodestate.ParseVersion(p.Version)
	switch {
	case err != nil || !packageVersion.MatchString(p.Version):
		return field.ErrorList{field.Invalid(path, p.Version,
			"must be one to three numbers, optionally with a leading v, a pre-release and build metadata, as 1.2.3, v1.2 or 1.2.3-rc.1")}
	case p.ContainerSHA == "" && !imageTag.MatchString(p.Version):
		return field.ErrorList{field.Invalid(path, p.Version,
			"is the tag of the image, and a tag has no + and at most 128 characters: leave the build metadata out, or pin the image with containerSHA")}
	}
	return nil
}

func interrupts(path *field.Path, p *v1alpha1.Package) field.ErrorList {
	var errs field.ErrorList
	if p.Interrupt != nil {
		errs = append(errs, interrupt(path.Child("interrupt"), p.Interrupt)...)
	}
	for _, pattern := range slices.Sorted(maps.Keys(p.ConfigInterrupts)) {
		at, i := path.Child("configInterrupts").Key(pattern), p.ConfigInterrupts[pattern]
		errs = append(errs, interrupt(at, &i)...)
		matches := func(key string) bool { return v1alpha1.ConfigKeyMatches(pattern, key) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(p.ConfigMap)), matches) {
			errs = append(errs, field.Invalid(at, pattern, "matches no key of configMap, so that it would never be due: correct it, or remove it; * stands for any characters"))
		}
	}
	return errs
}

func interrupt(path *field.Path, i *v1alpha1.Interrupt) field.ErrorList {
	known := []v1alpha1.InterruptType{
		v1alpha1.InterruptNoop, v1alpha1.InterruptReboot, v1alpha1.InterruptRestartAllServices, v1alpha1.InterruptService,
	}
	var errs field.ErrorList
	if !slices.Contains(known, i.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), i.Type, known))
	}
	for n, service := range i.Services {
		if !unitName.MatchString(service) {
			errs = append(errs, field.Invalid(path.Child("services").Index(n), service, "must be the name of a systemd unit, as containerd.service: letters, digits and any of _@:.\\-, at most 255, no dash at the beginning"))
		}
	}
	return errs
}

// configMap checks keys and size: each package's files become a ConfigMap.
func configMap(path *field.Path, files map[string]string) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(files)) {
		size += len(files[key])
		for _, problem := range utilvalidation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(path.Key(key), key, problem))
		}
	}
	if size > maxConfigMap {
		errs = append(errs, field.TooLong(path, "", maxConfigMap))
	}
	return errs
}

// resources checks that all four are set or none, each is positive, and no
// limit is below its request.
func resources(path *field.Path, r *v1alpha1.ResourceRequirements) field.ErrorList {
	if r == nil {
		return nil
	}
	all := []struct {
		name  string
		value *resource.Quantity
	}{
		{"cpuLimit", r.CPULimit}, {"cpuRequest", r.CPURequest}, {"memoryLimit", r.MemoryLimit}, {"memoryRequest", r.MemoryRequest},
	}
	var errs field.ErrorList
	var missing []string
	for _, q := range all {
		switch {
		case q.value == nil:
			missing = append(missing, q.name)
		case q.value.Sign() <= 0:
			errs = append(errs, field.Invalid(path.Child(q.name), q.value.String(), "must be more than 0"))
		}
	}
	if len(missing) > 0 && len(missing) < len(all) {
		errs = append(errs, field.Invalid(path, "", "set all of cpuRequest, cpuLimit, memoryRequest and memoryLimit, or none: "+strings.Join(missing, ", ")+" is missing"))
	}
	errs = append(errs, limitBelow(path.Child("cpuLimit"), r.CPURequest, r.CPULimit)...)
	return append(errs, limitBelow(path.Child("memoryLimit"), r.MemoryRequest, r.MemoryLimit)...)
}

func limitBelow(path *field.Path, request, limit *resource.Quantity) field.ErrorList {
	if request == nil || limit == nil || limit.Cmp(*request) >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, limit.String(), fmt.Sprintf("must be at least the request, %s", request.String()))}
}
