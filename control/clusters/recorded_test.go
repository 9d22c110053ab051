package clusters_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/clusters"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
	"github.com/deployster-go/deployster/pipeline/promotion/object/recording"
)

// line is a pipeline of the stages dev, an object that a recording writes, and prod, which at once runs
// whatever is promoted.
type line struct {
	testing.TB
	mu       sync.Mutex
	observed *clusters.Observed
	write    func(map[string]any, error)
	state    *promotion.State
	seen     promotion.Observed
	events   int64

	well     []string        // revisions that run well
	lately   map[string]bool // those that did since the object was written last
	ever     map[string]bool // those that ever did
	promoted []string
	wrong    []string // revisions that were promoted and did not run well
}

// Watch implements clusters.Watcher.
func (l *line) Watch(_ kubewatch.Object, seen func(map[string]any, error)) (leave func()) {
	l.write = seen
	return func() {}
}

// newLine is a pipeline of an object that was not written yet. It is in the bubble of a test.
func newLine(t testing.TB, of object.Object) (l *line, end func()) {
	l = &line{TB: t, state: promotion.New("shop"), seen: promotion.Observed{}, lately: map[string]bool{}, ever: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	l.observed = clusters.New(clusters.Options{
		Watcher: l,
		Go: func(job func(context.Context) func()) func() {
			go job(ctx)
			return cancel
		},
		Post: func(f func()) {
			l.mu.Lock()
			defer l.mu.Unlock()
			f()
		},
		Changed: func(string) { l.decides() },
	})
	d := &definition.Definition{Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"}, Stages: []definition.Stage{
		{Name: "dev", Environment: "objects:shop/dev", Objects: []object.Object{of}}, {Name: "prod", Environment: "prod"},
	}}
	events, err := l.state.Propose(promotion.Define{ID: "define", Definition: d}, nil, time.Now())
	require.NoError(t, err)
	l.record(events...)
	l.runs("", "")
	l.observed.Use(clusters.Stage{Place: "objects:shop/dev", Objects: []object.Object{of}, Settle: d.Stages[0].Settles()})
	synctest.Wait()
	return l, func() {
		l.observed.Leave("objects:shop/dev")
		synctest.Wait()
	}
}

func (l *line) tick() int64 {
	l.events++
	return l.events
}

func (l *line) record(events ...deploylog.Event) {
	for _, e := range events {
		e.Seq, e.CreatedAt = l.tick(), time.Now()
		l.state.Apply(e)
	}
}

// runs has prod run a revision by a deployment; "" is none.
func (l *line) runs(revision, deployment string) {
	o := promotion.Observation{Health: promotion.Partly, Why: "nothing is deployed", Event: l.tick()}
	if revision != "" {
		o = promotion.Observation{
			Health: promotion.Whole, Revision: revision, Runs: []string{revision}, Since: time.Now(), Came: l.tick(), Event: l.tick(),
			Active: promotion.Deployment{ID: deployment, Revision: revision, Status: promotion.Deployed},
		}
	}
	l.seen["prod"] = o
}

// decides records what was seen, and has everything done that is decided.
func (l *line) decides() {
	seen, _ := l.observed.Seen("objects:shop/dev")
	l.record(l.state.Sighted("dev", seen)...)
	for more := true; more; {
		l.state.AddSightings(l.seen)
		more = false
		for step := range l.state.Decide(l.seen, time.Now()) {
			l.record(step.Events...)
			if step.Promotes {
				l.promotes(step)
			}
			more = true
			break
		}
	}
}

func (l *line) promotes(step promotion.Step) {
	l.promoted = append(l.promoted, step.Revision)
	if !l.lately[step.Revision] {
		l.wrong = append(l.wrong, step.Revision)
	}
	if !l.ever[step.Revision] {
		l.wrong = append(l.wrong, step.Revision+", which never was")
	}
	l.record(l.state.Completed(step, promotion.Begun{Deployment: step.Key(), Event: l.tick()}, nil)...)
	l.runs(step.Revision, step.Key())
}

// is notes which revisions run well from now on.
func (l *line) is(well []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.well = well
	for _, revision := range well {
		l.lately[revision], l.ever[revision] = true, true
	}
}

// writes has the object written as a whole, or a half of it. What ran well before counts no more then.
func (l *line) writes(object map[string]any) {
	l.mu.Lock()
	l.lately = map[string]bool{}
	for _, revision := range l.well {
		l.lately[revision] = true
	}
	l.mu.Unlock()
	l.write(object, nil)
	synctest.Wait()
}

// splits is a write that is done in two halves, with a time between them.
type splits struct {
	step  int // -1 is none
	half  map[string]any
	after time.Duration // that it is as a whole
}

// plays plays a recording with its times, and returns after nothing has happened for long.
func (l *line) plays(r *recording.Recording, split splits) {
	at := int64(0)
	for i, s := range r.Steps {
		<-time.After(time.Duration(s.At-at) * time.Millisecond)
		at = s.At
		switch {
		case s.Well != nil:
			l.is(*s.Well)
		case s.Writes():
			if split.step == i && split.half != nil {
				l.writes(split.half)
				<-time.After(split.after)
			}
			l.writes(s.Object)
			if split.step == i && split.half == nil {
				for _, next := range r.Steps[i+1:] {
					if next.Well == nil || next.At > at { // what became true with the write counts
						break
					}
					l.is(*next.Well)
				}
				<-time.After(split.after)
			}
		}
	}
	<-time.After(10 * time.Minute)
	synctest.Wait()
}

// What real controllers wrote is promoted once, and only if it truly runs well: with the times that it took,
// with each write as the last one for a while, and with each of them done in two halves.
func TestWhatControllersWroteIsPromotedOnlyWhenItIsWell(t *testing.T) {
	files, err := filepath.Glob("../../pipeline/promotion/object/testdata/recorded/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		r, err := recording.Load(file)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				plays := func(what string, split splits) {
					l, end := newLine(t, r.Object)
					l.plays(r, split)
					end()
					wrong := l.wrong
					if split.step >= 0 { // what truly ran then was never recorded
						wrong = slices.DeleteFunc(wrong, func(text string) bool { return !strings.Contains(text, ",") })
					}
					assert.Empty(t, wrong, "promoted, and not well, %s", what)
					once := map[string]bool{}
					for _, revision := range l.promoted {
						assert.False(t, once[revision] && !comesBack(r, revision), "revision %s is promoted twice, %s: %s", revision, what, l.promoted)
						once[revision] = true
					}
					if last := r.Object.Read(r.Steps[lastWrite(r)].Object); recording.Counts(last) {
						assert.Equal(t, last.Revision, l.seen["prod"].Revision, "prod runs it in the end, %s", what)
					}
				}
				plays("as it was", splits{step: -1})
				var before map[string]any
				for i, s := range r.Steps {
					if !s.Writes() {
						continue
					}
					plays(fmt.Sprintf("when nothing is written for a minute after %d ms", s.At), splits{i, nil, time.Minute})
					for _, half := range recording.Halves(before, s.Object) {
						for _, pause := range []time.Duration{5 * time.Millisecond, time.Minute} {
							plays(fmt.Sprintf("with %s of the write at %d ms, %s before the rest", half.Name, s.At, pause), splits{i, half.Object, pause})
						}
					}
					before = s.Object
				}
			})
		})
	}
}

func lastWrite(r *recording.Recording) (last int) {
	for i, s := range r.Steps {
		if s.Writes() {
			last = i
		}
	}
	return last
}

// comesBack reports whether a revision runs well again after another one did.
func comesBack(r *recording.Recording, revision string) bool {
	var all []string
	for _, s := range r.Steps {
		if s.Well != nil && len(*s.Well) > 0 && (len(all) == 0 || all[len(all)-1] != (*s.Well)[0]) {
			all = append(all, (*s.Well)[0])
		}
	}
	n := 0
	for _, one := range all {
		if one == revision {
			n++
		}
	}
	return n > 1
}
