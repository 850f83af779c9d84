package app

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nodewright/nodewright/cmd/agent/process"
	"github.com/nodewright/nodewright/cmd/agent/record"
)

// environment is what the agent reads of its variables.
type environment struct {
	all []string
	// rootDir and logDir are directories on the host.
	rootDir, logDir string
	resourceID      string
	// name and version of the package for the operator; empty if it does not say.
	name, version string
	run           string
	bootID        string
	writeLogs     bool
	alwaysRun     bool
}

func parseEnvironment(all []string) (environment, error) {
	e := environment{all: slices.Clone(all)}
	e.rootDir = path.Clean(e.or("SKYHOOK_ROOT_DIR", "/etc/skyhook"))
	e.logDir = path.Clean(e.or("SKYHOOK_LOG_DIR", "/var/log/skyhook"))
	e.run = e.or("NODEWRIGHT_RUN", record.TakenOver)
	e.bootID = e.or("NODEWRIGHT_BOOT_ID", "")
	e.writeLogs = !strings.EqualFold(e.or("SKYHOOK_AGENT_WRITE_LOGS", "true"), "false")
	e.alwaysRun = strings.EqualFold(e.or("OVERLAY_ALWAYS_RUN_STEP", "false"), "true")
	e.resourceID = e.or("SKYHOOK_RESOURCE_ID", "")
	if !path.IsAbs(e.rootDir) || !path.IsAbs(e.logDir) {
		return e, fmt.Errorf("SKYHOOK_ROOT_DIR %q and SKYHOOK_LOG_DIR %q must be absolute paths", e.rootDir, e.logDir)
	}
	if run, err := strconv.ParseInt(e.run, 10, 64); err != nil || run < 0 {
		return e, fmt.Errorf("NODEWRIGHT_RUN %.100q must be a number from 0", e.run)
	}
	if e.resourceID == "" {
		return e, nil
	}
	// <nodewright>-<uid>-<run>_<package>_<version>
	parts := strings.Split(e.resourceID, "_")
	if len(parts) != 3 || slices.ContainsFunc(parts, notFileName) {
		return e, fmt.Errorf("SKYHOOK_RESOURCE_ID %.200q must have three parts with '_' between them, and no '/'", e.resourceID)
	}
	e.name, e.version = parts[1], parts[2]
	return e, nil
}

func notFileName(s string) bool {
	return s == "" || s == "." || s == ".." || strings.Contains(s, "/") || len(s) > 255
}

func (e *environment) get(name string) (string, bool) {
	for i := len(e.all) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e.all[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (e *environment) or(name, missing string) string {
	if value, ok := e.get(name); ok && value != "" {
		return value
	}
	return missing
}

// forProgram gives the container's variables with others that win over them,
// the later over the earlier.
func (e *environment) forProgram(more ...[2]string) []string {
	out := slices.Clone(e.all)
	if e.or("PATH", "") == "" {
		more = append([][2]string{{"PATH", process.DefaultPath}}, more...)
	}
	for _, v := range more {
		out = slices.DeleteFunc(out, func(have string) bool { return strings.HasPrefix(have, v[0]+"=") })
		out = append(out, v[0]+"="+v[1])
	}
	return out
}
