package controlplane

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// auditPolicy records every writing request once, when it is answered, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

// AuditLog returns the path of the audit log: one audit.k8s.io/v1 Event per line for each request that writes (create, update,
// patch, delete, deletecollection), from all users. It is only written with Options.Audit. The line is written around the time of
// the answer, so the last few may be missing for an instant after a client got its answer.
func (cp *ControlPlane) AuditLog() string { return cp.guard.path(logDir, "audit.log") }

// AuditEvent is what this package reads of an audit event.
type AuditEvent struct {
	// User is the name of the user, UserAgent what its client calls itself.
	User, UserAgent string
	// Verb is the verb of the request: an apply is a patch.
	Verb string
	// Resource is the plural, with the subresource after a slash if there is one, as in nodes/status.
	Resource string
	// Namespace and Name name the object. The name is empty for a create.
	Namespace, Name string
	// Code is the HTTP status of the answer.
	Code int
}

// auditLine is the part of audit.k8s.io/v1 Event that is read.
type auditLine struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// ReadAuditLog calls visit for each event of an audit log, in the order of the file. A last line without an end is left out: it is
// being written.
func ReadAuditLog(path string, visit func(AuditEvent)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	reader := bufio.NewReader(file)
	for {
		raw, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		var line auditLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		event := AuditEvent{User: line.User.Username, UserAgent: line.UserAgent, Verb: line.Verb}
		if ref := line.ObjectRef; ref != nil {
			event.Resource, event.Namespace, event.Name = ref.Resource, ref.Namespace, ref.Name
			if ref.Subresource != "" {
				event.Resource += "/" + ref.Subresource
			}
		}
		if line.ResponseStatus != nil {
			event.Code = line.ResponseStatus.Code
		}
		visit(event)
	}
}
