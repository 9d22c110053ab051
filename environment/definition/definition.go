// Package definition is what a file says of an environment: its task, the hosts that a
// query selects, and how a revision is deployed (seed "Blox Deployments User Experience").
// Parse reads a file, Set changes one setting after the other, YAML writes it as people do,
// and Diff tells two apart; the machine of package environment gives it meaning.
package definition

import (
	"bytes"
	"encoding/json"

	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/duration"
)

// Definition is what a revision of an environment is: validated, with all
// defaults filled in. It is stored whole in the event that makes the revision.
type Definition struct {
	Name          string        `json:"name"`
	Type          string        `json:"type"` // Daemon: one task on every host
	Task          TaskSpec      `json:"task"`
	InstanceGroup InstanceGroup `json:"instance_group"`
	Deployment    Configuration `json:"deployment"`

	Allow *allow.Rules `json:"allow,omitempty"` // what revisions of identities of some environments may bring beyond what it names itself
}

// Daemon is the type of an environment that has one task on every host.
const Daemon = "Daemon"

// TaskSpec is what is applied to each host.
type TaskSpec struct {
	Manifest string         `json:"manifest"`         // path below the workspace
	Digest   string         `json:"digest,omitempty"` // SHA-256 of the manifest's text, hexadecimal: it stays what it was
	Vars     map[string]any `json:"vars,omitempty"`

	// Includes are the SHA-256 of the files that the manifest includes, by their paths
	// below the workspace. Revisions of former versions have none, which is nil: their
	// manifests include the files of the workspace as they are.
	Includes map[string]string `json:"includes,omitzero"`
}

// UnmarshalJSON keeps integers of Vars integers: they are nil, bool, int64,
// float64, string, []any and map[string]any.
func (t *TaskSpec) UnmarshalJSON(data []byte) error {
	type plain TaskSpec
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode((*plain)(t)); err != nil {
		return err
	}
	for name, value := range t.Vars {
		t.Vars[name] = numbers(value)
	}
	return nil
}

// numbers turns each json.Number into an int64 if it is one, or else a float64.
func numbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = numbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return string(v) // beyond what a float64 can be
	}
	return value
}

// InstanceGroup is the hosts that a query selects at any moment.
type InstanceGroup struct {
	Query      string         `json:"query"`
	MaxLeaving *budget.Budget `json:"max_leaving,omitempty"` // how many hosts may leave at once; nil is half of them
}

// MostLeaving is how many of so many hosts may leave at once. A percentage lets one go
// at least, and the last host only if it is 100%.
func (g InstanceGroup) MostLeaving(hosts int) int {
	most := budget.Budget{Percent: 50}
	if g.MaxLeaving != nil {
		most = *g.MaxLeaving
	}
	switch {
	case most.Count > 0 || most.Percent == 0 || most.Percent == 100:
		return most.Of(hosts)
	case most.Of(hosts) == 0 && hosts > 1:
		return 1
	default:
		return most.Of(hosts)
	}
}

// Configuration is how a revision is deployed.
type Configuration struct {
	Method            Method         `json:"method"`
	MinHealthyPercent int            `json:"min_healthy_percent"` // of the hosts that are to have a task
	MaxUnavailable    *budget.Budget `json:"max_unavailable,omitempty"`
	MaxOver           int            `json:"max_over"` // Surge: hosts with two tasks at once, at most
	MaxSurge          *budget.Budget `json:"max_surge,omitempty"`
	OrderBy           string         `json:"order_by,omitempty"` // an attribute of hosts; hosts are replaced by its values, one after the other
	Steps             []Wave         `json:"steps,omitempty"`

	// VerifyFiles are the SHA-256 of what the manifests that verify steps carry: of their own
	// texts, and of all that they include, by their paths below the workspace.
	VerifyFiles map[string]string `json:"verify_files,omitempty"`

	MinHealthyTime   Duration       `json:"min_healthy_time"`  // a task must stay healthy so long before it counts
	Bake             Duration       `json:"bake,omitempty"`    // what dies so long after the end counts for the deployment
	HealthyDeadline  Duration       `json:"healthy_deadline"`  // for one task
	ProgressDeadline Duration       `json:"progress_deadline"` // for the next task
	MaxFailed        *budget.Budget `json:"max_failed,omitempty"`
	AutoRollback     bool           `json:"auto_rollback"`
	Drift            Drift          `json:"drift"`
}

// Method is in which order a task is replaced.
type Method string

// The methods of the seed.
const (
	Replace Method = "Replace" // the old task is terminated before the new one is started
	Surge   Method = "Surge"   // the new task is healthy before the old one is terminated
)

// Drift is what is done about a task that is not as its manifest says.
type Drift string

// What may be done about drift.
const (
	RepairDrift Drift = "repair"
	ReportDrift Drift = "report"
)

// Duration is written as people do: "5m", "1m30s".
type Duration = duration.Duration
