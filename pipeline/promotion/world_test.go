package promotion_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

func dur(d time.Duration) definition.Duration { return duration.Duration(d) }

// failer is a test of either kind.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a pipeline, its log, and environments that are as somebody says.
type world struct {
	failer
	state  *promotion.State
	stages []string
	log    []deploylog.Event
	seen   promotion.Observed
	now    time.Time
	events int64
	dies   bool // the process, after each event
	old    bool // sightings are recorded as versions did that said less of them
}

// newWorld has a pipeline of some stages, a, b, c …, whose environments nobody has observed.
func newWorld(t failer, stages int, p definition.Promotion, change ...func(*definition.Definition)) *world {
	w := &world{failer: t, state: promotion.New("shop"), seen: promotion.Observed{}, now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)}
	d := &definition.Definition{Name: "shop", Promotion: p}
	for i := range stages {
		name := string(rune('a' + i))
		w.stages = append(w.stages, name)
		d.Stages = append(d.Stages, definition.Stage{Name: name, Environment: "env/" + name})
	}
	for _, c := range change {
		c(d)
	}
	w.command(promotion.Define{Definition: d, ID: "define"})
	return w
}

// coming is a pipeline of two stages, of which the first runs revision 2, and the second revision 1.
func coming(t failer, change ...func(*definition.Definition)) *world {
	return comingTo(t, "b", change...)
}

// comingTo is a pipeline of which the first stage runs revision 2, and all others revision 1.
func comingTo(t failer, others string, change ...func(*definition.Definition)) *world {
	w := newWorld(t, 1+len(others), usual, change...)
	w.runs(others, "1")
	w.runs("a", "2")
	return w
}

// redefines has somebody change the definition.
func (w *world) redefines(change func(*definition.Definition)) {
	w.Helper()
	d := *w.state.Definition()
	d.Stages = slices.Clone(d.Stages)
	for i := range d.Stages { // which no other definition shares
		s := &d.Stages[i]
		s.Targets, s.PullRequest, s.Webhook = clone(s.Targets), clone(s.PullRequest), clone(s.Webhook)
	}
	change(&d)
	w.command(promotion.Define{Definition: &d})
}

func clone[T any](of *T) *T {
	if of == nil {
		return nil
	}
	own := *of
	return &own
}

func (w *world) tick() int64 {
	w.events++
	return w.events
}

// record appends events as a log does: with one number each, and none twice.
func (w *world) record(events ...deploylog.Event) {
	w.Helper()
	for _, e := range events {
		e.Seq, e.CreatedAt = w.tick(), w.now
		for _, o := range w.log {
			if o.Deployment == e.Deployment && o.Target == e.Target && o.Name == e.Name && o.Attempt == e.Attempt {
				w.Fatalf("the log has %s of %s, attempt %d, in %s already", e.Name, e.Target, e.Attempt, e.Deployment)
			}
		}
		if err := e.Validate(); err != nil {
			w.Fatalf("%v", err)
		}
		if w.old {
			e.Data = unmarked(w, e.Data)
		}
		w.log = append(w.log, e)
		w.state.Apply(e)
		if w.dies {
			w.again()
		}
	}
}

func (w *world) command(c promotion.Command) {
	w.Helper()
	events, err := w.state.Propose(c, w.seen, w.now)
	if err != nil {
		w.Fatalf("%v", err)
	}
	for i := range events {
		if events[i].Deployment == "" { // those of promotions have their own
			events[i].Deployment = strings.Repeat("c", 3) + fmt.Sprint(len(w.log), i)
		}
	}
	w.record(events...)
}

func (w *world) see(stage string, o promotion.Observation) { w.seen["env/"+stage] = o }

// runs has an environment run a revision as a whole, since now.
func (w *world) runs(stages, revision string) {
	for _, stage := range strings.Split(stages, "") {
		at := w.tick()
		w.see(stage, promotion.Observation{
			Health: promotion.Whole, Revision: revision, Runs: []string{revision}, Since: w.now, Came: at, Event: w.tick(),
			Active: promotion.Deployment{ID: fmt.Sprintf("env/%s@%d", stage, at), Revision: revision, Status: promotion.Deployed},
		})
	}
}

// decide records what is to be, and returns what is to be promoted, which has begun then.
func (w *world) decide() (steps []promotion.Step) {
	w.Helper()
	const rounds = 20
	for range rounds {
		again := false
		steps = nil
		for s := range w.state.Decide(w.seen, w.now) {
			if !s.Promotes && !s.Verifies {
				w.record(s.Events...)
				again = true
				break
			}
			steps = append(steps, s)
		}
		if !again {
			for _, s := range steps {
				w.record(s.Events...)
			}
			return steps
		}
	}
	w.Fatalf("it never comes to rest")
	return nil
}

var errRefused = errors.New("refused")

// done ends the work of a step: its deployment has begun, or could not.
func (w *world) done(s promotion.Step, err error) {
	w.Helper()
	w.record(w.state.Completed(s, promotion.Begun{Deployment: fmt.Sprintf("%s/%d", s.ID, s.Attempt), Event: w.tick()}, err)...)
}

// settle has everything done that may be; the work of a promotion fails, or its deployment is
// done by nobody and comes to nothing. It returns the promotion.
func (w *world) settle(fails bool) (promoted *promotion.Step) {
	w.Helper()
	steps := w.decide()
	if len(steps) > 1 {
		w.Fatalf("more than one promotion at once: %+v", steps)
	}
	for _, s := range steps {
		promoted = &s
		if fails {
			w.done(s, errRefused)
			continue
		}
		w.record(deploylog.Event{Deployment: s.ID, Target: s.Target, Revision: s.Revision, Name: promotion.StageFinished, Attempt: 1})
	}
	return promoted
}

func (w *world) reasons() []promotion.Reason {
	return w.state.Explain(promotion.Target("shop"), w.seen, w.now)
}

func (w *world) explain(stage string) promotion.Reason {
	for _, r := range w.reasons() {
		if r.Stage == stage {
			return r
		}
	}
	return promotion.Reason{}
}

// again is the same pipeline, folded from its log by a process that knows nothing else.
func (w *world) again() {
	w.state = promotion.New("shop")
	for _, e := range w.log {
		w.state.Apply(e)
	}
}
