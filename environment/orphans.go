package environment

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// Clean terminates the tasks that an environment left running when it was deleted: it is
// being deleted once more. What has not ended by the progress deadline is left again.
type Clean struct {
	Taken      []string // targets of those whose things another environment makes now: they are left to that
	By, Reason string
}

func (Clean) isCommand() {}

// ofOrphans is a command about what deleted environments left running.
type ofOrphans interface {
	propose(s *State, now time.Time) ([]deploylog.Event, error)
}

// Adopt has a deleted environment exist again, with the tasks that it left running: it is
// deployed at a revision, and what is healthy of that is not touched.
type Adopt struct {
	Revision   int // see State.LastDeployed
	Change     record.Change
	Hosts      []string // that the revision's query selects now
	Inventory  string   // as of Deploy
	Taken      []string // as of Clean
	By, Reason string
}

func (Adopt) isCommand() {}

// leftRunning is the cause of a task that is an orphan.
const leftRunning = "it was left running when the environment was deleted"

// Orphans are the tasks that were left running, of all environments of this name that were
// deleted.
func (s *State) Orphans() []report.Orphan { return slices.Clone(s.orphans) }

// orphanTasks makes all tasks orphans.
func (s *State) orphanTasks(e deploylog.Event) {
	for _, h := range s.hosts {
		for _, t := range h.Tasks {
			s.orphans = append(s.orphans, report.Orphan{Host: h.Name, Revision: t.Revision, Target: string(record.TaskTarget(s.name, t.Revision, h.Name)), Lost: h.Lost, Seq: e.Seq})
		}
	}
}

// applyToOrphan folds in the end of work that was under way when an environment was
// deleted.
func (s *State) applyToOrphan(e deploylog.Event) {
	if e.Name == record.TaskTerminated {
		s.orphans = slices.DeleteFunc(s.orphans, func(o report.Orphan) bool { return o.Target == string(e.Target) && o.Seq < e.Seq })
	}
}

// propose begins a deletion that terminates orphans.
func (c Clean) propose(s *State, now time.Time) ([]deploylog.Event, error) {
	switch {
	case s.active != nil && s.active.Clean:
		return nil, nil // it is under way
	case !s.deleted && len(s.orphans) > 0:
		return nil, refusal.New(EnvironmentExists, "environment %s exists again: what was left running before can be terminated when this one is deleted, too (deployster env delete %s, then deployster env clean %s)", s.name, s.name, s.name)
	case !s.deleted:
		return nil, refusal.New(NothingToClean, "environment %s is not deleted: deployster env delete %s --terminate-tasks terminates its tasks first", s.name, s.name)
	case len(s.orphans) == 0:
		return nil, refusal.New(NothingToClean, "environment %s was deleted, and left no tasks running: there is nothing to clean", s.name)
	}
	d := deploymentRequest{kind: record.ByDelete, revision: len(s.revisions), clean: true, taken: c.Taken, by: c.By, reason: c.Reason}
	return s.startEvents(d, now), nil
}

// LastDeployed is the revision of a deleted environment that was deployed last.
func (s *State) LastDeployed() (report.Revision, error) {
	for _, d := range slices.Backward(s.deployments) {
		if d.Kind != record.ByDelete && d.Revision >= s.firstRevision {
			return s.revisions[d.Revision-1].Revision, nil
		}
	}
	return report.Revision{}, refusal.New(NothingToAdopt, "nothing of environment %s was deployed: there is nothing to adopt", s.name)
}

// propose has a deleted environment exist again.
func (c Adopt) propose(s *State, now time.Time) ([]deploylog.Event, error) {
	switch {
	case !s.deleted:
		return nil, refusal.New(EnvironmentExists, "environment %s is not deleted: it has its tasks", s.name)
	case len(s.orphans) == 0:
		return nil, refusal.New(NothingToAdopt, "environment %s was deleted, and left no tasks running: deployster env create makes it anew", s.name)
	}
	if err := s.checkRevision(c.Revision); err != nil {
		return nil, err
	}
	if err := s.checkInventory(c); err != nil {
		return nil, err
	}
	left, apart := map[string]bool{}, map[string]bool{} // hosts
	for _, o := range s.orphans {
		if left[o.Host] = true; !slices.Contains(c.Hosts, o.Host) {
			apart[o.Host] = true
		}
	}
	if most := s.revisions[c.Revision-1].Definition.InstanceGroup.MostLeaving(len(left)); len(apart) > most {
		names := slices.Sorted(maps.Keys(apart))
		return nil, refusal.New(OthersWouldLeave, "%d of %s with tasks that were left would lose them, for revision %d does not select them now, and max_leaving lets %d go: %s; correct the inventory, or terminate what was left: deployster env clean %s",
			len(apart), phrase.Count(len(left), "host"), c.Revision, most, phrase.First(names, 5), s.name)
	}
	return s.startChecked(deploymentRequest{kind: record.ByDeploy, revision: c.Revision, change: c.Change, hosts: &c.Hosts, adopt: true, taken: c.Taken, by: c.By, reason: c.Reason}, now)
}

// leftOn are the orphans that a deployment which adopts them will have on a host; none of any
// other deployment.
func (s *State) leftOn(d deploymentRequest, host string) (left []report.Orphan) {
	for _, o := range s.orphans {
		if d.adopt && o.Host == host && !slices.Contains(d.taken, o.Target) {
			left = append(left, o)
		}
	}
	return left
}

// replacesLeft reports whether an adoption has to replace what was left on a host. That may
// be healthy: nobody has looked.
func (s *State) replacesLeft(d deploymentRequest, host string) bool {
	left := s.leftOn(d, host)
	current := func(o report.Orphan) bool { return o.Revision == s.taskOf(d.revision) }
	return len(left) > 0 && s.cordons[host] == nil && !slices.ContainsFunc(left, current)
}

// takeOrphans has hosts have the tasks that were left there, but for those that others
// have taken. Nobody knows what has become of them.
func (s *State) takeOrphans(e deploylog.Event, taken []string) {
	for _, o := range s.orphans {
		if slices.Contains(taken, o.Target) {
			continue
		}
		h := s.addHost(o.Host)
		h.Lost = false // until the inventory says so
		t := h.Add(o.Revision)
		t.Status, t.Seq, t.Since, t.Cause = report.TaskLost, e.Seq, e.CreatedAt, leftRunning
	}
	s.orphans, s.deleted = nil, false
}

// endCleaning ends a Clean at its deadline.
func (s *State) endCleaning() []deploylog.Event {
	cause := fmt.Sprintf("not terminated within %s", s.active.Configuration.ProgressDeadline)
	if why := s.failureCauses(); why != "" {
		cause += ": " + deploylog.Cause(why)
	}
	return []deploylog.Event{s.event(record.EnvironmentDeleted, record.Payload{By: s.active.By, Reason: s.active.Reason, Error: cause})}
}
