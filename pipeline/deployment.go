package pipeline

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// deployment is one revision on its way through the pipeline: its events, and what
// follows from them under the current layout.
type deployment struct {
	id       string
	revision string
	order    int           // of registration, from 1
	age      int           // order of the first deployment of the revision
	rollback *RollbackInfo // nil of one that goes through the pipeline
	seq      int64
	attempt  int
	since    time.Time                      // of the attempt
	started  map[deploylog.Target]time.Time // stages
	status   Status
	ended    mark // what ended it
	marks    map[deploylog.Target]*marks
	refs     map[string]string         // of artifacts, by kind
	fix      bool                      // released as one
	carries  Files                     // nil of one that a former version released
	brought  map[string]Files          // by later definitions, for manifests that it does not carry
	tries    map[entryKey]Tries        // failed ones of the present attempt
	reopened map[deploylog.Target]bool // hosts that failed before it, and of which nothing is recorded in it

	// Of its units, of one that a former version released nil: it follows the definition.
	manifests map[string]string
	adopted   map[string]bool // units that its revision adopted, however late they were introduced

	// What follows.
	stages  []stageRun
	left    int                    // stages not passed
	skipped map[string]skippedStep // introduced steps that it skipped somewhere
}

// skippedStep is where a revision skipped a step that it did not know: the host,
// and the later event of its chain.
type skippedStep struct {
	target deploylog.Target
	mark   mark
}

type stageRun struct {
	marks  *marks
	begun  bool // something in it happened
	passed bool // finished, or something after it happened: nothing in it is new
	groups []groupRun
}

type groupRun struct {
	marks    *marks
	begun    bool
	finished bool
	failed   int // hosts
	inFlight int // hosts
	reopened int // open hosts
	open     int // hosts neither finished nor failed
	hosts    []hostRun
	head     int32 // first open host
}

// hostRun is a host. Open hosts are linked, so that looking for the next steps
// costs nothing for the others.
type hostRun struct {
	marks      *marks
	last       int32 // index in the stage's chain of the last thing that happened
	stepFailed bool  // a step failed for good
	failed     bool  // so did the host
	closed     bool  // finished or failed
	reopened   bool  // it failed in an earlier attempt, and nothing is recorded of it in this one
	prev, next int32
}

// derive computes everything from the marks under a layout.
func (d *deployment) derive(l *layout) {
	d.stages, d.left = make([]stageRun, len(l.stages)), len(l.stages)
	for i := range l.stages {
		stage, run := &l.stages[i], &d.stages[i]
		run.marks = d.marks[stage.target]
		_, run.begun = run.marks.began()
		run.groups = make([]groupRun, len(stage.groups))
		for g := range stage.groups {
			run.groups[g] = d.deriveGroup(&stage.groups[g], stage.chain)
			run.begun = run.begun || run.groups[g].begun
		}
	}
	for i := range l.stages {
		if d.stages[i].begun {
			d.passBefore(l, i)
		}
		if d.stages[i].marks.has(stageFinished) {
			d.pass(i)
		}
	}
	for i := range l.stages {
		if d.elsewhere(&l.stages[i]) {
			d.pass(i)
		}
	}
	clear(d.skipped)
	if d.order <= l.newest {
		for t, m := range d.marks {
			d.recordSkips(l, t, *m)
		}
	}
}

func (d *deployment) deriveGroup(group *groupLayout, chain []string) groupRun {
	run := groupRun{marks: d.marks[group.target], head: none, hosts: make([]hostRun, len(group.hosts))}
	_, run.begun = run.marks.began()
	run.finished = run.marks.has(groupFinished)
	last := int32(none)
	for h := range group.hosts {
		host := &run.hosts[h]
		*host = hostRun{marks: d.marks[group.hosts[h].target], last: none, reopened: d.reopened[group.hosts[h].target], prev: none, next: none}
		if host.marks != nil {
			run.begun = true
			for _, k := range *host.marks {
				host.apply(chain, k.event)
			}
		}
		if host.closed {
			if host.failed {
				run.failed++
			}
			continue
		}
		run.open++
		if host.inFlight() {
			run.inFlight++
		}
		if host.reopened {
			run.reopened++
		}
		if last == none {
			run.head = int32(h)
		} else {
			run.hosts[last].next, host.prev = int32(h), last
		}
		last = int32(h)
	}
	return run
}

// apply folds in an event of the host. What a closed host still reports, because it
// was running when the pipeline changed, changes nothing.
func (h *hostRun) apply(chain []string, event string) {
	switch {
	case h.closed:
	case event == hostFailed:
		h.failed, h.closed = true, true
	case isFailure(event):
		h.stepFailed = true
	default:
		if i := slices.Index(chain, event); i >= 0 {
			h.last = max(h.last, int32(i))
			h.closed = i == len(chain)-1
		}
	}
}

// unlink removes a closed host from the list of open ones.
func (g *groupRun) unlink(host *hostRun) {
	if host.prev == none {
		g.head = host.next
	} else {
		g.hosts[host.prev].next = host.next
	}
	if host.next != none {
		g.hosts[host.next].prev = host.prev
	}
	g.open--
	if host.failed {
		g.failed++
	}
}

// begin marks a stage as begun: what is left of the stages before it is no longer
// new.
func (d *deployment) begin(l *layout, stage int) {
	if !d.stages[stage].begun {
		d.stages[stage].begun = true
		d.passBefore(l, stage)
	}
}

// passBefore passes the stages before one that has begun. A rollback is in one stage alone:
// what it did in a host group counts for no other stage to which that group has moved.
func (d *deployment) passBefore(l *layout, stage int) {
	if d.rollback != nil {
		return
	}
	for _, a := range l.stages[stage].ancestors {
		d.pass(a)
	}
}

func (d *deployment) pass(stage int) {
	if !d.stages[stage].passed {
		d.stages[stage].passed = true
		d.left--
	}
}

// recordSkips notes which introduced steps a host, member or not, skipped: something
// later in its chain came before them.
func (d *deployment) recordSkips(l *layout, t deploylog.Target, m marks) {
	at, ok := l.hostAt[t]
	if !ok {
		group, _, isHost := groupOf(t)
		if at, ok = l.groupAt[group]; !isHost || !ok {
			return
		}
	}
	stage := &l.stages[at.stage]
	for _, step := range stage.introduced {
		later := slices.IndexFunc(m, func(k mark) bool {
			return k.event == step.event || slices.Contains(stage.chain[step.at+1:], k.event)
		})
		if later < 0 || m[later].event == step.event {
			continue
		}
		if known, ok := d.skipped[step.event]; !ok || m[later].seq < known.mark.seq {
			d.skipped[step.event] = skippedStep{target: t, mark: m[later]}
		}
	}
}

// record folds in an event and what follows from it.
func (d *deployment) record(l *layout, e deploylog.Event) {
	if e.Name == stageStarted {
		d.started[e.Target] = e.CreatedAt
	}
	k := mark{event: e.Name, seq: e.Seq}
	if isFailure(e.Name) {
		if e.Attempt < d.attempt {
			return // of an abandoned attempt
		}
		k.cause = read(e.Data).Error
	}
	again := e.Attempt >= d.attempt && d.reopened[e.Target]
	if again {
		delete(d.reopened, e.Target)
	}
	if kind, ok := definition.ArtifactKind(e.Name); ok {
		d.refs[kind] = read(e.Data).Ref
	}
	if l == nil {
		d.add(e.Target, k)
		return
	}
	if at, ok := l.hostAt[e.Target]; ok {
		d.recordHost(l, at, e.Target, k, again)
	} else if at, ok := l.groupAt[e.Target]; ok {
		group := &d.stages[at.stage].groups[at.group]
		group.marks = d.add(e.Target, k)
		group.finished = group.finished || k.event == groupFinished
		if begins(k.event) {
			group.begun = true
			d.begin(l, at.stage)
		}
	} else if i, ok := l.stageAt[e.Target]; ok {
		d.stages[i].marks = d.add(e.Target, k)
		if begins(k.event) {
			d.begin(l, i)
		}
		if k.event == stageFinished {
			d.pass(i)
		}
	} else if m := d.add(e.Target, k); d.order <= l.newest {
		d.recordSkips(l, e.Target, *m)
	}
}

// recordHost folds in an event of a host; again is that it is the first of this attempt
// after the host failed in an earlier one.
func (d *deployment) recordHost(l *layout, at place, t deploylog.Target, k mark, again bool) {
	group := &d.stages[at.stage].groups[at.group]
	host := &group.hosts[at.host]
	if host.marks == nil {
		host.marks = d.add(t, k)
	} else {
		*host.marks = append(*host.marks, k)
	}
	group.begun = true
	was, flew := host.closed, host.inFlight()
	if again {
		host.reopened = false
		group.reopened--
	}
	host.apply(l.stages[at.stage].chain, k.event)
	if host.closed && !was {
		group.unlink(host)
	}
	switch flies := host.inFlight(); {
	case flies && !flew:
		group.inFlight++
	case flew && !flies:
		group.inFlight--
	}
	if d.order <= l.newest {
		d.recordSkips(l, t, *host.marks)
	}
	d.begin(l, at.stage)
}

func (d *deployment) add(t deploylog.Target, k mark) *marks {
	m := d.marks[t]
	if m == nil {
		both := &struct { // one allocation for what nearly all targets need
			marks
			room [8]mark
		}{}
		both.marks = both.room[:0]
		m = &both.marks
		d.marks[t] = m
	}
	*m = append(*m, k)
	return m
}

// retry drops failures: what failed is done again.
func (d *deployment) retry(attempt int, at time.Time) {
	d.attempt, d.since, d.status, d.ended = max(attempt, d.attempt+1), at, Running, mark{}
	clear(d.tries)
	for t, m := range d.marks {
		if t.Kind() == "host" && slices.ContainsFunc(*m, func(k mark) bool { return isFailure(k.event) }) {
			if d.reopened == nil {
				d.reopened = map[deploylog.Target]bool{}
			}
			d.reopened[t] = true
		}
		*m = slices.DeleteFunc(*m, func(k mark) bool { return isFailure(k.event) })
		if len(*m) == 0 {
			delete(d.marks, t)
		}
	}
}

// within reports whether the revision entered a batch, at its beginning or, since
// the pipeline changed, behind it, and has not left it.
func (d *deployment) within(b span) bool {
	from := &d.stages[b.from]
	if d.rollback != nil && !from.begun {
		return false
	}
	return (from.begun || from.passed) && !d.stages[b.to].passed
}

// holds reports whether the revision keeps others out of a batch.
func (d *deployment) holds(b span) bool { return d.status == Running && d.within(b) }
