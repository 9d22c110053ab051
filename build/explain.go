package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Workers says which workers serve a place, or would if they answered; nil is that it is not known.
type Workers func(p record.Place) []Worker

// Worker is one that can build jobs.
type Worker struct {
	Name   string
	Slots  int
	Silent bool // it does not answer, and so serves nothing and has no slots
}

// Explain returns, for what is at or below a target, why it does not move: of a group also of its jobs,
// of "" of all groups. What has ended well has no reason. It has the verdicts by which Decide yields steps.
func (s *State) Explain(t deploylog.Target, now time.Time, workers Workers) (all []reason.Reason) {
	defer s.recorded()()
	s.wake(now)
	e := explanation{State: s, workers: workers, places: make([]*service, len(s.places))}
	if t == "" {
		for _, g := range s.groups {
			all = append(all, e.group(g)...)
		}
		return all
	}
	id, number, ok := record.Parse(t)
	g := s.byID[id]
	switch {
	case !ok || g == nil || number > len(g.jobs):
		return nil
	case number > 0:
		return e.job(nil, g, int32(number-1))
	}
	all = e.group(g)
	for i := range g.jobs {
		all = e.job(all, g, int32(i))
	}
	return all
}

// explanation is what is found out once for all that is explained at one time.
type explanation struct {
	*State
	workers Workers
	places  []*service
	busy    map[string]int // jobs, by worker
}

// service is who serves a place.
type service struct {
	none  bool // nobody does
	full  bool
	slots int
}

// service is who serves a place, as far as that is known.
func (e *explanation) service(place int) *service {
	if e.places[place] != nil {
		return e.places[place]
	}
	of := &service{}
	e.places[place] = of
	if e.workers == nil {
		return of
	}
	if e.busy == nil {
		e.busy = map[string]int{}
		for _, g := range e.active {
			for i := g.inFlight.Next(0); i >= 0; i = g.inFlight.Next(i + 1) {
				e.busy[decode[record.Started](g.jobs[i].started).Worker]++
			}
		}
	}
	free := 0
	for _, w := range e.workers(e.State.places[place]) {
		of.slots += w.Slots
		free += max(0, w.Slots-e.busy[w.Name])
	}
	of.none, of.full = of.slots == 0, free == 0
	return of
}

func (e *explanation) details(g *group) reason.Details {
	return reason.Details{Group: g.id, Seq: g.seq, Cause: g.cause}
}

// group is why a group as a whole does not move.
func (e *explanation) group(g *group) (all []reason.Reason) {
	d, target := e.details(g), record.Group(g.id)
	add := func(code reason.Code) { all = append(all, d.Explain(code, target)) }
	switch g.state {
	case transition.Triggered, transition.Created:
		add(reason.NotQueued)
	case transition.Queued:
		if code := e.queuedFor(g, &d); code != reason.NoWorker { // of those each place says so
			add(code)
		}
		all = e.unserved(all, g)
	case transition.Dispatching:
		if g.stalled {
			add(reason.GroupStalled)
		}
		all = e.unserved(all, g)
	case transition.FailureCleanup:
		d.Others = phrase.Count(g.left(), "job")
		add(reason.Failing)
	case transition.Failed:
		add(reason.GroupFailed)
	case transition.Canceling, transition.Canceled:
		d.By, d.Cause = g.canceling.By, g.canceling.Reason
		if g.state == transition.Canceling {
			add(reason.Canceling)
		} else {
			add(reason.Canceled)
		}
	default:
	}
	if n := len(g.created.Unbuildable); n > 0 && g.state != transition.Canceled {
		first := g.created.Unbuildable[0]
		d.Cause = fmt.Sprintf("%s: %s", phrase.Cut(first.Package, 100), phrase.Cut(first.Cause, 500))
		if n > 1 {
			d.Cause += fmt.Sprintf("; and %d more", n-1)
		}
		add(reason.Unbuildable)
	}
	return all
}

// queuedFor is why a queued group does not start.
func (e *explanation) queuedFor(g *group, d *reason.Details) reason.Code {
	at := -1 // the first place that a worker serves, one with room rather than another
	for _, place := range g.serving() {
		if of := e.service(place); !of.none && (at < 0 || e.service(at).full && !of.full) {
			at = place
		}
	}
	if at < 0 {
		return reason.NoWorker
	}
	older, first := e.older(g)
	switch of := e.service(at); {
	case len(older) > 0 && (first || of.full || e.workers == nil):
		d.Others = phrase.First(older, 5)
		return reason.OlderFirst
	case of.full:
		d.Place, d.Slots = e.placeText(at), of.slots
		return reason.WorkersBusy
	case e.workers != nil:
		d.Place = e.placeText(at)
	}
	return reason.NotStarted
}

// unserved adds, for each place that no worker serves, that jobs of a group wait for one.
func (e *explanation) unserved(all []reason.Reason, g *group) []reason.Reason {
	waiting := map[int]int{} // jobs, by place
	for i := range g.jobs {
		switch g.jobs[i].state {
		case transition.Pending, transition.Schedulable, transition.Eligible, transition.JobLost:
			waiting[g.places[g.placeOf(int32(i))]]++
		default:
		}
	}
	for _, place := range slices.Sorted(maps.Keys(waiting)) {
		if !e.service(place).none {
			continue
		}
		d := e.details(g)
		d.Place, d.Jobs = e.placeText(place), waiting[place]
		all = append(all, d.Explain(reason.NoWorker, record.Group(g.id)))
	}
	return all
}

// older are the groups that are not done and come before one that is queued, and whether some
// of them are queued, too.
func (e *explanation) older(g *group) (ids []string, queued bool) {
	for _, o := range e.active {
		if o.counts[transition.Eligible] > 0 || o.running() > 0 {
			ids = append(ids, o.id)
		}
	}
	for _, o := range e.queued {
		if o.at < g.at && slices.ContainsFunc(o.serving(), func(place int) bool { return !e.service(place).none }) {
			ids, queued = append(ids, o.id), true
		}
	}
	return ids, queued
}

func (e *explanation) placeText(place int) string {
	p := e.State.places[place]
	return reason.Place(p.Platform, p.Workers)
}

// job adds why a job does not move; of one that is Built nothing.
func (e *explanation) job(all []reason.Reason, g *group, i int32) []reason.Reason {
	j, d := &g.jobs[i], e.details(g)
	d.Seq, d.Attempt, d.Lost, d.Cause = j.seq, int(j.attempt), int(j.lost), ""
	var code reason.Code
	switch j.state {
	case transition.Pending:
		code = reason.GroupWaits
	case transition.Schedulable:
		code, d.Others = reason.WaitsForJobs, g.awaited(i)
	case transition.Eligible:
		code = e.eligibleFor(g, i, &d)
	case transition.Dispatched:
		code, d.Worker = reason.InProgress, decode[record.Started](j.started).Worker
	case transition.JobLost:
		code, d.Others = reason.WaitsForJobs, g.awaited(i)
	case transition.JobFailed:
		code, d.Cause = reason.JobFailed, decode[record.Failed](j.ended).Cause
	case transition.DependencyFailed:
		code = reason.DependencyFailed
		if root := j.because - 1; root >= 0 && int(root) < len(g.jobs) {
			d.Failed, d.Cause = g.jobText(root), decode[record.Failed](g.jobs[root].ended).Cause
		}
	case transition.CancelPending:
		code, d.Seq, d.By, d.Cause = reason.Canceling, g.seq, g.canceling.By, g.canceling.Reason
		d.Worker = decode[record.Started](j.started).Worker
	case transition.CancelComplete:
		code, d.Seq, d.By, d.Cause = reason.Canceled, max(j.seq, g.seq), g.canceling.By, g.canceling.Reason
		if g.state == transition.Failed || g.state == transition.FailureCleanup {
			d.Cause = "its group fails fast: " + g.cause
		}
	default:
		return all
	}
	return append(all, d.Explain(code, record.Job(g.id, int(i)+1)))
}

// eligibleFor is why a job is not dispatched that needs nothing more.
func (e *explanation) eligibleFor(g *group, i int32, d *reason.Details) reason.Code {
	j, place := &g.jobs[i], g.places[g.placeOf(i)]
	if j.backingOff {
		d.Until = j.since.Time().Add(pauseAfter(int(j.lost)))
		d.Cause = decode[record.Lost](j.ended).Cause
		return reason.Rests
	}
	of := e.service(place)
	d.Place, d.Slots = e.placeText(place), of.slots
	switch {
	case of.none:
		return reason.NoWorker
	case !of.full:
		return reason.Ready
	}
	var older []string
	for _, o := range e.active {
		if o.at < g.at && o.hasEligibleAt(place) {
			older = append(older, o.id)
		}
	}
	if len(older) > 0 {
		d.Others = phrase.First(older, 5)
		return reason.OlderFirst
	}
	return reason.WorkersBusy
}

func (g *group) hasEligibleAt(place int) bool {
	for k := range g.queues {
		if g.places[k] == place && g.queues[k].eligible.Len() > 0 {
			return true
		}
	}
	return false
}

// awaited are the jobs that one waits for.
func (g *group) awaited(i int32) string {
	const named = 5
	var names []string
	more := 0
	add := func(n int32, waits bool) {
		text := "a job that there is not"
		if int(n) < len(g.jobs) {
			state := g.jobs[n].state
			if state == transition.Built || waits && state.Ended() {
				return
			}
			text = fmt.Sprintf("%s, %s", g.jobText(n), state)
		}
		if len(names) == named {
			more++
			return
		}
		names = append(names, text)
	}
	for _, e := range g.needs(int(i)) {
		add(e.job(), e&waits != 0)
	}
	for _, n := range g.lacks[i] {
		add(n, false)
	}
	noun := "job "
	if len(names) > 1 {
		noun = "jobs "
	}
	text := noun + strings.Join(names, "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// jobText is the number of a job with its package.
func (g *group) jobText(i int32) string {
	spec := &g.specs[i]
	name := phrase.Cut(spec.Package, 100)
	if spec.Of > 1 {
		name += fmt.Sprintf("#%d", spec.Pass)
	}
	return fmt.Sprintf("%d (%s)", i+1, name)
}
