package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

var (
	// podFields are what a variable can take from its pod, besides single labels
	// and annotations.
	podFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	// podMaps are what it can take one value of.
	podMaps = []string{"metadata.annotations", "metadata.labels"}
	// containerResources are what it can take from its container, besides huge
	// pages, which have their size in the name.
	containerResources = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
	cpuDivisors  = []string{"1", "1m"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

func environment(path *field.Path, p *v1alpha1.Package) field.ErrorList {
	var errs field.ErrorList
	for i := range p.Env {
		e, at := &p.Env[i], path.Index(i)
		for _, problem := range utilvalidation.IsRelaxedEnvVarName(e.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), e.Name, problem))
		}
		if e.Value != "" && e.ValueFrom != nil {
			errs = append(errs, field.Invalid(at.Child("valueFrom"), "", "must not be set when value is"))
		}
		if e.ValueFrom != nil {
			errs = append(errs, source(at.Child("valueFrom"), e.ValueFrom)...)
		}
	}
	return errs
}

// source checks where the value of a variable comes from by the rules that pods
// have to keep to: a Job with a wrong one could never be made.
func source(path *field.Path, from *corev1.EnvVarSource) field.ErrorList {
	var errs field.ErrorList
	set := 0
	if r := from.FieldRef; r != nil {
		set++
		errs = append(errs, podField(path.Child("fieldRef"), r)...)
	}
	if r := from.ResourceFieldRef; r != nil {
		set++
		errs = append(errs, containerResource(path.Child("resourceFieldRef"), r)...)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		set++
		errs = append(errs, keyOf(path.Child("configMapKeyRef"), r.Name, r.Key)...)
	}
	if r := from.SecretKeyRef; r != nil {
		set++
		errs = append(errs, keyOf(path.Child("secretKeyRef"), r.Name, r.Key)...)
	}
	if from.FileKeyRef != nil {
		errs = append(errs, field.Forbidden(path.Child("fileKeyRef"), "names a volume of the pod, and package pods have none of yours: put the value into configMap or value"))
	} else if set != 1 {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("set exactly one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef; %d are set", set)))
	}
	return errs
}

// keyOf checks the name of a ConfigMap or Secret, and a key in it.
func keyOf(path *field.Path, name, key string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range utilvalidation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path.Child("name"), name, problem))
	}
	for _, problem := range utilvalidation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Child("key"), key, problem))
	}
	return errs
}

// podField checks a field of the pod, as metadata.name or metadata.labels['a/b'].
func podField(path *field.Path, r *corev1.ObjectFieldSelector) field.ErrorList {
	var errs field.ErrorList
	if r.APIVersion != "" && r.APIVersion != "v1" {
		errs = append(errs, field.NotSupported(path.Child("apiVersion"), r.APIVersion, []string{"v1"}))
	}
	at := path.Child("fieldPath")
	if r.FieldPath == "" {
		return append(errs, field.Required(at, "one of "+strings.Join(podFields, ", ")+", metadata.annotations['<key>'], metadata.labels['<key>']"))
	}
	if name, key, ok := subscript(r.FieldPath); ok && slices.Contains(podMaps, name) {
		if name == "metadata.annotations" {
			// Keys of annotations are compared without regard to case.
			key = strings.ToLower(key)
		}
		if problems := utilvalidation.IsQualifiedName(key); len(problems) > 0 {
			errs = append(errs, field.Invalid(at, r.FieldPath, "the key in brackets: "+strings.Join(problems, "; ")))
		}
		return errs
	}
	if !slices.Contains(podFields, r.FieldPath) {
		errs = append(errs, field.NotSupported(at, r.FieldPath,
			append(slices.Clone(podFields), "metadata.annotations['<key>']", "metadata.labels['<key>']")))
	}
	return errs
}

// subscript takes name['key'] apart.
func subscript(text string) (name, key string, ok bool) {
	text, ok = strings.CutSuffix(text, "']")
	if !ok {
		return "", "", false
	}
	return strings.Cut(text, "['")
}

// containerResource checks a resource of the container, and what its value is
// divided by.
func containerResource(path *field.Path, r *corev1.ResourceFieldSelector) field.ErrorList {
	const hugePages = "hugepages-"
	at := path.Child("resource")
	kind, name, _ := strings.Cut(r.Resource, ".")
	huge := (kind == "limits" || kind == "requests") && strings.HasPrefix(name, hugePages)
	switch {
	case r.Resource == "":
		return field.ErrorList{field.Required(at, "one of "+strings.Join(containerResources, ", "))}
	case !huge && !slices.Contains(containerResources, r.Resource):
		return field.ErrorList{field.NotSupported(at, r.Resource,
			append(slices.Clone(containerResources), "limits.hugepages-<size>", "requests.hugepages-<size>"))}
	}
	divisors := byteDivisors
	if name == "cpu" {
		divisors = cpuDivisors
	}
	if !r.Divisor.IsZero() && !slices.Contains(divisors, r.Divisor.String()) {
		return field.ErrorList{field.NotSupported(path.Child("divisor"), r.Divisor.String(), divisors)}
	}
	return nil
}
