package environment

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/ordered"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/unwatched"
)

// SnapshotVersion is that of the form of snapshots. It is raised when a former build cannot read a
// new one, or a new one not that of a former build.
const SnapshotVersion = 2

// snapshot is all of a State that does not follow from the rest of it. What was derived when
// hosts were evaluated last is in it, too: that depends on when it was.
type snapshot struct {
	Head      int64
	Inventory string `json:",omitzero"`

	Revisions     []revisionSnapshot
	FirstRevision int                                 `json:",omitzero"`
	Owner         int                                 `json:",omitzero"`
	Asked         acceptance.Requests[record.Payload] `json:",omitempty"`
	Deployments   []deploymentSnapshot                `json:",omitzero"`
	Deleted       bool                                `json:",omitzero"`
	Orphans       []report.Orphan                     `json:",omitzero"`
	TasksLeft     bool                                `json:",omitzero"`
	LastFinished  int                                 `json:",omitzero"`
	Hosts         []*hosts.Host                       `json:",omitzero"`
	Timers        []timerSnapshot                     `json:",omitzero"`
	Zones         string                              `json:",omitzero"`

	Cordons    map[string]*report.Cordon
	Cordonings int `json:",omitzero"`

	Active       bool // the last of the deployments
	Attempts     map[string]int
	HostsKnown   bool              `json:",omitzero"`
	Finished     bool              `json:",omitzero"`
	Started      bool              `json:",omitzero"`
	LastProgress time.Time         `json:",omitzero"`
	Unwatched    unwatched.Spans   `json:",omitzero"`
	Heard        time.Time         `json:",omitzero"`
	Pause        *report.PauseInfo `json:",omitzero"`
	Kept         *report.HeldInfo  `json:",omitzero"`
	Waiting      time.Time         `json:",omitzero"`
	Resumed      time.Time         `json:",omitzero"`
	Clock        time.Time         `json:",omitzero"`
	Baked        int               `json:",omitzero"`
	Wave         waveSnapshot      `json:",omitzero"`
}

type revisionSnapshot struct {
	Revision                       report.Revision
	Task                           int
	Owner                          int  `json:",omitzero"`
	Replaced, Reverted, Undeployed bool `json:",omitzero"`
}

// deploymentSnapshot has what is not written of a deployment, and of a configuration that says it in another way.
type deploymentSnapshot struct {
	Deployment                 report.Deployment
	Version                    int `json:",omitzero"`
	MinHealthyPercent, MaxOver int
}

type timerSnapshot struct {
	At   time.Time
	Host int
}

type waveSnapshot struct {
	Step     int
	Reached  time.Time
	Seq      int64
	Lost     bool
	Attempt  int
	Begun    int64
	Open     bool
	Done     bool
	Failures int
	Failed   time.Time
	RetryAt  time.Time
	Cause    string
}

// Snapshot is the state as Restore reads it: so whoever reads the log need not begin at its
// beginning. Its form is that of SnapshotVersion.
func (s *State) Snapshot() (json.RawMessage, error) {
	kept := snapshot{
		Head: s.head, Inventory: s.inventory, FirstRevision: s.firstRevision, Owner: s.owner, Asked: s.asked, Deleted: s.deleted, Orphans: s.orphans, TasksLeft: s.tasksLeft,
		LastFinished: s.lastFinished, Hosts: s.hosts, Zones: s.zones.by, Cordons: s.cordons, Cordonings: s.cordonings, Active: s.active != nil, Attempts: s.attempts,
		HostsKnown: s.hostsKnown, Finished: s.finished, Started: s.started, LastProgress: s.lastProgress, Unwatched: s.unwatched, Heard: s.heard, Pause: s.pause, Kept: s.kept, Waiting: s.waiting, Resumed: s.resumed,
		Clock: s.clock, Baked: s.baked,
	}
	w, v := s.wave, s.wave.verify
	kept.Wave = waveSnapshot{w.step, w.reached, w.seq, w.lost, v.attempt, v.seq, v.open, v.done, v.failures, v.failed, v.retryAt, v.cause}
	for _, r := range s.revisions {
		kept.Revisions = append(kept.Revisions, revisionSnapshot{r.Revision, r.task, r.owner, r.replaced, r.reverted, r.undeployed})
	}
	for _, d := range s.deployments {
		kept.Deployments = append(kept.Deployments, deploymentSnapshot{d, d.Version, d.Configuration.MinHealthyPercent, d.Configuration.MaxOver})
	}
	for _, t := range s.timers {
		if s.timerValid(t) {
			kept.Timers = append(kept.Timers, timerSnapshot{t.at, t.host})
		}
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("snapshot of environment %s: %w", s.name, err)
	}
	return data, nil
}

// Restore is the state of the environment of a name of which data is a Snapshot.
func Restore(name string, data json.RawMessage) (*State, error) {
	var kept snapshot
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("snapshot of environment %s: %w", name, err)
	}
	s := New(name)
	s.head, s.inventory, s.firstRevision, s.deleted, s.orphans, s.tasksLeft = kept.Head, kept.Inventory, kept.FirstRevision, kept.Deleted, kept.Orphans, kept.TasksLeft
	if s.owner = kept.Owner; s.owner < 0 || s.owner > len(kept.Revisions) {
		return nil, fmt.Errorf("snapshot of environment %s: it has no revision %d", name, s.owner)
	}
	s.asked = kept.Asked
	s.lastFinished, s.hosts, s.zones.by, s.cordonings = kept.LastFinished, kept.Hosts, kept.Zones, kept.Cordonings
	s.hostsKnown, s.finished, s.started, s.lastProgress, s.pause, s.kept = kept.HostsKnown, kept.Finished, kept.Started, kept.LastProgress, kept.Pause, kept.Kept
	s.unwatched, s.heard = kept.Unwatched, kept.Heard
	s.waiting, s.resumed, s.clock, s.baked = kept.Waiting, kept.Resumed, kept.Clock, kept.Baked
	if kept.Cordons != nil {
		s.cordons = kept.Cordons
	}
	if kept.Attempts != nil {
		s.attempts = kept.Attempts
	}
	w := kept.Wave
	if w.Step < 0 {
		return nil, fmt.Errorf("snapshot of environment %s: there is no step %d", name, w.Step)
	}
	s.wave = wave{w.Step, w.Reached, w.Seq, w.Lost, verification{w.Attempt, w.Begun, w.Open, w.Done, w.Failures, w.Failed, w.RetryAt, w.Cause}}
	for i, r := range kept.Revisions {
		if r.Revision.Definition == nil || r.Revision.Number != i+1 || r.Task < 1 || r.Task > len(kept.Revisions) || r.Owner < 0 || r.Owner > len(kept.Revisions) {
			return nil, fmt.Errorf("snapshot of environment %s: revision %d is none", name, i+1)
		}
		s.revisions = append(s.revisions, &revision{Revision: r.Revision, task: r.Task, owner: r.Owner, replaced: r.Replaced, reverted: r.Reverted, undeployed: r.Undeployed})
	}
	for _, d := range kept.Deployments {
		d.Deployment.Configuration.MinHealthyPercent, d.Deployment.Configuration.MaxOver = d.MinHealthyPercent, d.MaxOver
		d.Deployment.Version = d.Version
		s.deployments = append(s.deployments, d.Deployment)
	}
	if n := len(s.deployments); n > 0 {
		s.onlyOn(s.deployments[n-1].Only)
		if kept.Active {
			s.active = &s.deployments[n-1]
		}
		if r := s.deployments[n-1].Revision; r < 1 || r > len(s.revisions) {
			return nil, fmt.Errorf("snapshot of environment %s: it has no revision %d", name, r)
		}
	}
	return s, s.restoreHosts(kept)
}

// restoreHosts has the sets and totals be of the hosts.
func (s *State) restoreHosts(kept snapshot) error {
	s.sets = [hosts.Classes]ordered.Set{}
	for i, h := range s.hosts {
		if h == nil || h.Index != i || h.Status.Class < 0 || h.Status.Class >= hosts.Classes || slices.Contains(h.Tasks, nil) {
			return fmt.Errorf("snapshot of environment %s: host %d is none", s.name, i)
		}
		s.byName[h.Name] = h
		s.count(h, 1)
	}
	for _, t := range kept.Timers {
		if t.Host < 0 || t.Host >= len(s.hosts) {
			return fmt.Errorf("snapshot of environment %s: there is no host %d", s.name, t.Host)
		}
		s.timers.Push(timer{t.At, t.Host, s.hosts[t.Host].Generation})
	}
	return nil
}
