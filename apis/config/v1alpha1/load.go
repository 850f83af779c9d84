package v1alpha1

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Load reads a configuration file, JSON or YAML, and fills in defaults. A field
// that does not exist, or stands twice, is an error that names it: a setting
// with a slip of the pen must not be without effect. What the values may be is
// for package validation.
func Load(data []byte) (*ManagerConfiguration, error) {
	var c ManagerConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("read manager configuration: %w", err)
	}
	if c.APIVersion != APIVersion || c.Kind != Kind {
		return nil, fmt.Errorf("read manager configuration: it is of apiVersion %q and kind %q, this manager reads %s %s",
			c.APIVersion, c.Kind, APIVersion, Kind)
	}
	SetDefaults(&c)
	return &c, nil
}
