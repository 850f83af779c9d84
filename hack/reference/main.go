// Command reference writes the reference pages of kinds, configuration and
// reasons from the comments of their Go types and constants, so that a page cannot
// say anything else than kubectl explain.
//
//	reference DIR
//
// writes the pages into docs/reference below DIR, the root of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// page is one reference page.
type page struct {
	file  string
	title string
	// intro stands before the tables.
	intro string
	// dir holds the types, root is the one that the page is about.
	dir, root string
}

var pages = []page{
	{
		file: "configuration.md", title: "Configuration of the operator", dir: "apis/config/v1alpha1", root: "ManagerConfiguration",
		intro: "The operator reads one file at its start, given with `--config`. An unknown field, a field that is there twice\n" +
			"and a value out of bounds are refused, with the name of the field; the operator then does not start.\n\n" +
			"```yaml\napiVersion: config.nodewright.nvidia.com/v1alpha1\nkind: ManagerConfiguration\nagentImage: registry.example/agent:7.0.0\n```\n",
	},
	{
		file: "nodewright.md", title: "NodeWright", dir: "apis/nodewright/v1alpha1", root: "NodeWright",
		intro: "Cluster-scoped kind of `nodewright.nvidia.com/v1alpha1`, short name `nw`.\n",
	},
	{
		file: "deploymentpolicy.md", title: "DeploymentPolicy", dir: "apis/nodewright/v1alpha1", root: "DeploymentPolicy",
		intro: "Cluster-scoped kind of `nodewright.nvidia.com/v1alpha1`, short name `dp`.\n",
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	out := filepath.Join(root, "docs", "reference")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make directory of pages: %w", err)
	}
	for _, p := range pages {
		types, err := readTypes(filepath.Join(root, p.dir))
		if err != nil {
			return fmt.Errorf("read types of %s: %w", p.file, err)
		}
		text, err := p.render(types)
		if err != nil {
			return fmt.Errorf("render %s: %w", p.file, err)
		}
		if err := os.WriteFile(filepath.Join(out, p.file), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write page: %w", err)
		}
	}
	reasons, err := renderReasons(root)
	if err != nil {
		return fmt.Errorf("render %s: %w", reasonsFile, err)
	}
	if err := os.WriteFile(filepath.Join(out, reasonsFile), []byte(reasons), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
