package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// fingerprint shows what it covers, so that tests can see what hashes are of.
func fingerprint(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// plan makes a plan of a manifest that an apply can be bound to.
func (w *world) plan(t *testing.T, text string) *report.Plan {
	plan := w.mustPlan(t, text, pinned)
	w.forget()
	return plan
}

func pinned(o *options) { o.Fingerprint = fingerprint }

func to(plan *report.Plan) func(*options) {
	return func(o *options) { o.Fingerprint, o.Bound = fingerprint, byName(plan) }
}

const branches = `
resources:
  same: {type: thing, config: {value: same}}
  db: {type: thing, config: {value: new, token: hush-hush}}
  api: {type: thing, dependencies: {db: db}, config: {value: "{{ db.state.value }}"}}
  sized: {type: thing, dependencies: {s: same}, config: {value: "{{ s.state.value }}", count: 1}}
  fixed: {type: thing, dependencies: {db: db}, config: {value: 1}}
`

func (w *world) branches() {
	w.things["same"], w.things["db"], w.things["sized"] = "same", "old", "same"
}

func TestAPlanPinsWhatIsKnown(t *testing.T) {
	w := newWorld(t)
	w.branches()
	got := map[string]report.ResourcePlan{}
	for _, r := range w.plan(t, branches).Resources {
		got[r.Name] = r
		assert.NotEmpty(t, r.ImageID)
	}
	for name, want := range map[string]struct{ config, state, actions string }{
		"same":  {`{"value":"same"}`, `{"name":"same","value":"same"}`, ""},
		"db":    {`{"token":"hush-hush","value":"new"}`, `{"value":"old"}`, `[{"name":"set","args":["set"]}]`},
		"sized": {`{"count":1,"value":"same"}`, `{"name":"sized","value":"same"}`, ""},
		"api":   {"", "", ""},
		"fixed": {`{"value":1}`, "", ""},
	} {
		r := got[name]
		assert.True(t, r.ConfigHash == want.config && r.StateHash == want.state &&
			r.ActionsHash == want.actions, "%s is pinned to\n%s\n%s\n%s", name, r.ConfigHash, r.StateHash, r.ActionsHash)
	}
	text, _ := fingerprint(got["db"].Config)
	assert.Equal(t, `{"token":"(secret)","value":"new"}`, text)
	text, _ = fingerprint(got["db"].State)
	assert.Equal(t, `{"value":"old"}`, text)
}

// A secret that one resource's configuration is found to hold may stand in what another one had to say before.
func TestAPlanHidesASecretWhereverItStands(t *testing.T) {
	w := newWorld(t)
	plan := w.plan(t, `
resources:
  first: {type: thing, config: {value: "uses hush-hush"}}
  second: {type: thing, config: {value: same, token: hush-hush}}
`)
	for i := range plan.Resources {
		r := &plan.Resources[i]
		r.ConfigHash, r.StateHash, r.ActionsHash = "", "", ""
	}
	text, _ := fingerprint(plan)
	assert.NotContains(t, text, "hush", "the plan shows a secret")
}

func TestABoundApplyDoesWhatWasPlannedWithoutAsking(t *testing.T) {
	w := newWorld(t)
	w.branches()
	plan := w.plan(t, branches)
	w.yes = func(runner.Question) bool { return true }
	statuses := w.mustApply(t, branches, to(plan), func(o *options) { o.Confirm = runner.ConfirmAction })
	wantStatuses(t, statuses, map[string]report.Status{
		"same": report.Unchanged, "db": report.Changed, "api": report.Changed, "sized": report.Unchanged, "fixed": report.Changed,
	})
	asked := map[string]bool{}
	for _, q := range w.asked {
		asked[q.Resource] = true
	}
	assert.True(t, len(asked) == 2 && asked["api"] && asked["fixed"], "asked about %v; only what the plan left open is a question", asked)

	// The plan can be applied again, as after an interruption.
	w.forget()
	w.mustApply(t, branches, to(plan))
	assert.Equal(t, 0, w.runs("set"))
}

func TestABoundApplyRefusesWhatDeviates(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*world)
		text      string
		want      map[string]report.Status
		says      string
	}{
		"drift": {
			func(w *world) { w.things["same"] = "other" }, branches,
			map[string]report.Status{"same": report.Failed, "sized": report.Skipped, "db": report.Changed, "api": report.Changed},
			`same: not as planned: it has drifted, and was as configured; plan again:` + "\n" + `  ~ value: "same" → "other"`,
		},
		"a stale one that changed": {
			func(w *world) { w.things["db"] = "older" }, branches,
			map[string]report.Status{"same": report.Unchanged, "db": report.Failed, "api": report.Skipped, "fixed": report.Skipped},
			`db: not as planned: what there is of it has changed; plan again:` + "\n" + `  ~ value: "old" → "older"`,
		},
		"a stale one that is gone": {
			func(w *world) { delete(w.things, "db") }, branches,
			map[string]report.Status{"db": report.Failed, "api": report.Skipped},
			`db: not as planned: it is gone, and was there; plan again`,
		},
		"a stale one that was done by others": {
			func(w *world) { w.things["db"] = "new" }, branches,
			map[string]report.Status{"db": report.Unchanged, "api": report.Changed}, "",
		},
		"another image": {
			// Ids of the fake are those of references.
			func(w *world) { w.engine.Images["thing:2"] = w.engine.Images["thing"] },
			strings.Replace(branches, "api: {type: thing", "api: {type: thing:2", 1),
			map[string]report.Status{"same": report.Skipped, "db": report.Skipped, "api": report.Failed},
			`api: not as planned: the image of its type is another one; plan again:`,
		},
		"another config": {
			nil, strings.Replace(branches, "value: new", "value: newer", 1),
			map[string]report.Status{"same": report.Skipped, "db": report.Failed, "api": report.Skipped},
			`db: not as planned: its configuration is another one; plan again:` + "\n" + `  ~ value: "new" → "newer"`,
		},
		"another secret": {
			nil, strings.Replace(branches, "hush-hush", "hush-other", 1),
			map[string]report.Status{"same": report.Skipped, "db": report.Failed, "api": report.Skipped},
			`db: not as planned: its configuration is another one in a secret value; plan again`,
		},
		"another resource": {
			nil, branches + "  extra: {type: thing, config: {value: 1}}\n",
			map[string]report.Status{"extra": report.Failed, "db": report.Skipped},
			`extra: not as planned: the plan has no such resource`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.branches()
			plan := w.plan(t, branches)
			if tc.meanwhile != nil {
				tc.meanwhile(w)
			}
			statuses, err := w.apply(t, tc.text, to(plan), func(o *options) { o.KeepGoing = true })
			wantStatuses(t, statuses, tc.want)
			var refused *deviation.Error
			assert.True(t, errors.As(err, &refused) == (tc.says != "") &&
				(err == nil || strings.Contains(err.Error(), tc.says)), "it ended with\n%v", err)
			assert.True(t, err == nil || !strings.Contains(err.Error(), "hush"), "the refusal shows a secret:\n%v", err)
			if tc.want["same"] == report.Skipped && w.runs("set")+w.runs("state") > 0 {
				t.Errorf("what can be refused before anything is touched was refused after %v", w.trace)
			}
		})
	}
}

// What depends on a state that is another now, though valid, is refused by its own configuration.
func TestAStateThatChangedIsSeenInWhatDependsOnIt(t *testing.T) {
	w := newWorld(t)
	text := `
resources:
  free: {type: thing, config: {value: 1}}
  bound: {type: thing, dependencies: {f: free}, config: {value: "{{ f.state.value }}"}}
`
	w.things["free"], w.things["bound"] = 1, 1
	plan := w.plan(t, text)
	w.things["free"] = 2
	statuses, err := w.apply(t, strings.Replace(text, "{value: 1}", "{value: 2}", 1), to(plan), func(o *options) {
		free := o.Bound["free"]
		free.ConfigHash = `{"value":2}` // only the state is to deviate
		o.Bound["free"] = free
	})
	wantStatuses(t, statuses, map[string]report.Status{"free": report.Unchanged, "bound": report.Failed})
	assert.ErrorContains(t, err, "~ value: 1 → 2")
}

// What an action says of itself may tell of the moment: of a port, or of how long it waited.
func TestADescriptionIsNotBound(t *testing.T) {
	w := newWorld(t)
	looks := 0
	good := w.engine.Images["thing"].Program
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if len(c.Args) > 0 && c.Args[0] == "state" && w.runs("set") == 0 {
			looks++
			fmt.Fprintf(c.Stdout, `{"status":"STALE","actions":[{"name":"set","description":"look number %d","args":["set"]}]}`, looks)
			return 0
		}
		return good(ctx, c)
	})
	const text = "resources: {db: {type: thing, config: {value: 1}}}"
	plan := w.plan(t, text)
	wantStatuses(t, w.mustApply(t, text, to(plan)), map[string]report.Status{"db": report.Changed})
	assert.Equal(t, 2, looks)
}

func TestAPlanThatCanNotBePinnedFails(t *testing.T) {
	const text = `
resources:
  open: {type: thing, dependencies: {f: first}, config: {value: 2}}
  first: {type: thing, config: {value: 1}}
`
	for unhashable, want := range map[string]string{`{"value":2}`: "open: taking the hash of its configuration", "null": "first: taking the hash of its state"} {
		w := newWorld(t)
		plan, err := w.runner(t, text, func(o *options) {
			o.Fingerprint = func(v any) (string, error) {
				if text, _ := fingerprint(v); text == unhashable {
					return "", errors.New("no JSON")
				}
				return "hash", nil
			}
		}).Plan(t.Context())
		assert.Error(t, err)
		assert.True(t, slices.ContainsFunc(plan.Resources, func(r report.ResourcePlan) bool {
			return r.Status == report.Failed && strings.Contains(r.Name+": "+r.Error, want)
		}))
	}
}

func reserved(t *testing.T, most int) (*world, *invoke.Reserve, func(run int) func(*options)) {
	w := newWorld(t)
	w.engine.Images["served"] = w.serving(good)
	dir := filepath.Join(w.workspace, ".deployster", "work", "RESERVE")
	r := invoke.NewReserve("RESERVE", dir, most, func(c *crash.Error) { t.Error(c) })
	return w, r, func(run int) func(*options) {
		return func(o *options) {
			o.Reserve = r
			o.Run = fmt.Sprintf("RUN%d", run)
			o.Work = filepath.Join(w.workspace, ".deployster", "work", o.Run)
		}
	}
}

func TestAProcessGoesFromRunToRun(t *testing.T) {
	w, r, run := reserved(t, 5)
	for i := range 3 {
		w.things = map[string]any{}
		wantStatuses(t, w.mustApply(t, many(2, "served"), run(i)), map[string]report.Status{"r0": report.Changed, "r1": report.Changed})
		found := must.Get(w.engine.Containers(t.Context(), map[string]string{invoke.LabelKind: invoke.KindServe}))(t)
		assert.True(t, len(found) == 1 && found[0].Labels[invoke.LabelRun] == "RESERVE", "after run %d there are %+v", i, found)
	}
	serving, _ := w.starts()
	assert.Equal(t, 1, serving)
	r.Close(t.Context())
	assert.Empty(t, must.Get(w.engine.Containers(t.Context(), nil))(t))
	_, err := os.Stat(filepath.Join(w.workspace, ".deployster", "work", "RESERVE"))
	assert.True(t, os.IsNotExist(err), "its directory is left")
	_, err = w.apply(t, many(1, "served"), run(9))
	assert.NoError(t, err, "after the reserve was closed")
	left, err := w.engine.Containers(t.Context(), nil)
	assert.True(t, err == nil && len(left) == 0, "a closed reserve kept %v (%v)", left, err)
}

// The directory of a reserve is not older than what was done with it last, but by a minute.
func TestAReserveThatIsUsedIsNotOld(t *testing.T) {
	w, r, run := reserved(t, 5)
	defer r.Close(t.Context())
	dir := filepath.Join(w.workspace, ".deployster", "work", "RESERVE")
	began := time.Now()
	for i := range 2 {
		w.things = map[string]any{}
		must.Get(w.apply(t, many(1, "served"), run(i), func(o *options) {
			o.Now = func() time.Time { return began.Add(time.Duration(i) * time.Minute) }
		}))(t)
		info := must.Get(os.Stat(dir))(t)
		assert.True(t, time.Since(info.ModTime()) <= time.Hour, "after run %d: %+v", i, info)
		before := time.Now().Add(-40 * 24 * time.Hour)
		require.NoError(t, os.Chtimes(dir, before, before))
	}
	serving, _ := w.starts()
	assert.Equal(t, 1, serving)
}

// A process that does not end by itself gets a moment for it, but not after a second signal.
func TestAReserveIsClosedAtOnce(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, r, run := reserved(t, 5)
			w.engine.Images["served"] = w.serving(func(ctx context.Context, p *served) int {
				good(ctx, p)
				<-ctx.Done()
				return 137
			})
			_, err := w.apply(t, many(1, "served"), run(0))
			assert.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if killed {
				cancel()
			}
			began := time.Now()
			r.Close(ctx)
			assert.Equal(t, killed, time.Since(began) == 0, "after a second signal")
			left, err := w.engine.Containers(t.Context(), nil)
			assert.True(t, err == nil && len(left) == 0, "left are %v (%v)", left, err)
		})
	}
}

// Two runs at once never share a process, and no more are kept than was said.
func TestAProcessIsOfOneRunAtATime(t *testing.T) {
	w, r, run := reserved(t, 1)
	defer r.Close(t.Context())
	var both atomic.Int32
	met := make(chan struct{})
	w.before = func(action, _ string) {
		if action != "set" {
			return
		}
		if both.Add(1) == 2 {
			close(met)
		}
		<-met
	}
	done := make(chan error)
	for i := range 2 {
		one := w.runner(t, fmt.Sprintf("resources: {r%d: {type: served, config: {value: 1}}}", i), run(i))
		go func() { _, err := one.Apply(context.Background()); done <- err }()
	}
	for range 2 {
		assert.NoError(t, <-done)
	}
	serving, _ := w.starts()
	assert.Equal(t, 2, serving)
	assert.Len(t, must.Get(w.engine.Containers(t.Context(), nil))(t), 1)
}

// What a run leaves in the work directory of a process is not there for the next, and
// each finds what the process says of it in its own files.
func TestARunLeavesNothingInAProcess(t *testing.T) {
	w, r, run := reserved(t, 5)
	defer r.Close(t.Context())
	w.engine.Images["served"] = w.serving(func(_ context.Context, p *served) int {
		work, _, err := p.Host("/var/lib/deployster/work")
		for q := range p.questions {
			left, _ := os.ReadDir(work)
			assert.True(t, q.Action != "init" || len(left) == 0, "it finds %v", left)
			fmt.Fprintln(p.Stderr, "asked for", q.name())
			assert.NoError(t, os.WriteFile(filepath.Join(work, "left"), nil, 0o600))
			p.answer(t.Context(), q)
		}
		assert.NoError(t, err)
		return 0
	})
	for i := range 2 {
		text := fmt.Sprintf("resources:\n  one: {type: served, config: {value: 1}}\n  two%d: {type: served, config: {value: 1}}\n", i)
		w.mustApply(t, text, run(i))
		said, err := filepath.Glob(filepath.Join(w.workspace, ".deployster", "work", fmt.Sprintf("RUN%d", i), "_served", "*.stderr"))
		require.NoError(t, err, i)
		require.Len(t, said, 1, i)
		text2, err := os.ReadFile(said[0])
		assert.True(t, err == nil && strings.Contains(string(text2), fmt.Sprintf("two%d", i)) &&
			(i != 1 || !strings.Contains(string(text2), "two0")), "run %d finds %q (%v)", i, text2, err)
	}
	serving, _ := w.starts()
	assert.Equal(t, 1, serving)
}

// What was given something in confidence, or failed, or is in the midst of saying something, does not come to another run.
func TestSomeProcessesEndWithTheirRun(t *testing.T) {
	const secret = "resources: {r: {type: served, config: {value: 1, token: geheim}}}"
	for name, c := range map[string]struct {
		text    string
		process func(context.Context, *served) int
	}{
		"one that was given a secret": {secret, good},
		"one in which an action failed": {many(1, "served"), func(ctx context.Context, p *served) int {
			p.w.mu.Lock()
			p.w.fail["r0"] = true
			p.w.mu.Unlock()
			return good(ctx, p)
		}},
		"one that has begun another line": {many(1, "served"), func(ctx context.Context, p *served) int {
			to := p.Stdout
			for q := range p.questions {
				var line bytes.Buffer
				p.Stdout = &line
				p.answer(ctx, q)
				_, _ = to.Write(append(line.Bytes(), ' ')) // as JSON may begin
			}
			return 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, r, run := reserved(t, 5)
			defer r.Close(t.Context())
			w.engine.Images["served"] = w.serving(c.process)
			_, _ = w.apply(t, c.text, run(0))
			assert.Empty(t, must.Get(w.engine.Containers(t.Context(), nil))(t))
		})
	}
}

// A process that has served for long is not kept any more, however busy it is.
func TestAProcessIsNotKeptForEver(t *testing.T) {
	w, r, run := reserved(t, 5)
	defer r.Close(t.Context())
	began := time.Now()
	for i, want := range []int{1, 1, 1, 2} {
		must.Get(w.apply(t, many(1, "served"), run(i), func(o *options) {
			o.Now = func() time.Time { return began.Add(time.Duration(i) * 6 * time.Minute) }
		}))(t)
		serving, _ := w.starts()
		assert.Equal(t, want, serving, i)
	}
}

// A process that was started with a directory is not asked about another one that is in its place since.
func TestAProcessIsNotAskedAboutWhatItDoesNotSee(t *testing.T) {
	w, r, run := reserved(t, 5)
	defer r.Close(t.Context())
	w.engine.Images["served"] = image(func(ctx context.Context, c enginetest.Call) int {
		f := w.serving(good).Program
		if len(c.Args) > 0 {
			return f(ctx, c)
		}
		var out bytes.Buffer
		to := c.Stdout
		c.Stdout = &out
		code := f(ctx, c)
		_, _ = io.WriteString(to, strings.Replace(out.String(), "{", `{"plugs":{"dir":{"container_path":"/dir"}},`, 1))
		return code
	})
	dir := filepath.Join(w.workspace, "dir")
	text := "plugs: {dir: {path: dir}}\n" + many(1, "served")
	for i, change := range []func() error{
		func() error { return os.Mkdir(dir, 0o700) },
		func() error { return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600) },
		func() error { return os.Rename(dir, dir+"-old") },
	} {
		require.NoError(t, change())
		if i == 2 {
			require.NoError(t, os.Mkdir(dir, 0o700))
		}
		w.mustApply(t, text, run(i))
		serving, _ := w.starts()
		assert.Equal(t, 1+i/2, serving, i)
	}
}

// What is not to be kept is not written, whether a type serves or not.
func TestALookLeavesNoFiles(t *testing.T) {
	for _, of := range []string{"served", "thing"} {
		w, r, run := reserved(t, 5)
		defer r.Close(t.Context())
		look := func(o *options) { run(1)(o); o.Forget = true }
		for range 2 {
			assert.Equal(t, report.Stale, w.mustDrift(t, many(1, of), look).Resources[0].Status)
		}
		err := filepath.WalkDir(filepath.Join(w.workspace, ".deployster"), func(path string, d os.DirEntry, err error) error {
			assert.True(t, err != nil || d.IsDir(), "%s: %s is left", of, path)
			return err
		})
		assert.NoError(t, err)
	}
}
