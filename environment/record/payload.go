package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/budget"
)

// Cause is why what an event tells of has failed, is paused, or is held; "" where it tells none.
func Cause(e deploylog.Event) string {
	p := Read(e.Data)
	switch e.Name {
	case EnvironmentPaused, HostsHeld, UpdateDeclined:
		return p.Reason
	case UpdateAsked:
		return p.Asks.Cause()
	}
	return p.Error
}

// Payload is the data of all events. Fields are only ever added.
type Payload struct {
	Version    int                    `json:"version"` // 1, or of an EnvironmentStarted CountsTakenBack
	Definition *definition.Definition `json:"definition,omitempty"`
	Base       int                    `json:"base,omitempty"`
	Bound      bool                   `json:"bound,omitempty"`    // by an identity that may bring no more than the definition names and allows
	Asks       *acceptance.Asks       `json:"asks,omitempty"`     // of a revision that was asked for
	Accepted   *acceptance.Accepted   `json:"accepted,omitempty"` // of a revision that was asked for before
	Task       int                    `json:"task_of,omitempty"`  // the revision that has the same task
	Clean      bool                   `json:"clean,omitempty"`    // a deletion that terminates what another one left running
	Adopt      bool                   `json:"adopt,omitempty"`    // a deployment of what was deleted, with the tasks that it left running
	Taken      []string               `json:"taken,omitempty"`    // targets of what was left running and is another environment's now
	Other      string                 `json:"other,omitempty"`    // the environment that left tasks running, or that takes them
	From       int                    `json:"from,omitempty"`     // the revision that a task is adopted from
	Kind       DeploymentKind         `json:"kind,omitempty"`
	Change     Change                 `json:"configuration,omitzero"`
	Reverts    []int                  `json:"reverts,omitempty"`
	Tolerates  int                    `json:"tolerates,omitempty"`  // hosts that may be exceptions, whatever max_failed says
	Exceptions int                    `json:"exceptions,omitempty"` // hosts that are not as they should be at the end
	Automatic  bool                   `json:"automatic,omitempty"`
	Hosts      *[]string              `json:"hosts,omitempty"` // nil is unknown
	Drain      bool                   `json:"drain,omitempty"` // the tasks of the hosts are terminated
	Only       []string               `json:"only,omitempty"`  // hosts that are restarted
	Joined     []string               `json:"joined,omitempty"`
	Left       []string               `json:"left,omitempty"`
	Lost       []string               `json:"lost,omitempty"`
	More       bool                   `json:"more,omitempty"`        // the next event lists more hosts
	OrderBy    string                 `json:"order_by,omitempty"`    // the attribute that zones are of
	Zones      map[string][]string    `json:"zones,omitempty"`       // hosts, by zone; "" is none
	Held       string                 `json:"held,omitempty"`        // SHA-256 of the names of the hosts that would leave
	Kept       []string               `json:"kept,omitempty"`        // of these, those whose tasks a rollback leaves alone
	Inventory  string                 `json:"inventory,omitempty"`   // that the query of a definition is over
	StepNumber int                    `json:"step_number,omitempty"` // of a deployment, from 1
	Since      time.Time              `json:"since,omitzero"`        // when nobody watched any more
	By         string                 `json:"by,omitempty"`
	Reason     string                 `json:"reason,omitempty"`
	Step       string                 `json:"step,omitempty"`
	Code       string                 `json:"code,omitempty"` // of the error
	Error      string                 `json:"error,omitempty"`
	Diff       string                 `json:"diff,omitempty"`
	Restarts   *int                   `json:"restarts,omitempty"` // how often what a task makes had ended by itself and was started again; nil is not known
}

// CountsTakenBack is the version of an EnvironmentStarted with which a revision arrives anew if somebody took
// back another one that had not finished: approvals in pipelines end by it. Logs without it keep what was
// decided by them.
const CountsTakenBack = 2

// Data is it as it stands in an event.
func (p Payload) Data() json.RawMessage {
	p.Version = max(p.Version, 1)
	data, err := json.Marshal(p)
	if err != nil {
		return nil // what a Definition holds was read from JSON or YAML
	}
	return data
}

// Read takes what can be read: history is never refused.
func Read(data json.RawMessage) (p Payload) {
	if len(data) > 0 && json.Unmarshal(data, &p) != nil {
		return Payload{}
	}
	return p
}

// Change overrides a revision's configuration for one deployment, until it has
// finished; nil fields are as in the revision.
type Change struct {
	Method            *definition.Method `json:"method,omitempty"`
	MinHealthyPercent *int               `json:"min_healthy_percent,omitempty"`
	MaxUnavailable    *budget.Budget     `json:"max_unavailable,omitempty"` // takes the place of MinHealthyPercent
	MaxOver           *int               `json:"max_over,omitempty"`
	MaxSurge          *budget.Budget     `json:"max_surge,omitempty"` // takes the place of MaxOver
}

// Check fails where a change is one that nothing can be deployed with.
func (c Change) Check() error {
	switch {
	case c.Method != nil && *c.Method != definition.Replace && *c.Method != definition.Surge:
		return fmt.Errorf("unknown method %q: it is Replace or Surge", *c.Method)
	case c.MinHealthyPercent != nil && (*c.MinHealthyPercent < 0 || *c.MinHealthyPercent > 100):
		return fmt.Errorf("invalid min_healthy_percent %d: it is from 0 to 100", *c.MinHealthyPercent)
	case c.MinHealthyPercent != nil && c.MaxUnavailable != nil:
		return errors.New("min_healthy_percent and max_unavailable are two ways to say the same: give one of them")
	case c.MaxOver != nil && c.MaxSurge != nil:
		return errors.New("max_over and max_surge are two ways to say the same: give one of them")
	case c.MaxSurge != nil && c.MaxSurge.None():
		return fmt.Errorf("invalid max_surge %s: it is at least 1", c.MaxSurge)
	case c.MaxOver != nil && *c.MaxOver < 1:
		return fmt.Errorf("invalid max_over %d: it is at least 1", *c.MaxOver)
	}
	return nil
}

// Taken are the targets that an event leaves to other environments, see Clean.
func Taken(e deploylog.Event) []string { return Read(e.Data).Taken }

// DeploymentKind is why a deployment was started.
type DeploymentKind string

// The kinds of deployments.
const (
	ByDeploy   DeploymentKind = "deploy"
	ByRollback DeploymentKind = "rollback"
	ByRestart  DeploymentKind = "restart" // of the active revision
	ByDelete   DeploymentKind = "delete"
)

// Apply returns a configuration with the overrides.
func (c Change) Apply(to definition.Configuration) definition.Configuration {
	if c.Method != nil {
		to.Method = *c.Method
	}
	if c.MinHealthyPercent != nil {
		to.MinHealthyPercent, to.MaxUnavailable = *c.MinHealthyPercent, nil
	}
	if c.MaxUnavailable != nil {
		to.MaxUnavailable = c.MaxUnavailable
	}
	if c.MaxOver != nil {
		to.MaxOver, to.MaxSurge = *c.MaxOver, nil
	}
	if c.MaxSurge != nil {
		to.MaxSurge = c.MaxSurge
	}
	return to
}
