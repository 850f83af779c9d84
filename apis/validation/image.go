package validation

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What image references are made of, by the grammar that registries and
// container runtimes share.
var (
	imageHost      = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$`)
	imageComponent = regexp.MustCompile(`^[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*$`)
	imageTag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imageDigest    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

const (
	// maxRepository is the longest name of a repository that runtimes take.
	maxRepository = 255
	// defaultHost is where an image without registry comes from.
	defaultHost = "docker.io"
)

// SplitImage cuts a reference into repository, tag and digest; tag and digest are
// empty if there is none. The port of a registry is no tag: a tag has no slash
// behind it.
func SplitImage(image string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:i], repository[i+1:]
	}
	return repository, tag, digest
}

// splitHost cuts a repository into registry and path; the registry is empty if
// none is named.
func splitHost(repository string) (host, path string) {
	first, rest, ok := strings.Cut(repository, "/")
	if ok && isHost(first) {
		return first, rest
	}
	return "", repository
}

func isHost(text string) bool {
	return strings.ContainsAny(text, ".:") || text == "localhost" || strings.ToLower(text) != text
}

// repositoryProblem says what is wrong with the name of a repository, empty for
// nothing.
func repositoryProblem(repository string) string {
	if len(repository) > maxRepository {
		return fmt.Sprintf("must be at most %d characters without the tag", maxRepository)
	}
	host, path := splitHost(repository)
	if host != "" && !imageHost.MatchString(host) {
		return fmt.Sprintf("the registry %q must be a host name, with or without a port, as registry.example:5000", host)
	}
	for component := range strings.SplitSeq(path, "/") {
		if !imageComponent.MatchString(component) {
			return fmt.Sprintf("%q in the path must have lower-case letters and digits, separated by one of . _ -, as registry.example/team/package", component)
		}
	}
	return ""
}

// packageImage checks the image of a package: a repository; the tag comes from
// version, so one that is there must be the same.
func packageImage(path *field.Path, image, version string) field.ErrorList {
	if image == "" {
		return field.ErrorList{field.Required(path, "the repository of the package image, as registry.example/team/package")}
	}
	if errs := imageText(path, image); len(errs) > 0 {
		return errs
	}
	repository, tag, digest := SplitImage(image)
	if problem := repositoryProblem(repository); problem != "" {
		return field.ErrorList{field.Invalid(path, image, problem)}
	}
	switch {
	case digest != "" || strings.Contains(image, "@"):
		return field.ErrorList{field.Invalid(path, image,
			fmt.Sprintf("must not have a digest: write image: %s and, to pin it, containerSHA: sha256:<64 hexadecimal digits>", repository))}
	case tag != version && tag != "":
		return field.ErrorList{field.Invalid(path, image,
			fmt.Sprintf("has the tag %s, and version, which is the tag that is pulled, is %s: write image: %s and the tag in version", tag, version, repository))}
	case strings.HasSuffix(image, ":"):
		return field.ErrorList{field.Invalid(path, image, "must not end with a colon: the tag comes from version")}
	}
	return nil
}

// agentImage checks an image that is named in full.
func agentImage(path *field.Path, image string) field.ErrorList {
	if errs := imageText(path, image); len(errs) > 0 {
		return errs
	}
	repository, tag, digest := SplitImage(image)
	problem := repositoryProblem(repository)
	switch {
	case problem != "":
	case strings.Contains(image, "@") && !imageDigest.MatchString(digest):
		problem = "the digest must be sha256: and 64 hexadecimal digits"
	case tag != "" && !imageTag.MatchString(tag) || strings.HasSuffix(image, ":"):
		problem = "the tag must have letters, digits, and . _ -, at most 128 of them"
	}
	if problem != "" {
		return field.ErrorList{field.Invalid(path, image, problem)}
	}
	return nil
}

// allowed refuses images from elsewhere than the prefixes; without prefixes all
// are allowed.
func allowed(path *field.Path, image string, prefixes []string) field.ErrorList {
	if len(prefixes) == 0 || image == "" {
		return nil
	}
	repository, _, _ := SplitImage(image)
	full := fullRepository(repository)
	for _, prefix := range prefixes {
		if p := fullPrefix(prefix); full == p || strings.HasPrefix(full, p+"/") {
			return nil
		}
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
		"image %s is not from one of allowedRegistries of the operator's configuration (%s): use a copy there, or have it allowed",
		image, strings.Join(prefixes, ", ")))}
}

// fullRepository writes out what runtimes add: registry and, for images of one
// component, library/. So team/x cannot pass for docker.io/team/x, nor the other
// way round.
func fullRepository(repository string) string {
	host, path := splitHost(repository)
	switch {
	case host != "" && host != defaultHost:
		return host + "/" + path
	case strings.Contains(path, "/"):
		return defaultHost + "/" + path
	default:
		return defaultHost + "/library/" + path
	}
}

// fullPrefix is fullRepository for a prefix, which may be a registry alone.
func fullPrefix(prefix string) string {
	prefix = strings.TrimSuffix(prefix, "/")
	host, path := splitHost(prefix)
	switch {
	case host != "":
		return host + "/" + path
	case isHost(path):
		return path
	default:
		return defaultHost + "/" + path
	}
}
