package deployment

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Deployment is one revision on its way through the pipeline: its events, and what
// follows from them under the current layout.
type Deployment struct {
	ID       string
	Revision string
	Order    int                  // of registration, from 1
	Age      int                  // Order of the first deployment of the revision
	Original string               // the first deployment of the revision; "" is itself
	Rollback *record.RollbackInfo // nil of one that rolls no stage back
	Redo     Redone
	Seq      int64
	Attempt  int
	Since    time.Time                      // of the attempt
	Started  map[deploylog.Target]time.Time // stages
	Status   Status
	Ended    record.Mark // what ended it
	End      *End        // how it is to end once its closing stages have; nil is not decided
	Marks    map[deploylog.Target]*record.Marks
	Refs     map[string]string       // of artifacts, by kind
	Fix      bool                    // released as one
	Takes    []upstream.Input        // revisions of other pipelines
	Carries  record.Files            // nil of one that a former version released
	Brought  map[string]record.Files // by later definitions, for manifests that it does not carry

	// What definitions named themselves, for those of Brought that one brought by who may bring no more.
	BroughtBound map[string]record.Files

	Bound    bool                      // it may bring no more than what its pipeline names itself and allows
	Own      record.Files              // what that names itself; nil is not known
	Filled   bool                      // an artifact of it was recorded by who may bring no more
	Tries    map[EntryKey]Tries        // Failed ones of the present attempt
	Reopened map[deploylog.Target]bool // Hosts that failed before it, and of which nothing is recorded in it

	FailedHosts map[deploylog.Target]record.Mark // in the present attempt

	Approvals map[deploylog.Target][]approval.Given // of stages that need several

	// Of its units, of one that a former version released nil: it follows the definition.
	Manifests map[string]string
	Adopted   map[string]bool // Units that its revision adopted, however late they were introduced

	// What follows.
	Stages  []stageRun
	Left    int                    // Stages not passed
	Skipped map[string]SkippedStep // Introduced steps that it skipped somewhere
}

// SkippedStep is where a revision skipped a step that it did not know: the host,
// and the later event of its chain.
type SkippedStep struct {
	Target deploylog.Target
	Mark   record.Mark
}

type stageRun struct {
	Marks  *record.Marks
	Begun  bool // something in it happened
	Passed bool // finished, or something after it happened: nothing in it is new
	Groups []groupRun
}

// Derive computes everything from the marks under a layout.
func (d *Deployment) Derive(l *Layout) {
	d.Stages, d.Left = make([]stageRun, len(l.Stages)), len(l.Stages)
	for i := range l.Stages {
		stage, run := &l.Stages[i], &d.Stages[i]
		run.Marks = d.Marks[stage.Target]
		_, run.Begun = run.Marks.Began()
		run.Groups = make([]groupRun, len(stage.Groups))
		for g := range stage.Groups {
			run.Groups[g] = d.deriveGroup(&stage.Groups[g], stage.Chain)
			run.Begun = run.Begun || run.Groups[g].Begun
		}
	}
	for i := range l.Stages {
		if d.Stages[i].Begun {
			d.passBefore(l, i)
		}
		if l.Stages[i].When == definition.WhenFailed && !d.Stages[i].Begun {
			d.pass(i)
		}
		if d.Stages[i].Marks.Has(record.StageFinished) {
			d.pass(i)
		}
	}
	for i := range l.Stages {
		if d.Elsewhere(&l.Stages[i]) {
			d.pass(i)
		}
	}
	clear(d.Skipped)
	if d.Order <= l.newest {
		for t, m := range d.Marks {
			d.recordSkips(l, t, *m)
		}
	}
}

// begin marks a stage as begun: what is left of the stages before it is no longer
// new.
func (d *Deployment) begin(l *Layout, stage int) {
	if run := &d.Stages[stage]; !run.Begun {
		run.Begun = true
		if l.Stages[stage].When == definition.WhenFailed && run.Passed && !d.Elsewhere(&l.Stages[stage]) {
			run.Passed = false
			d.Left++
		}
		d.passBefore(l, stage)
	}
}

// passBefore passes the stages before one that has begun. What is in one stage alone did
// nothing that counts for another one, to which its host group may have moved.
func (d *Deployment) passBefore(l *Layout, stage int) {
	if d.Only() != "" || l.Stages[stage].Closing() {
		return
	}
	for _, a := range l.Stages[stage].Ancestors {
		d.pass(a)
	}
}

func (d *Deployment) pass(stage int) {
	if !d.Stages[stage].Passed {
		d.Stages[stage].Passed = true
		d.Left--
	}
}

// recordSkips notes which introduced steps a host, member or not, skipped: something
// later in its chain came before them.
func (d *Deployment) recordSkips(l *Layout, t deploylog.Target, m record.Marks) {
	at, ok := l.HostAt[t]
	if !ok {
		group, _, isHost := record.GroupOf(t)
		if at, ok = l.GroupAt[group]; !isHost || !ok {
			return
		}
	}
	stage := &l.Stages[at.Stage]
	for _, step := range stage.Introduced {
		later := slices.IndexFunc(m, func(k record.Mark) bool {
			return k.Event == step.event || slices.Contains(stage.Chain[step.At+1:], k.Event)
		})
		if later < 0 || m[later].Event == step.event {
			continue
		}
		if known, ok := d.Skipped[step.event]; !ok || m[later].Seq < known.Mark.Seq {
			d.Skipped[step.event] = SkippedStep{Target: t, Mark: m[later]}
		}
	}
}

// Record folds in an event and what follows from it.
func (d *Deployment) Record(l *Layout, e deploylog.Event) {
	if e.Name == record.StageStarted {
		d.Started[e.Target] = e.CreatedAt
	}
	k := record.Mark{Event: e.Name, Seq: e.Seq}
	if record.IsFailure(e.Name) {
		if e.Attempt < d.Attempt {
			return // of an abandoned attempt
		}
		k.Cause = record.Read(e.Data).Error
	}
	if e.Name == record.HostFailed {
		if d.FailedHosts == nil {
			d.FailedHosts = map[deploylog.Target]record.Mark{}
		}
		d.FailedHosts[e.Target] = k
	}
	again := e.Attempt >= d.Attempt && d.Reopened[e.Target]
	if again {
		delete(d.Reopened, e.Target)
	}
	if kind, ok := definition.ArtifactKind(e.Name); ok {
		p := record.Read(e.Data)
		d.Refs[kind], d.Filled = p.Ref, d.Filled || p.Bound
	}
	if e.Name == record.StageBuilt {
		maps.Copy(d.Refs, record.Read(e.Data).Artifacts)
	}
	if l == nil {
		d.add(e.Target, k)
		return
	}
	if at, ok := l.HostAt[e.Target]; ok {
		d.recordHost(l, at, e.Target, k, again)
	} else if at, ok := l.GroupAt[e.Target]; ok {
		group := &d.Stages[at.Stage].Groups[at.Group]
		group.Marks = d.add(e.Target, k)
		group.Finished = group.Finished || k.Event == record.GroupFinished
		if record.Begins(k.Event) {
			group.Begun = true
			d.begin(l, at.Stage)
		}
	} else if i, ok := l.StageAt[e.Target]; ok {
		d.Stages[i].Marks = d.add(e.Target, k)
		if record.Begins(k.Event) {
			d.begin(l, i)
		}
		if k.Event == record.StageFinished {
			d.pass(i)
		}
	} else if m := d.add(e.Target, k); d.Order <= l.newest {
		d.recordSkips(l, e.Target, *m)
	}
}

// recordHost folds in an event of a host; again is that it is the first of this attempt
// After the host failed in an earlier one.
func (d *Deployment) recordHost(l *Layout, at Place, t deploylog.Target, k record.Mark, again bool) {
	group := &d.Stages[at.Stage].Groups[at.Group]
	host := &group.Hosts[at.Host]
	if host.Marks == nil {
		host.Marks = d.add(t, k)
	} else {
		*host.Marks = append(*host.Marks, k)
	}
	group.Begun = true
	was, flew := host.Closed, host.InFlight()
	if again {
		host.Reopened = false
		group.Reopened--
	}
	host.apply(l.Stages[at.Stage].Chain, k.Event)
	if host.Closed && !was {
		group.unlink(host)
	}
	switch flies := host.InFlight(); {
	case flies && !flew:
		group.InFlight++
	case flew && !flies:
		group.InFlight--
	}
	if d.Order <= l.newest {
		d.recordSkips(l, t, *host.Marks)
	}
	d.begin(l, at.Stage)
}

func (d *Deployment) add(t deploylog.Target, k record.Mark) *record.Marks {
	m := d.Marks[t]
	if m == nil {
		both := &struct { // one allocation for what nearly all targets need
			record.Marks
			room [8]record.Mark
		}{}
		both.Marks = both.room[:0]
		m = &both.Marks
		d.Marks[t] = m
	}
	*m = append(*m, k)
	return m
}

// Retry drops failures: what failed is done again. So are closing stages, at the next end.
func (d *Deployment) Retry(attempt int, at time.Time, closing []deploylog.Target) {
	d.Attempt, d.Since, d.Status, d.Ended, d.End = max(attempt, d.Attempt+1), at, Running, record.Mark{}, nil
	maps.DeleteFunc(d.Marks, func(t deploylog.Target, _ *record.Marks) bool {
		group, _, _ := record.GroupOf(t)
		return slices.Contains(closing, t) || slices.Contains(closing, group)
	})
	clear(d.Tries)
	d.FailedHosts = nil
	for t, m := range d.Marks {
		if t.Kind() == "host" && slices.ContainsFunc(*m, func(k record.Mark) bool { return record.IsFailure(k.Event) }) {
			if d.Reopened == nil {
				d.Reopened = map[deploylog.Target]bool{}
			}
			d.Reopened[t] = true
		}
		*m = slices.DeleteFunc(*m, func(k record.Mark) bool { return record.IsFailure(k.Event) })
		if len(*m) == 0 {
			delete(d.Marks, t)
		}
	}
}

// Within reports whether the revision entered a batch, at its beginning or, since
// the pipeline changed, behind it, and has not left it. What does a stage again is in all
// batches that the stage belongs to.
func (d *Deployment) Within(l *Layout, b Span) bool {
	from := &d.Stages[b.From]
	if d.Redo.Info != nil {
		i, there := l.StageAt[d.Redo.Info.Target]
		return there && d.Stages[i].Begun && !d.Stages[i].Passed && l.Includes(b, i)
	}
	if d.Rollback != nil && !from.Begun {
		return false
	}
	return (from.Begun || from.Passed) && !d.Stages[b.To].Passed
}

// Holds reports whether the revision keeps others out of a batch.
func (d *Deployment) Holds(l *Layout, b Span) bool { return d.Status == Running && d.Within(l, b) }

// EntryKey knows an entry of a deployment: this event of this target.
type EntryKey struct {
	Target deploylog.Target
	Event  string
}

// Since is the first event of the deployment in the stage; none is later than all.
func (r *stageRun) Since() int64 {
	first := earliest(math.MaxInt64, r.Marks)
	for g := range r.Groups {
		first = min(first, r.Groups[g].Since())
	}
	return first
}

// Since is the first event of the deployment in the host group; none is later than all.
func (r *groupRun) Since() int64 {
	first := earliest(math.MaxInt64, r.Marks)
	for h := range r.Hosts {
		first = earliest(first, r.Hosts[h].Marks)
	}
	return first
}

// earliest is the first event of marks, unless another was before it.
func earliest(first int64, m *record.Marks) int64 {
	if m == nil || len(*m) == 0 {
		return first
	}
	return min(first, (*m)[0].Seq)
}

// Status is how far a deployment has come.
type Status string

// The statuses of a deployment.
const (
	Running    Status = "running"
	Finished   Status = "finished"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
	PassedOver Status = "skipped"    // while it waited
	Superseded Status = "superseded" // while it waited, by a newer revision
)

// ForgetTries forgets the tries of a step that was done, or failed for good.
func (d *Deployment) ForgetTries(e deploylog.Event) {
	if len(d.Tries) > 0 {
		delete(d.Tries, EntryKey{e.Target, strings.TrimSuffix(e.Name, record.FailedAfter)})
	}
}

// Event is an event of the present attempt, to be recorded.
func (d *Deployment) Event(t deploylog.Target, name string, p record.Payload) deploylog.Event {
	return deploylog.Event{Deployment: d.ID, Target: t, Revision: d.Revision, Name: name, Attempt: d.Attempt, Data: p.Data()}
}
