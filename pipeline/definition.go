package pipeline

import (
	"github.com/deployster-go/deployster/internal/budget"
)

// Definition is a pipeline as it was applied: validated, with all defaults
// filled in. It is stored whole in the event that introduces it.
type Definition struct {
	Name    string  `json:"pipeline"`
	Stages  []Stage `json:"stages"` // after those they come after
	Batches []Batch `json:"batches,omitempty"`
}

// Stage is one stage. Exactly one of Build, Deploy, Run, Approval and Environment
// is set.
type Stage struct {
	Name        string    `json:"name"`
	After       []string  `json:"after"` // names of stages; none for a first one
	Build       *Build    `json:"build,omitempty"`
	Deploy      *Deploy   `json:"deploy,omitempty"`
	Run         *Run      `json:"run,omitempty"`
	Approval    *Approval `json:"approval,omitempty"`
	Environment string    `json:"environment,omitempty"` // that a revision is deployed to
}

// Kind is the key under which the stage says what it does.
func (s *Stage) Kind() string {
	switch {
	case s.Build != nil:
		return "build"
	case s.Deploy != nil:
		return "deploy"
	case s.Run != nil:
		return "run"
	case s.Environment != "":
		return "environment"
	default:
		return "approval"
	}
}

// Build waits for artifacts, or runs a manifest that makes them.
type Build struct {
	Artifacts []string `json:"artifacts"`
	Manifest  string   `json:"manifest,omitempty"` // "": somebody else builds, and records what was received
	Retries   int      `json:"retries,omitempty"`
}

// Deploy brings the steps to every host of every group.
type Deploy struct {
	HostGroups []HostGroup `json:"host_groups"`
	Steps      []HostStep  `json:"steps"`
}

// HostGroup is the hosts that a query selects at any moment.
type HostGroup struct {
	Name       string         `json:"name"`
	Hosts      string         `json:"hosts"` // query over the inventory
	MaxFailed  budget.Budget  `json:"max_failed,omitzero"`
	MaxLeaving *budget.Budget `json:"max_leaving,omitempty"` // how many may leave at once; nil is half of them
	AllowEmpty bool           `json:"allow_empty,omitempty"` // it may have no host
}

// HostStep is one step on each host: a manifest, and the event that records that it
// was applied.
type HostStep struct {
	Event    string `json:"event"`
	Manifest string `json:"manifest"`
	Retries  int    `json:"retries,omitempty"`
}

// Run applies one manifest, once.
type Run struct {
	Manifest string `json:"manifest"`
	Retries  int    `json:"retries,omitempty"`
}

// Approval waits for a person.
type Approval struct{}

// Batch lets one revision at a time into the stages from From to To.
type Batch struct {
	From string `json:"from"`
	To   string `json:"to"`
}
