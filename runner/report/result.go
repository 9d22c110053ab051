package report

import (
	"time"
)

// Result is the result of an Apply or a Destroy.
type Result struct {
	Run       string
	Resources []ResourceResult // in graph order
	Counts    Counts
	Duration  time.Duration
}

// ResourceResult is the result of an Apply or a Destroy for one resource.
type ResourceResult struct {
	Name     string
	Type     string
	Status   Status     // of an Apply Unchanged or Changed, of a Destroy Absent or Destroyed; Failed or Skipped
	Reason   ReasonCode // why it Failed or was Skipped
	Error    string     // the same as a sentence
	Duration time.Duration
}

// Outputs are what a manifest tells whoever applied it.
type Outputs struct {
	Outputs map[string]Output `json:"outputs,omitempty"`
	Unknown []string          `json:"outputs_unknown,omitempty"` // names of those that stay as they were, sorted: they read what an apply left out, or nothing that a destroy removed

	// Reads names the resources that each output reads, at the start of a run that destroys: so readers know
	// which outputs are gone although the run did not end.
	Reads map[string][]string `json:"outputs_read,omitempty"`

	secrets map[string]any
}

// Secrets are the values of the secret ones. They are for the Recorder alone: nil for others.
func (o Outputs) Secrets() map[string]any { return o.secrets }

// With returns the outputs with the values of the secret ones.
func (o Outputs) With(secrets map[string]any) Outputs {
	o.secrets = secrets
	return o
}

// Output is one of them.
type Output struct {
	Value       any    `json:"value"`            // nil of a secret one
	Secret      bool   `json:"secret,omitempty"` // the manifest says so, or it holds what is secret
	Description string `json:"description,omitempty"`
}
