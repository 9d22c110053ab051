package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner/report"
)

// phase is where a resource is on its way through a run.
type phase int

const (
	waiting phase = iota
	active
	done
	failed
	skipped
)

// ended reports whether nothing more will happen to the resource in this run.
func (p phase) ended() bool { return p >= done }

// row is one resource as a person sees it. All its text is clean.
type row struct {
	name, typ string
	deps      []string

	phase     phase
	doing     string    // active: what; over: how it ended
	progress  string    // active: an image being fetched
	last      string    // active: the last line of output
	since     time.Time // active: when it started
	lastEvent time.Time // when its last event was
	duration  time.Duration
	actions   []string // actions done
	changed   bool     // done: not as it was
	errors    []string // failed: why, in lines
	output    []string // failed: the last lines of output
}

// board is a run as a person sees it, folded from its events. Events in any order
// are accepted.
type board struct {
	command, manifest, engine, plugs, run string

	announced bool // by RunStarted; planning has no run and announces nothing
	started   time.Time
	rows      []*row // in graph order
	byName    map[string]*row
	instances map[string][]string // names of those that were found for a resource late
	endedRows []*row              // in the order in which they ended
	pulls     map[string]string   // images fetched for no resource in particular
	ended     *report.Event
}

func newBoard() *board {
	return &board{byName: map[string]*row{}, instances: map[string][]string{}, pulls: map[string]string{}}
}

// behind are names with those of instances in the place of what these are of.
func (b *board) behind(names []string) (all []string) {
	for _, name := range names {
		if instances, expanded := b.instances[name]; expanded {
			all = append(all, instances...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// row finds a resource's row. One that was never announced gets one.
func (b *board) row(name string) *row {
	r, ok := b.byName[name]
	if !ok {
		r = &row{name: clean(name)}
		b.byName[name] = r
		b.rows = append(b.rows, r)
	}
	return r
}

// fold folds in an event and returns false when the run has ended before.
func (b *board) fold(e report.Event) bool {
	if b.ended != nil {
		return false
	}
	if b.started.IsZero() {
		b.started = e.Time
	}
	switch e.Kind {
	case report.RunStarted:
		b.begin(e)
	case report.RunFinished, report.RunFailed:
		b.ended = &e
	case report.ResourceExpanded:
		b.expand(e)
	case report.Warning:
	default:
		if e.Resource != "" {
			b.foldResource(b.row(e.Resource), e)
		} else if e.Kind == report.Pulling {
			b.pull(e)
		}
	}
	return true
}

func (b *board) begin(e report.Event) {
	b.announced, b.started = true, e.Time
	b.command, b.manifest = clean(e.Data["command"]), clean(e.Data["manifest"])
	b.engine, b.plugs, b.run = clean(e.Data["engine"]), clean(e.Data["plugs"]), clean(e.Data["run"])
	if b.command == "destroy" {
		b.beginBackwards(e.Resources)
		return
	}
	for _, h := range e.Resources {
		r := b.row(h.Name)
		r.typ, r.deps = clean(h.Type), h.DependsOn
	}
}

// beginBackwards is for a destroy: a resource waits for those that depend on it.
func (b *board) beginBackwards(headers []report.ResourceHeader) {
	for _, h := range slices.Backward(headers) {
		r := b.row(h.Name)
		r.typ = clean(h.Type)
		for _, name := range h.DependsOn {
			if slices.ContainsFunc(headers, func(d report.ResourceHeader) bool { return d.Name == name }) {
				d := b.row(name)
				d.deps = append(d.deps, h.Name)
			}
		}
	}
}

// expand puts the instances of a resource in its place.
func (b *board) expand(e report.Event) {
	at := slices.Index(b.rows, b.row(e.Resource))
	rest := slices.Clone(b.rows[at+1:])
	b.rows = b.rows[:at]
	delete(b.byName, e.Resource)
	b.instances[e.Resource] = nil
	for _, h := range e.Resources {
		r := b.row(h.Name)
		r.typ = clean(h.Type)
		if b.command != "destroy" {
			r.deps = h.DependsOn
		}
		b.instances[e.Resource] = append(b.instances[e.Resource], h.Name)
	}
	b.rows = append(b.rows, rest...)
}

func (b *board) pull(e report.Event) {
	if e.Total > 0 && e.Current >= e.Total {
		delete(b.pulls, e.Image)
		return
	}
	b.pulls[e.Image] = pulling(brief(clean(e.Image)), e)
}

func (b *board) foldResource(r *row, e report.Event) {
	if r.phase.ended() {
		return
	}
	r.lastEvent = e.Time
	if e.Kind == report.ResourceInitialized || e.Removing { // nothing announces what is found out late to be no longer declared
		r.typ = cmp.Or(r.typ, clean(e.Image))
	}
	switch e.Kind {
	case report.ResourceStarted:
		r.activate(e.Time, "starting")
	case report.Pulling:
		r.activate(e.Time, r.doing)
		r.progress = pulling(brief(clean(e.Image)), e)
	case report.Waiting:
		r.activate(e.Time, clean(e.Text))
	case report.Working:
		b.working(r, e)
	case report.Line:
		r.last = clean(e.Text)
	case report.ResourceInitialized, report.StateRead:
		r.progress, r.last = "", ""
		r.phase, r.doing = waiting, ""
	case report.ResourceResolved:
		b.resolved(r, e)
	case report.ActionStarted, report.ActionFinished, report.ActionFailed:
		r.foldAction(e)
	case report.ResourceVerified:
		r.activate(e.Time, "verified")
	case report.ResourceDestroyed:
		r.activate(e.Time, "gone")
	case report.ResourceFinished:
		r.changed = e.Status == report.Changed || e.Status == report.Destroyed || e.Status == "" && len(r.actions) > 0
		b.end(r, e, done, result(e.Status, r.changed, r.actions))
	case report.ResourceFailed:
		r.fail(e)
		b.end(r, e, failed, "failed")
	case report.ResourceSkipped:
		b.end(r, e, skipped, skippedBecause(e))
	default: // nothing to see
	}
}

func (r *row) foldAction(e report.Event) {
	r.progress, r.last = "", ""
	switch e.Kind {
	case report.ActionStarted:
		r.activate(e.Time, doing(e))
	case report.ActionFinished:
		r.actions = append(r.actions, clean(e.Action))
	default: // failed
		r.errors, r.output = cleanLines(actionFailure(e)), cleanAll(e.Output)
	}
}

// fail takes over why a resource failed, where its event says more than that of
// the action.
func (r *row) fail(e report.Event) {
	if e.Error != "" {
		r.errors = cleanLines(e.Error)
	}
	if len(e.Output) > 0 {
		r.output = cleanAll(e.Output)
	}
	r.output = trimReason(r.output, r.errors)
}

func (b *board) working(r *row, e report.Event) {
	r.progress = ""
	switch {
	case e.Action == "init":
		r.activate(e.Time, "initializing")
	case e.Action == "state" && len(r.actions) > 0:
		r.activate(e.Time, "verifying")
	case e.Action == "state":
		r.activate(e.Time, "reading state")
	default:
		r.activate(e.Time, r.doing)
	}
}

func (b *board) resolved(r *row, e report.Event) {
	text := resolution(e)
	if b.planning() {
		b.end(r, e, done, text)
		r.changed = e.Status != report.Valid && e.Status != report.Absent
		return
	}
	r.activate(e.Time, text)
}

func (b *board) end(r *row, e report.Event, p phase, how string) {
	r.duration = e.Duration
	if r.duration == 0 && r.phase == active {
		r.duration = e.Time.Sub(r.since)
	}
	r.phase, r.doing, r.progress, r.last = p, how, "", ""
	b.endedRows = append(b.endedRows, r)
}

// activate sets what a resource is doing now, and since when it is active.
func (r *row) activate(at time.Time, doing string) {
	if r.phase != active {
		r.phase, r.since = active, at
	}
	r.doing = doing
}

// status says in a few words what a row is doing, waiting for, or how it ended.
func (b *board) status(r *row) string {
	if r.phase != waiting {
		return r.doing
	}
	var open []string
	for _, name := range b.behind(r.deps) {
		if d, ok := b.byName[name]; ok && d.phase != done {
			open = append(open, d.name)
		}
	}
	switch {
	case len(open) > 3:
		return fmt.Sprintf("waits for %s and %d more", strings.Join(open[:2], ", "), len(open)-2)
	case len(open) > 0:
		return "waits for " + strings.Join(open, ", ")
	case b.ended != nil:
		return "not started"
	default:
		return "waits for its turn"
	}
}

// planning reports whether resources are only observed: the plan or report is the
// output, and everything shown before is news.
func (b *board) planning() bool { return !b.announced || b.command == "plan" }

// header is the first line of a run: what, where, and under which id.
func (b *board) header() string {
	parts := make([]string, 0, 4)
	if b.manifest != "" {
		parts = append(parts, b.manifest)
	}
	size := phrase.Count(len(b.rows), "resource")
	switch b.plugs {
	case "", "0":
	case "1":
		size += ", 1 plug"
	default:
		size += ", " + b.plugs + " plugs"
	}
	parts = append(parts, size)
	if b.engine != "" {
		parts = append(parts, b.engine)
	}
	if b.run != "" {
		parts = append(parts, "run "+b.run)
	}
	return strings.Join(parts, " · ")
}
