package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// frail is an engine that panics in the container it is asked for.
type frail struct {
	invoke.Engine
	at func(labels map[string]string) bool
}

func (f frail) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	if f.at(spec.Labels) {
		panic("it broke at hush-hush")
	}
	return f.Engine.Run(ctx, spec, streams)
}

const panicky = `
resources:
  bad: {type: thing, config: {value: 1, token: hush-hush}}
  after: {type: thing, dependencies: {d: bad}, config: {value: 2}}
  other: {type: thing, config: {value: 3}}
`

func at(resource, action string) func(map[string]string) bool {
	return func(labels map[string]string) bool {
		return labels[invoke.LabelResource] == resource && labels[invoke.LabelAction] == action
	}
}

func TestAPanicFailsWhatItHappenedIn(t *testing.T) {
	for name, tc := range map[string]struct {
		action string
		other  report.Status
	}{
		"in a state":   {"state", report.Changed},
		"in an action": {"set", report.Changed},
		"in an init":   {"init", report.Skipped},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			got, err := w.apply(t, panicky, func(o *options) {
				o.Engine, o.KeepGoing = frail{w.engine, at("bad", tc.action)}, true
			})
			all := crash.All(err)
			require.True(t, len(all) == 1 && strings.Contains(all[0].Place, "frail.Run (crash_test.go:") &&
				strings.Contains(all[0].Stack, "runner.(*Runner)"), "told was %v", err)
			wantStatuses(t, got, map[string]report.Status{"bad": report.Failed, "after": report.Skipped, "other": tc.other})
			// What is secret is known once a type has answered init.
			if all := w.everything(t, err); tc.action != "init" && strings.Contains(all, "hush-hush") {
				t.Error("a secret is told")
			}
			last := w.ended(t)
			assert.Equal(t, report.RunFailed, last.Kind)
			assert.Contains(t, last.Error, "internal error")
			failed := false
			for _, e := range w.logged {
				failed = failed || e.Kind == report.ResourceFailed && e.Resource == "bad" && strings.Contains(e.Error, "internal error")
			}
			assert.True(t, failed, "the log does not tell of it")
		})
	}
}

func TestAPanicInAProcessThatServesFailsItsCalls(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(good)
	_, err := w.apply(t, many(3, "thing"), func(o *options) {
		o.Engine = frail{w.engine, func(labels map[string]string) bool { return labels[invoke.LabelKind] == invoke.KindServe }}
	})
	assert.NotEmpty(t, crash.All(err))
}

func TestAPanicWhilePlanningIsAnError(t *testing.T) {
	w := newWorld(t)
	change := func(o *options) { o.Engine = frail{w.engine, at("bad", "state")} }
	plan, err := w.runner(t, panicky, change).Plan(t.Context())
	assert.True(t, len(crash.All(err)) == 1 && plan != nil && plan.Resources[0].Status == report.Failed, "told was %v of %+v", err, plan)
	found, err := w.runner(t, panicky, change).Drift(t.Context())
	assert.True(t, len(crash.All(err)) == 1 && found != nil && found.Resources[0].Status == report.Failed, "told was %v of %+v", err, found)
}

// brittle is an observer that panics at some events.
type brittle struct {
	*world
	at func(report.Event) bool
}

func (b brittle) Observe(e report.Event) {
	if b.at(e) {
		panic(fmt.Errorf("cannot show %s: %w", e.Kind, errors.ErrUnsupported))
	}
	b.world.Observe(e)
}

func nth(w *world, kind report.EventKind, n int) runner.Observer {
	return brittle{w, func(e report.Event) bool {
		if e.Kind == kind {
			n--
		}
		return e.Kind == kind && n == 0
	}}
}

func TestWhatBeganHasAnEndAfterAPanic(t *testing.T) {
	for _, kind := range []report.EventKind{
		report.ResourceInitialized, report.ResourceStarted, report.Working, report.Line, report.ResourceResolved,
		report.ActionStarted, report.ActionFinished, report.ActionFailed, report.ResourceVerified, report.ResourceFinished,
	} {
		for _, served := range []bool{false, true} {
			for n, reached := 1, true; reached && n <= 9; n++ {
				t.Run(fmt.Sprintf("%s %d, served %t", kind, n, served), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						if served {
							w.engine.Images["thing"] = w.serving(good)
						}
						w.fail["other"] = true
						_, err := w.apply(t, panicky, func(o *options) {
							o.Observer, o.KeepGoing = nth(w, kind, n), true
						})
						reached = len(crash.All(err)) > 0
						assert.True(t, reached || n > 1, "nothing panics")
						assert.Error(t, err, "other did not fail")
						open := map[string]bool{}
						for _, e := range w.logged {
							what, how, _ := strings.Cut(string(e.Kind), "-")
							switch what += " " + e.Resource + " " + e.Action; how {
							case "started":
								open[what] = true
							case "failed", "finished-successfully":
								delete(open, what)
							}
						}
						assert.Empty(t, open)
						for _, run := range w.engine.Runs() {
							assert.True(t, run.Done)
						}
					})
				})
			}
		}
	}
}

// What a process says may be cut anywhere, also where a panic is caught.
func TestAPanicAtAPartOfAnAnswerEndsTheProcess(t *testing.T) {
	for name, say := range map[string]func(p *served, line string){
		"an answer in two parts": func(p *served, line string) {
			_, _ = io.WriteString(p.Stdout, line[:9])
			_, _ = io.WriteString(p.Stdout, line[9:]+"\n")
		},
		"an answer that does not end": func(p *served, line string) { _, _ = io.WriteString(p.Stdout, line) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
				for q := range p.questions {
					if q.Action == "set" {
						say(p, fmt.Sprintf(`{"id":%d,"exit":0,"output":"some text\n"}`, q.ID))
						return 0
					}
					p.answer(ctx, q)
				}
				return 0
			})
			_, err := w.apply(t, many(1, "thing"), func(o *options) {
				o.Observer = brittle{w, func(e report.Event) bool { return e.Kind == report.Line }}
			})
			all := crash.All(err)
			assert.True(t, len(all) != 0 && strings.Contains(all[0].Message, "cannot show line"), "told was %v", err)
			names := w.names()
			assert.True(t, slices.Contains(names, "action-failed r0 set") && names[len(names)-1] == "run-failed", "the log tells %q", names)
		})
	}
}

func TestAPanicOfProgressFailsAllThatNeedTheImage(t *testing.T) {
	w := newWorld(t)
	w.engine.Registry, w.engine.Images = w.engine.Images, nil
	_, err := w.apply(t, many(3, "thing"), func(o *options) { o.Observer = nth(w, report.Pulling, 1) })
	for _, name := range []string{"r0", "r1", "r2"} {
		assert.ErrorContains(t, err, name+": image thing: internal error", name)
	}
}

func TestAPanicOfWhoWatchesIsAnError(t *testing.T) {
	for _, kind := range []report.EventKind{
		report.RunStarted, report.ResourceInitialized, report.ResourceStarted, report.Working, report.Line,
		report.ActionFinished, report.ResourceFinished, report.RunFinished,
	} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			_, err := w.apply(t, panicky, func(o *options) {
				o.Observer = brittle{w, func(e report.Event) bool { return e.Kind == kind }}
			})
			require.NotEmpty(t, crash.All(err))
			if kind == report.RunStarted {
				return // nothing more is told, nor done
			}
			last := w.logged[len(w.logged)-1].Kind
			assert.True(t, last == report.RunFailed || kind == report.RunFinished, "the log ends with %s", last)
		})
	}
	w := newWorld(t)
	_, err := w.runner(t, panicky, func(o *options) {
		o.Observer = brittle{w, func(e report.Event) bool { return e.Kind == report.ResourceResolved }}
	}).Plan(t.Context())
	assert.NotEmpty(t, crash.All(err))
}
