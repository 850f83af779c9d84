// Package app puts the manager together: flags, configuration, logs, clients,
// controllers, probes. It is the only place that sets up zap, and must not
// decide anything about nodes or packages.
package app
