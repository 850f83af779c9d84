package interrupt

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Type of an interrupt.
type Type string

// Types of interrupts.
const (
	NoOp               Type = "no_op"
	ServiceRestart     Type = "service_restart"
	RestartAllServices Type = "restart_all_services"
	NodeRestart        Type = "node_restart"

	types = "no_op, service_restart, restart_all_services, node_restart"
)

// MaxSize is the longest data that is read, in bytes.
const MaxSize = 64 << 10

// Interrupt of the host.
type Interrupt struct {
	Type Type
	// Services to restart, in this order, of ServiceRestart only.
	Services []string
}

// unit is a name of a systemd unit. It cannot be an option.
var unit = regexp.MustCompile(`^[A-Za-z0-9_@:.\\][A-Za-z0-9_@:.\\-]{0,254}$`)

// Decode reads base64 of {"type": ..., "services": [...]}. Its error names the
// field that is wrong and says what would be valid.
func Decode(data string) (Interrupt, error) {
	i, err := decode(data)
	if err != nil {
		return Interrupt{}, fmt.Errorf("read interrupt: %w", err)
	}
	return i, nil
}

func decode(data string) (Interrupt, error) {
	if len(data) > MaxSize {
		return Interrupt{}, fmt.Errorf("it has %d bytes, at most %d are read", len(data), MaxSize)
	}
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return Interrupt{}, fmt.Errorf("it is not base64: %w", err)
	}
	var fields map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&fields); err != nil {
		return Interrupt{}, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Interrupt{}, errors.New("it is more than one JSON value")
	}
	var i Interrupt
	raw, ok := fields["type"]
	if !ok {
		return Interrupt{}, errors.New("type: is missing, want one of " + types)
	}
	if err := json.Unmarshal(raw, &i.Type); err != nil {
		return Interrupt{}, errors.New("type: is not a string, want one of " + types)
	}
	switch i.Type {
	case NoOp, RestartAllServices, NodeRestart:
		return i, nil
	case ServiceRestart:
		i.Services, err = services(fields["services"])
		return i, err
	default:
		return Interrupt{}, fmt.Errorf("type: %.100q is not known, want one of %s", string(i.Type), types)
	}
}

func services(raw json.RawMessage) ([]string, error) {
	var names []*string
	if raw == nil {
		return nil, errors.New("services: is missing, want a list of systemd units")
	}
	if err := json.Unmarshal(raw, &names); err != nil || names == nil {
		return nil, errors.New("services: is not a list of strings, want a list of systemd units")
	}
	out := make([]string, 0, len(names))
	for i, name := range names {
		if name == nil || !unit.MatchString(*name) {
			return nil, fmt.Errorf("services[%d]: is not the name of a systemd unit, want letters, digits and any of \"_@:.\\-\", no '-' first", i)
		}
		out = append(out, *name)
	}
	return out, nil
}

// Commands are the programs that make the interrupt, one after the other.
func (i Interrupt) Commands() [][]string {
	switch i.Type {
	case ServiceRestart:
		commands := [][]string{{"systemctl", "daemon-reload"}}
		for _, s := range i.Services {
			commands = append(commands, []string{"systemctl", "restart", s})
		}
		return commands
	case RestartAllServices:
		return [][]string{{"service", "procps", "force-reload"}}
	case NodeRestart:
		return [][]string{{"reboot"}}
	default:
		return nil
	}
}

// Flag is the name under which the host remembers that command n was done.
func (i Interrupt) Flag(n int) string { return fmt.Sprintf("%s_%d.complete", i.Type, n) }

func (i Interrupt) String() string {
	if len(i.Services) > 0 {
		return string(i.Type) + " of " + strings.Join(i.Services, ", ")
	}
	return string(i.Type)
}
