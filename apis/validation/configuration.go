package validation

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
)

const (
	maxPodStartGracePeriod = 24 * time.Hour
	maxRollbackWindow      = 8760 * time.Hour
	maxWorkers             = 256
	// minReportWorkers is the least number of workers of the controllers that
	// record what Jobs and pods do: nodes are independent of each other.
	minReportWorkers = 4
)

// ManagerConfiguration checks a configuration with its defaults filled in, and
// finds all that is wrong at once.
func ManagerConfiguration(c *configv1alpha1.ManagerConfiguration) field.ErrorList {
	var errs field.ErrorList
	for name, dir := range map[string]string{
		"copyDirRoot": c.CopyDirRoot, "agentLogRoot": c.AgentLogRoot, "hostRoot": c.HostRoot,
	} {
		if !path.IsAbs(dir) || path.Clean(dir) != dir {
			errs = append(errs, field.Invalid(field.NewPath(name), dir, "must be an absolute path without . and .. and a slash at its end"))
		}
	}
	if c.AgentImage == "" {
		errs = append(errs, field.Required(field.NewPath("agentImage"), "the image that runs the steps of packages, with tag or digest"))
	} else {
		errs = append(errs, imageText(field.NewPath("agentImage"), c.AgentImage)...)
	}
	for i, image := range c.AlwaysPull {
		errs = append(errs, imageText(field.NewPath("alwaysPull").Index(i), image)...)
	}
	for i, prefix := range c.AllowedRegistries {
		errs = append(errs, imageText(field.NewPath("allowedRegistries").Index(i), prefix)...)
	}
	errs = append(errs, configurationTimes(c)...)
	errs = append(errs, configurationTaints(field.NewPath("runtimeRequiredTaints"), c.RuntimeRequiredTaints)...)
	errs = append(errs, disruption(field.NewPath("disruption"), &c.Disruption)...)
	errs = append(errs, configurationServers(c)...)
	errs = append(errs, workers(c)...)
	// The map above gives its errors in any order.
	sortErrors(errs)
	return errs
}

func configurationTimes(c *configv1alpha1.ManagerConfiguration) field.ErrorList {
	ttl := field.NewPath("jobTTL")
	errs := StageTimeout(field.NewPath("stageTimeout"), c.StageTimeout.Duration)
	errs = append(errs, JobTTL(ttl.Child("succeeded"), c.JobTTL.Succeeded.Duration)...)
	errs = append(errs, JobTTL(ttl.Child("failed"), c.JobTTL.Failed.Duration)...)
	errs = append(errs, RetryLimit(field.NewPath("retry", "limit"), *c.Retry.Limit)...)
	errs = append(errs, between(field.NewPath("podStartGracePeriod"), c.PodStartGracePeriod, maxPodStartGracePeriod)...)
	return append(errs, between(field.NewPath("migration", "rollbackWindow"), c.Migration.RollbackWindow, maxRollbackWindow)...)
}

func between(p *field.Path, d *metav1.Duration, most time.Duration) field.ErrorList {
	if d.Duration < 0 || d.Duration > most {
		return invalid(p, d.Duration, fmt.Sprintf("must be 0s to %s", most))
	}
	return nil
}

func configurationTaints(p *field.Path, taints []string) field.ErrorList {
	var errs field.ErrorList
	if len(taints) == 0 {
		errs = append(errs, field.Required(p, "at least one taint, as nodewright.nvidia.com=runtime-required:NoSchedule"))
	}
	for i, text := range taints {
		if _, err := ParseTaint(text); err != nil {
			errs = append(errs, field.Invalid(p.Index(i), text, err.Error()))
		}
	}
	return errs
}

// ParseTaint reads a taint in the form key=value:Effect, by the API server's
// rules for keys and values. The value may be missing.
func ParseTaint(text string) (corev1.Taint, error) {
	head, effect, ok := strings.Cut(text, ":")
	if !ok {
		return corev1.Taint{}, fmt.Errorf("must be key=value:Effect")
	}
	key, value, _ := strings.Cut(head, "=")
	taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	if errs := utilvalidation.IsQualifiedName(key); len(errs) > 0 {
		return corev1.Taint{}, fmt.Errorf("key %q: %s", key, strings.Join(errs, "; "))
	}
	if errs := utilvalidation.IsValidLabelValue(value); len(errs) > 0 {
		return corev1.Taint{}, fmt.Errorf("value %q: %s", value, strings.Join(errs, "; "))
	}
	switch taint.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return taint, nil
	default:
		return corev1.Taint{}, fmt.Errorf("effect %q is none of NoSchedule, PreferNoSchedule, NoExecute", effect)
	}
}

func disruption(p *field.Path, d *configv1alpha1.Disruption) field.ErrorList {
	var errs field.ErrorList
	if d.MaxUnavailable != nil {
		errs = append(errs, countOrPercent(p.Child("maxUnavailable"), *d.MaxUnavailable)...)
	}
	seen := map[string]bool{}
	for i, g := range d.Groups {
		at := p.Child("groups").Index(i)
		switch {
		case g.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "a name to speak of the group"))
		case seen[g.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), g.Name))
		}
		seen[g.Name] = true
		errs = append(errs, countOrPercent(at.Child("maxUnavailable"), g.MaxUnavailable)...)
		errs = append(errs, validation.ValidateLabelSelector(&g.Selector, validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	}
	return errs
}

// countOrPercent checks a number of nodes: a count from 0, or 0% to 100%.
func countOrPercent(p *field.Path, v intstr.IntOrString) field.ErrorList {
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return field.ErrorList{field.Invalid(p, v.IntVal, "must not be negative")}
		}
		return nil
	}
	number, ok := strings.CutSuffix(v.StrVal, "%")
	percent, err := strconv.Atoi(number)
	if !ok || err != nil || percent < 0 || percent > 100 {
		return field.ErrorList{field.Invalid(p, v.StrVal, "must be a count, or a percent from 0% to 100%")}
	}
	return nil
}

func configurationServers(c *configv1alpha1.ManagerConfiguration) field.ErrorList {
	var errs field.ErrorList
	for name, address := range map[string]string{"metrics": c.Metrics.BindAddress, "health": c.Health.BindAddress} {
		if address == "0" {
			continue
		}
		if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
			errs = append(errs, field.Invalid(field.NewPath(name, "bindAddress"), address, `must be host:port or :port, or "0" to switch the endpoint off`))
		}
	}
	if port := *c.Webhook.Port; port < 1 || port > 65535 {
		errs = append(errs, field.Invalid(field.NewPath("webhook", "port"), port, "must be 1 to 65535"))
	}
	if dir := c.Webhook.CertDir; !path.IsAbs(dir) {
		errs = append(errs, field.Invalid(field.NewPath("webhook", "certDir"), dir, "must be an absolute path"))
	}
	if problems := utilvalidation.IsDNS1123Subdomain(c.LeaderElection.Name); len(problems) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("leaderElection", "name"), c.LeaderElection.Name, strings.Join(problems, "; ")))
	}
	return errs
}

func isPort(text string) bool {
	port, err := strconv.Atoi(text)
	return err == nil && port >= 0 && port <= 65535
}

func workers(c *configv1alpha1.ManagerConfiguration) field.ErrorList {
	var errs field.ErrorList
	p := field.NewPath("concurrency")
	for _, w := range []struct {
		name  string
		value int32
		least int32
	}{
		{"node", *c.Concurrency.Node, 1}, {"job", *c.Concurrency.Job, minReportWorkers}, {"pod", *c.Concurrency.Pod, minReportWorkers},
	} {
		if w.value < w.least || w.value > maxWorkers {
			errs = append(errs, field.Invalid(p.Child(w.name), w.value, fmt.Sprintf("must be %d to %d", w.least, maxWorkers)))
		}
	}
	return errs
}

// imageText refuses what cannot be part of an image reference at all.
func imageText(p *field.Path, image string) field.ErrorList {
	if image == "" || strings.TrimSpace(image) != image || strings.ContainsAny(image, " \t\n") || strings.Contains(image, "://") {
		return field.ErrorList{field.Invalid(p, image, "must be an image as registry/path, without spaces and without a scheme like https://")}
	}
	return nil
}
