package environment

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// Restart terminates the tasks of the active revision and starts them anew, as a deployment
// of it. There cannot be two tasks of one revision on a host, so that is done by Replace,
// within the minimum, also where the method is Surge. Hosts that are cordoned are passed
// over.
type Restart struct {
	Only       []string // hosts; nil is all
	Change     record.Change
	Hosts      []string // that the revision's query selects now
	Inventory  string   // as of Deploy
	By, Reason string
}

func (Restart) isCommand() {}

func (s *State) restart(c Restart, now time.Time) ([]deploylog.Event, error) {
	f := s.active
	switch {
	case f == nil:
		return nil, refusal.New(NothingDeployed, "nothing of environment %s is deployed: there is nothing to restart", s.name)
	case f.Kind == record.ByDelete:
		return nil, refusal.New(BeingDeleted, "environment %s is being deleted since event %d", s.name, f.Seq)
	case !s.finished && f.Kind != record.ByRestart:
		return nil, refusal.New(NotFinished, "deployment %s has not finished (event %d), so not all tasks are of revision %d: restart them when it has", f.ID, f.Seq, f.Revision)
	}
	only := slices.Compact(slices.Sorted(slices.Values(c.Only)))
	if len(record.Parts(only)) > 1 {
		return nil, refusal.New(InvalidChange, "%s are too many to be named: restart all, or fewer", phrase.Count(len(only), "host"))
	}
	for _, name := range only {
		switch cordon := s.cordons[name]; {
		case !slices.Contains(c.Hosts, name):
			return nil, refusal.New(UnknownHost, "environment %s has no task on host %s: its query does not select it, or another environment makes there what it would make", s.name, name)
		case cordon != nil:
			return nil, refusal.New(HostCordoned, "host %s is cordoned since event %d, so nothing is changed there: deployster env uncordon %s %s", name, cordon.Seq, s.name, name)
		}
	}
	if c.Change.Method != nil {
		return nil, refusal.New(InvalidChange, "a restart has no method: two tasks of one revision cannot be on a host, so one is terminated before the other is started")
	}
	if replace := definition.Replace; s.revisions[f.Revision-1].Definition.Deployment.Method != replace {
		c.Change.Method = &replace
	}
	return s.startChecked(deploymentRequest{kind: record.ByRestart, revision: f.Revision, only: only, change: c.Change, hosts: &c.Hosts, by: c.By, reason: c.Reason}, now)
}

// restarts reports whether a deployment starts the task of a host anew.
func (d deploymentRequest) restarts(host string) bool {
	return d.kind == record.ByRestart && (len(d.only) == 0 || slices.Contains(d.only, host))
}
