package report

import (
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
)

// Plan is what an Apply would do, as far as it can be known without doing it, or
// what a Destroy would.
type Plan struct {
	Run        string
	Destroy    bool
	Resources  []ResourcePlan   // in graph order, or in that of their removal
	Undeclared []Undeclared     // what runs made, is no longer declared, and stays
	Unmatched  []diff.Unmatched // of ignore_changes
}

// Changes reports whether anything is not VALID, or there and to be removed.
func (p *Plan) Changes() bool {
	for _, r := range p.Resources {
		if r.Status != Valid && r.Status != Absent && !p.Destroy || r.Status == Present {
			return true
		}
	}
	return false
}

// Node tells a resource of a run from others: by its name, which of what is no longer declared one that
// stands for instances may have by now.
func Node(name string, undeclared bool) string {
	if undeclared {
		return "-" + name // no name begins so
	}
	return name
}

// Node tells it from the others of its plan.
func (p *ResourcePlan) Node() string { return Node(p.Name, p.MadeBy != "") + p.Deposed }

// ResourcePlan is the plan for one resource.
type ResourcePlan struct {
	Name      string
	Type      string
	Of        string // the late resource that it is an instance of; "" is none
	Late      bool   // Unknown: it stands for instances that are not known yet
	DependsOn []string
	Status    Status   // Valid, Stale, Unknown, Failed or Skipped; of a Destroy, and of what is Undeclared, Present or Absent
	After     []string // Unknown: the resources whose apply makes it known
	Tentative Status   // Unknown: Valid or Stale, as its type says before those are applied; "" where it cannot say; Exists, Diff, Actions and Config are no more than tentative then, and parts may be protocol.Unknown
	ReadOnly  bool     // may not be changed: Failed, because it is not as configured
	Exists    bool     // Stale, or ReadOnly: there is something, but not as configured
	Replace   bool     // Stale: what there is is removed first, by Actions, and made again then
	Diff      []diff.Change
	Actions   []protocol.Action
	Reason    ReasonCode // Failed, Skipped: why
	Error     string     // the same as a sentence
	DoneBy    string     // of a plan that an apply is bound to: run that did all of this already, for the same plan; "" is none
	Replaces  string     // what is removed since the resource is another thing by now: which parts of its identity changed, as people read it
	Deposed   string     // tells what is removed from others of its name, of which the resource is another thing by now; "" is no such thing
	From      string     // the manifest that made what is removed as nobody declares it any more; "" is the one of the plan
	MadeBy    string     // run that made what is removed because it is no longer declared; "" is declared

	// What an Apply that is bound to the plan must find again (Spec.Bound).
	// Values are masked; the hashes are of the values before that, and "" where
	// there is no Spec.Fingerprint.
	ImageID     string         // of the type: id of its content
	ImageDigest string         // of the type, in a registry; "" if it never was in one
	Config      map[string]any // resolved; nil while it waits for a dependency
	ConfigHash  string
	State       map[string]any // Valid, Stale: as observed; nil when it does not exist
	StateHash   string
	ActionsHash string // Stale
	KeptHash    string // Stale: of what was kept of it; "" where nothing was
}
