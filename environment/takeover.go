package environment

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/refusal"
)

// An environment may take over what one of another name left running when it was deleted: the
// tasks that make on their hosts just what its own would make there. They are its own from
// then on, and are looked at like any whose state is not known: one that is as the revision
// wants it is left alone, and one that differs has drifted, because its configuration reads the
// name of its environment, say. That is repaired within the minimum, where drift is.

// AdoptFrom deploys a revision of an environment of which nothing is deployed, with the tasks
// that a deleted one left.
type AdoptFrom struct {
	From       string // the deleted environment
	Revision   int
	Change     record.Change
	Hosts      []string // that the revision's query selects now
	Same       []string // of these, those where From left what the revision would make
	Inventory  string   // as of Deploy
	By, Reason string
}

func (AdoptFrom) isCommand() {}

// adoptFrom starts the deployment, and has hosts have the tasks.
func (s *State) adoptFrom(c AdoptFrom, now time.Time) ([]deploylog.Event, error) {
	switch f := s.active; {
	case f != nil && f.Kind == record.ByDelete:
		return nil, refusal.New(BeingDeleted, "environment %s is being deleted since event %d", s.name, f.Seq)
	case f != nil:
		return nil, refusal.New(AlreadyDeployed, "revision %d of environment %s is deployed (event %d), so it has tasks of its own: only an environment of which nothing is deployed takes over what another one left; terminate that: deployster env clean %s",
			f.Revision, s.name, f.Seq, c.From)
	}
	if err := s.checkRevision(c.Revision); err != nil {
		return nil, err
	}
	events, err := s.startChecked(deploymentRequest{kind: record.ByDeploy, revision: c.Revision, change: c.Change, hosts: &c.Hosts, by: c.By, reason: c.Reason}, now)
	if err != nil {
		return nil, err
	}
	start := events[len(events)-1]
	for i, part := range record.Parts(slices.Sorted(slices.Values(c.Same))) {
		e := start
		e.Name, e.Attempt, e.Data = record.TasksTaken, i+1, record.Payload{Hosts: &part, Other: c.From, By: c.By, Reason: c.Reason}.Data()
		events = append(events, e)
	}
	return events, nil
}

// CheckLeft refuses that another environment takes over what this one left running, where it
// left nothing, or that is being terminated, or is in another inventory.
func (s *State) CheckLeft(to AdoptFrom) error {
	switch f := s.active; {
	case len(s.revisions) == 0:
		return refusal.New(UnknownEnvironment, "%w environment %q", ErrUnknown, s.name)
	case f != nil && f.Clean:
		return refusal.New(BeingDeleted, "what environment %s left is being terminated since event %d, by %s: deploy what is to be there instead", s.name, f.Seq, f.By)
	case f != nil && f.Kind == record.ByDelete:
		return refusal.New(BeingDeleted, "environment %s is being deleted with its tasks since event %d", s.name, f.Seq)
	case !s.deleted:
		return refusal.New(EnvironmentExists, "environment %s is not deleted, and its tasks are its own: to leave them to another one, delete it without them (deployster env delete %s)", s.name, s.name)
	case len(s.orphans) == 0:
		return refusal.New(NothingToAdopt, "environment %s was deleted, and left no tasks running: there is nothing to take over (deployster env list --orphans)", s.name)
	}
	return s.checkInventory(to)
}

// Leave are the events by which orphans are another environment's from now on; by is what
// starts the deployment of that.
func (s *State) Leave(targets []string, by deploylog.Event, to AdoptFrom) (events []deploylog.Event) {
	other, _ := record.NameOf(by.Target)
	for i, part := range record.Parts(slices.Sorted(slices.Values(targets))) {
		events = append(events, deploylog.Event{
			Deployment: by.Deployment, Target: s.target, Revision: strconv.Itoa(len(s.revisions)), Name: record.TasksTaken, Attempt: i + 1,
			Data: record.Payload{Taken: part, Other: other, By: to.By, Reason: to.Reason}.Data(),
		})
	}
	return events
}

// applyTaken folds in that orphans are another environment's, or that those of another one
// are tasks of this one. Nobody knows what has become of them.
func (s *State) applyTaken(e deploylog.Event, p record.Payload) {
	taken := make(map[string]bool, len(p.Taken))
	for _, target := range p.Taken {
		taken[target] = true
	}
	s.orphans = slices.DeleteFunc(s.orphans, func(o report.Orphan) bool { return taken[o.Target] })
	if f := s.active; p.Hosts == nil || f == nil || f.ID != e.Deployment || f.Kind == record.ByDelete {
		return
	}
	for _, name := range *p.Hosts {
		h := s.addHost(name)
		if h.Find(s.activeTask()) != nil {
			continue
		}
		s.modify(h, e.CreatedAt, func() {
			t := h.Add(s.activeTask())
			t.Of, t.Status, t.Seq, t.Since = s.active.Revision, report.TaskLost, e.Seq, e.CreatedAt
			t.Cause = fmt.Sprintf("environment %s left it running when it was deleted", p.Other)
		})
	}
}
