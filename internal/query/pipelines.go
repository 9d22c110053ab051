package query

import (
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Pipelines answers questions about the pipelines of a log, as they were right after the
// event up to which it is followed.
type Pipelines struct {
	*pipelines.Pipelines
	overview *overview
	Log      deploylog.Log
}

// SnapshotVersion is that of the events that a snapshot of pipelines holds: those that their states
// need, and those that the overview does. It is raised when either needs others.
const SnapshotVersion = 100*pipeline.NeededVersion + 1

// NewPipelines knows nothing until it is told to Follow. It begins with a snapshot of the log
// where there is one, and keeps one there where it had to read much.
func NewPipelines(log deploylog.Log, now func() time.Time) *Pipelines {
	return newPipelines(log, now, 0)
}

// newPipelines keeps a snapshot after so many events; 0 is as NewPipelines does.
func newPipelines(log deploylog.Log, now func() time.Time, after int) *Pipelines {
	overview := newOverview()
	p := &Pipelines{Pipelines: pipelines.New(log, now, overview.receive), overview: overview, Log: log}
	p.KeepSnapshots(reconcile.Needs[*pipeline.State]{
		Of: func(s *pipeline.State, e deploylog.Event) (deploylog.Event, bool) {
			needed, ok := s.Needed(e)
			return needed, ok || overview.needs(e)
		},
		Others:  overview.others,
		Version: SnapshotVersion,
		After:   after,
	})
	return p
}

// Check refuses the name of a pipeline that there is not, or not any more.
func (p *Pipelines) Check(name string) error {
	deleted, err := reconcile.Get(p.Fold, name, (*pipeline.State).Deleted)
	if err == nil && deleted > 0 {
		return unknown("pipeline %s was deleted (event %d): deployster pipeline apply makes it anew, pipeline status --at %d shows what it was", name, deleted, deleted-1)
	}
	return err
}

// Definitions are those of the pipelines of those names; none is all.
func (p *Pipelines) Definitions(names ...string) (definitions []*definition.Definition) {
	for name, s := range p.All() {
		if d := s.Definition(); d != nil && p.Exists(s) && (len(names) == 0 || slices.Contains(names, name)) {
			definitions = append(definitions, d)
		}
	}
	return definitions
}

// PipelineRow is a pipeline in a list.
type PipelineRow struct {
	Deployed   string   `json:"deployed"` // revision; "" is none
	Failed     string   `json:"failed"`
	InProgress []string `json:"in_progress"`
	Name       string   `json:"pipeline"`
	Stages     int      `json:"stages"`

	Pauses []pipeline.PauseInfo `json:"pauses"` // of it and its stages
}

// List is the pipelines, and the events that deleted those that there are not any more.
func (p *Pipelines) List() (rows []PipelineRow, deleted map[string]int64) {
	rows, deleted = []PipelineRow{}, map[string]int64{}
	for name, s := range p.All() {
		if event := s.Deleted(); event > 0 {
			deleted[name] = event
			continue
		}
		stages := 0 // where what defined it cannot be read
		if d := s.Definition(); d != nil {
			stages = len(d.Stages)
		}
		latest := p.overview.latestOf(record.Target(name))
		rows = append(rows, PipelineRow{
			Deployed: latest.Deployed, Failed: latest.Failed, InProgress: InProgress(s), Name: name, Stages: stages,
			Pauses: append([]pipeline.PauseInfo{}, s.Pauses()...),
		})
	}
	return rows, deleted
}

// InProgress are the revisions whose deployments have not ended.
func InProgress(s *pipeline.State) []string {
	running := []string{}
	for _, r := range s.Registrations() {
		if r.Status == deployment.Running {
			running = append(running, r.Revision)
		}
	}
	return running
}

// Release is a revision that was released.
type Release struct {
	pipeline.Registration
	Released time.Time `json:"released_at,omitzero"`
	By       string    `json:"released_by,omitempty"`
	Ended    time.Time `json:"ended_at,omitzero"` // its deployment did; zero while it is under way
	TookMS   int64     `json:"took_ms,omitempty"` // from its release to its end
}

// Why is by whom and why the deployment of the revision ended as it did, as others wrote it.
func (r Release) Why() string {
	what, why := "", r.ended()
	switch {
	case r.Rollback != nil:
		what = rolledBack(r.Rollback)
	case r.Redo != nil:
		what = doneAgain(r.Redo)
	default:
		return why
	}
	if why != "" {
		why = "; " + why
	}
	return what + why
}

func (r Release) ended() string {
	cause, _, _ := strings.Cut(r.Cause, "\n")
	if r.SupersededBy != "" {
		cause = "by " + r.SupersededBy
	}
	if r.EndedBy == "" || r.Status == deployment.Failed { // whose cause names the person
		return cause
	}
	if cause == "" {
		return "by " + r.EndedBy
	}
	return "by " + r.EndedBy + ": " + cause
}

func rolledBack(r *record.RollbackInfo) string {
	text := "rollback of " + r.Stage
	if r.Replaces != "" {
		text += " from " + r.Replaces
	}
	if r.By != "" {
		text += " by " + r.By
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

func doneAgain(r *record.RedoInfo) string {
	text := string(r.What) + " of " + r.Stage
	if len(r.Hosts) > 0 {
		const named = 5
		var hosts []string
		for _, t := range r.Hosts {
			_, host, _ := record.GroupOf(t)
			hosts = append(hosts, host)
		}
		text += " on " + phrase.First(hosts, named)
	}
	if r.By != "" {
		text += " by " + r.By
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// Releases are the revisions of a pipeline in the order of their release.
func (p *Pipelines) Releases(name string) ([]Release, error) {
	return reconcile.Get(p.Fold, name, func(s *pipeline.State) (all []Release) {
		for _, r := range s.Registrations() {
			began := p.overview.released[r.Deployment]
			release := Release{Registration: r, Released: began.at, By: began.by, Ended: began.ended}
			if r.Status == deployment.Running {
				release.Ended = time.Time{}
			}
			if !release.Ended.IsZero() {
				release.TookMS = release.Ended.Sub(release.Released).Milliseconds()
			}
			all = append(all, release)
		}
		return all
	})
}

// Release is the revision of a pipeline with that name that was released last, or rolled back
// to, or the deployment with that id.
func (p *Pipelines) Release(name, revision string) (Release, error) {
	all, err := p.Releases(name)
	if err != nil {
		return Release{}, err
	}
	for _, r := range slices.Backward(all) {
		if r.Revision == revision && r.Redo == nil || r.Deployment == revision {
			return r, nil
		}
	}
	return Release{}, unknown("pipeline %s has no revision %q: deployster pipeline history %s lists them", name, revision, name)
}

// PipelineStatus is the status of a pipeline at one moment.
type PipelineStatus struct {
	Name    string                 `json:"pipeline"`
	Event   int64                  `json:"event"` // the newest
	Rows    []TargetRow            `json:"targets"`
	Waiting []Alike[reason.Reason] `json:"waiting"` // hosts that are alike together, see AlikeReasons
	Pauses  []pipeline.PauseInfo   `json:"pauses"`  // of it and its stages

	Shut []reason.Reason `json:"-"` // why host groups hold, and stages let no later revision in, by By

	Batches   []definition.Batch `json:"batches,omitempty"`
	Inventory string             `json:"inventory,omitempty"`       // that it is bound to
	Elsewhere *reason.Reason     `json:"other_inventory,omitempty"` // why nobody is at work who has the inventory here
	underWay  bool               // a revision is

	LeftOut map[string]LeftOut `json:"left_out,omitempty"` // of the lists, see Bound
}

// Here has it said of each where revisions are under way that who has this inventory leaves
// the pipeline alone, unless somebody controls it.
func (p *Pipelines) Here(all []PipelineStatus, inventory string) {
	for i := range all {
		if all[i].underWay {
			all[i].Elsewhere = p.Elsewhere(all[i].Name, inventory)
		}
	}
}

// TargetRow is a pipeline, stage, host group or host, what was deployed and failed
// there last, and the revisions in progress there.
type TargetRow struct {
	pipeline.Place
	LatestRevisions
	Revisions []pipeline.Row `json:"in_progress"` // oldest first

	Hosts       int      `json:"hosts,omitempty"`        // of a host group
	FailedHosts []string `json:"failed_hosts,omitempty"` // of these, on which what is deployed failed within the budget

	Failing map[string][]string `json:"failing,omitempty"` // of a host group: on which hosts revisions in progress failed

	Again map[string]string `json:"-"` // what deployments do again, by their ids: rerun of smoke

	LeftOut map[string]LeftOut `json:"left_out,omitempty"` // of the lists, see Bound
}

// Status is that of the pipelines of those names, none is all, with or without a row for
// every host, and with a reason for each of what waits or one for hosts that are alike.
func (p *Pipelines) Status(hosts, each bool, names ...string) ([]PipelineStatus, error) {
	if len(names) == 0 {
		names = p.Present()
	}
	all := []PipelineStatus{}
	for _, name := range names {
		status, err := reconcile.Get(p.Fold, name, func(s *pipeline.State) PipelineStatus { return p.status(name, s, hosts, each) })
		if err != nil {
			return nil, err
		}
		all = append(all, status)
	}
	return all, nil
}

func (p *Pipelines) status(name string, s *pipeline.State, hosts, each bool) PipelineStatus {
	revisions, failing := map[deploylog.Target][]pipeline.Row{}, map[deploylog.Target]map[string][]string{}
	for _, r := range s.Status() {
		if hosts || r.Host == "" {
			revisions[r.Target] = append(revisions[r.Target], r)
		}
		if r.Host != "" && r.Progress == pipeline.HasFailure {
			group := record.GroupTarget(name, r.Group)
			if failing[group] == nil {
				failing[group] = map[string][]string{}
			}
			failing[group][r.Revision] = append(failing[group][r.Revision], r.Host)
		}
	}
	status := PipelineStatus{Name: name, Event: s.Head(), Inventory: s.Bound(), underWay: len(InProgress(s)) > 0, Rows: []TargetRow{}, Pauses: append([]pipeline.PauseInfo{}, s.Pauses()...)}
	if d := s.Definition(); d != nil {
		status.Batches = d.Batches
	}
	status.Shut = append(s.Holds(), s.Stops()...)
	places, again := s.Places(), again(s)
	for i, place := range places {
		row := TargetRow{Place: place, LatestRevisions: p.overview.latestOf(place.Target), Revisions: revisions[place.Target], Again: again}
		if place.Group != "" && place.Host == "" {
			row.Hosts, row.FailedHosts = p.overview.failedHosts(place, places[i+1:])
			row.Failing = failing[place.Target]
		}
		if hosts || row.Host == "" {
			status.Rows = append(status.Rows, row)
		}
	}
	var waiting []reason.Reason
	for _, r := range p.unexpired(s.Explain(record.Target(name))) {
		if r.Blocking() && (r.Code != reason.IsPaused || r.Name != "" || r.Revision == "") { // that all is paused is said once
			waiting = append(waiting, r)
		}
	}
	status.Waiting = AlikeReasons(waiting, each)
	return status
}

// unexpired are reasons without what was asked for and has expired.
func (p *Pipelines) unexpired(all []reason.Reason) []reason.Reason {
	return slices.DeleteFunc(all, func(r reason.Reason) bool {
		return r.Code == reason.AwaitsAcceptance && !r.Until.After(p.Now())
	})
}

// again is what deployments that have not finished do again, by their ids.
func again(s *pipeline.State) map[string]string {
	again := map[string]string{}
	for _, r := range s.Registrations() {
		if r.Redo != nil && r.Status != deployment.Finished {
			again[r.Deployment] = string(r.Redo.What) + " of " + r.Redo.Stage
		}
	}
	return again
}

// Explain returns why what is at or below a target of a pipeline makes no progress. What
// the state of the pipeline takes for ready is, at present, being worked on or waits for
// somebody who does.
func (p *Pipelines) Explain(t deploylog.Target, hosts pipelines.Hosts, present bool) ([]reason.Reason, error) {
	name, _ := record.NameOf(t)
	if err := p.Check(name); err != nil {
		return nil, err
	}
	idle := present && !p.Controlled(name)
	scheduler := "" // what there is to say of those that run
	switch {
	case idle:
		scheduler = p.Others(name)
	case present:
		scheduler = p.Silent(name)
	}
	holders := p.holders()
	all, err := reconcile.Get(p.Fold, name, func(s *pipeline.State) []reason.Reason {
		all, d := append([]reason.Reason{}, p.unexpired(s.Explain(t))...), s.Definition()
		if d == nil {
			return all
		}
		_, _ = hosts.Members(d) // reads the inventory, for the slots
		foreign := s.OtherThan(hosts.Identity())
		explain := func(r *reason.Reason) {
			if r.Code != reason.Ready && r.Code != reason.AwaitsRetry {
				return
			}
			p.explainReady(r, hosts, idle, holders)
			explainDeploying(r, d, idle)
			explainScheduler(r, scheduler)
			if r.Code == reason.NoScheduler && foreign != nil {
				r.Code, r.Name, r.Cause, r.By, r.ByEvent, r.Seq = foreign.Code, foreign.Name, foreign.Cause, foreign.By, foreign.ByEvent, foreign.Seq
			}
		}
		for i := range all {
			if root := all[i].Root; root != nil {
				explain(root)
			}
			explain(&all[i])
		}
		return all
	})
	for i := range all {
		p.explainHolder(&all[i])
	}
	if err == nil && len(all) > 0 && all[0].Code == reason.NoTarget {
		return nil, unknown("%s: %s", t, all[0].Message())
	}
	return all, err
}

const (
	// beginBound is how long the engine of a step may take to answer before that is told,
	// and quietBound how long nothing may come of a run.
	beginBound = 15 * time.Second
	quietBound = time.Minute
)

// Elsewhere is why a pipeline that nobody controls would be left alone by who has an
// inventory; nil where it would not.
func (p *Pipelines) Elsewhere(name, inventory string) (why *reason.Reason) {
	if !p.Controlled(name) {
		_ = p.Ask(name, func(s *pipeline.State) error { // of one that there is not nothing is left alone
			why = s.OtherThan(inventory)
			return nil
		})
	}
	return why
}

// explainReady finds out who works on an entry, or what that waits for.
func (p *Pipelines) explainReady(r *reason.Reason, hosts pipelines.Hosts, idle bool, holders map[string][]pipeline.Holder) {
	entry := step{r.Deployment, r.Target, r.Event}
	if by := p.working(func(s step) bool { return s == entry }); len(by) > 0 {
		r.Code, r.Run, r.Seq, r.Since = reason.InRun, by[0].run, by[0].seq, by[0].at
		if p.Now().Sub(by[0].new) > quietBound {
			r.Quiet = by[0].new
		}
		return
	}
	if !idle && p.Now().Sub(r.Since) > beginBound && !r.Since.IsZero() {
		r.Code, r.Seq = reason.InRun, 0
		return
	}
	failed := r.Code == reason.AwaitsRetry
	if failed {
		r.Run = p.overview.failed[entry].run // "" where it failed before it began a run
	}
	if failed && (idle || !r.Until.After(p.Now())) {
		r.Cause = r.LastTry() + ": " + r.Cause
	}
	switch {
	case idle:
		r.Code = reason.NoScheduler
		return
	case failed && r.Until.After(p.Now()):
		return
	}
	r.Code = reason.AwaitsSlot
	if others := p.working(func(s step) bool { return p.together(r.Target, s.target) }); len(others) > 0 {
		r.ByEvent, r.By, r.Run, r.Seq = others[0].event, others[0].target, others[0].run, others[0].seq
	}
	if r.Target.Kind() == "host" {
		p.explainHost(r, hosts, holders)
	}
}

// explainHost finds out who has the slots of the host of an entry.
func (p *Pipelines) explainHost(r *reason.Reason, hosts pipelines.Hosts, holders map[string][]pipeline.Holder) {
	host := string(r.Target)[strings.LastIndexByte(string(r.Target), '/')+1:]
	busy := p.working(func(s step) bool { return s.onHostOf(r.Target) && p.together(r.Target, s.target) })
	if len(busy) > 0 && len(busy) >= hosts.Slots(host) {
		r.Code, r.ByEvent, r.By, r.Run, r.Seq = reason.AwaitsHost, busy[0].event, busy[0].target, busy[0].run, busy[0].seq
		return
	}
	held := slices.DeleteFunc(slices.Clone(holders[host]), func(h pipeline.Holder) bool { return !p.together(r.Target, h.Target) })
	own := slices.ContainsFunc(held, func(h pipeline.Holder) bool { return h.Deployment == r.Deployment && h.Target == r.Target })
	if len(held) > 0 && !own && len(held) >= hosts.Slots(host) {
		r.Code, r.ByEvent, r.By, r.Holder, r.HeldBy, r.Run, r.Seq = reason.AwaitsHost, held[0].Event, held[0].Target, held[0].Revision, held[0].Deployment, "", 0
	}
}

// together reports whether one scheduler may control the pipelines of two targets: each has
// slots of its own. A pipeline that no scheduler controls keeps none.
func (p *Pipelines) together(a, b deploylog.Target) bool {
	one, _ := record.NameOf(a)
	other, _ := record.NameOf(b)
	return one == other || p.Controlled(other) && !p.Apart(one, other)
}

// explainHolder adds what a deployment waits for that keeps the slot of a host, which may be
// of another pipeline.
func (p *Pipelines) explainHolder(r *reason.Reason) {
	if r.Code != reason.AwaitsHost || r.HeldBy == "" {
		return
	}
	name, _ := record.NameOf(r.By)
	_ = p.Ask(name, func(s *pipeline.State) error { // of one that there is not nothing is known
		r.Called = s.Called(r.HeldBy)
		for _, holder := range s.Explain(r.By) {
			if holder.Deployment == r.HeldBy && holder.Target == r.By && holder.Event == r.ByEvent {
				if holder.Code == reason.Ready && !p.Controlled(name) {
					holder.Code = reason.NoScheduler
				}
				r.Root = &holder
			}
		}
		return nil
	})
}

// holders are the deployments of all pipelines that keep slots of hosts, by host.
func (p *Pipelines) holders() map[string][]pipeline.Holder {
	all := map[string][]pipeline.Holder{}
	for _, s := range p.All() {
		for _, h := range s.Holding() {
			all[h.Host] = append(all[h.Host], h)
		}
	}
	return all
}

// explainScheduler names a scheduler that is to do a step and does nothing, or those that
// are not to.
func explainScheduler(r *reason.Reason, scheduler string) {
	if r.Scheduler = scheduler; scheduler != "" && r.Code != reason.NoScheduler && r.Code != reason.InRun {
		r.Code = reason.SilentScheduler
	}
}

// explainDeploying names the environment for which a stage waits.
func explainDeploying(r *reason.Reason, d *definition.Definition, idle bool) {
	for i := range d.Stages {
		if s := &d.Stages[i]; r.Event == record.StageDeployed && !idle && record.StageTarget(d.Name, s.Name) == r.Target {
			r.Code, r.Name, r.Seq = reason.AwaitsEnvironment, s.Environment, 0
		}
	}
}
