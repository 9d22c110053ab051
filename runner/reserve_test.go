package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// reserved is a world with a reserve, and how a run of it is made.
func reserved(t *testing.T, most int) (*world, *invoke.Reserve, func(run int) func(*options)) {
	t.Helper()
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

// One process answers for run after run, and ends with the reserve.
func TestAProcessGoesFromRunToRun(t *testing.T) {
	w, r, run := reserved(t, 5)
	for i := range 3 {
		w.things = map[string]any{}
		wantStatuses(t, w.mustApply(t, many(2, "served"), run(i)), map[string]report.Status{"r0": report.Changed, "r1": report.Changed})
		found, err := w.engine.Containers(t.Context(), map[string]string{invoke.LabelKind: invoke.KindServe})
		if err != nil || len(found) != 1 || found[0].Labels[invoke.LabelRun] != "RESERVE" {
			t.Errorf("after run %d there are %+v (%v)", i, found, err)
		}
	}
	serving, _ := w.starts()
	assert.Equal(t, 1, serving)
	r.Close(t.Context())
	if left, err := w.engine.Containers(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
	_, err := os.Stat(filepath.Join(w.workspace, ".deployster", "work", "RESERVE"))
	assert.True(t, os.IsNotExist(err), "its directory is left")
	_, err = w.apply(t, many(1, "served"), run(9))
	assert.NoError(t, err, "after the reserve was closed")
	if left, err := w.engine.Containers(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("a closed reserve kept %v (%v)", left, err)
	}
}

// The directory of a reserve is not older than what was done with it last, but by a minute.
func TestAReserveThatIsUsedIsNotOld(t *testing.T) {
	w, r, run := reserved(t, 5)
	defer r.Close(t.Context())
	dir := filepath.Join(w.workspace, ".deployster", "work", "RESERVE")
	began := time.Now()
	for i := range 2 {
		w.things = map[string]any{}
		_, err := w.apply(t, many(1, "served"), run(i), func(o *options) {
			o.Now = func() time.Time { return began.Add(time.Duration(i) * time.Minute) }
		})
		require.NoError(t, err)
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) > time.Hour {
			t.Errorf("after run %d: %+v, %v", i, info, err)
		}
		before := time.Now().Add(-40 * 24 * time.Hour)
		require.NoError(t, os.Chtimes(dir, before, before))
	}
	serving, _ := w.starts()
	assert.Equal(t, 1, serving)
}

// A process that does not end by itself gets a moment for it, but not after a second
// signal.
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
			took := time.Since(began)
			assert.Equal(t, killed, took == 0, "after a second signal")
			if left, err := w.engine.Containers(t.Context(), nil); err != nil || len(left) > 0 {
				t.Errorf("left are %v (%v)", left, err)
			}
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
		go func() {
			_, err := one.Apply(context.Background())
			done <- err
		}()
	}
	for range 2 {
		assert.NoError(t, <-done)
	}
	serving, _ := w.starts()
	assert.Equal(t, 2, serving)
	if found, err := w.engine.Containers(t.Context(), nil); err != nil || len(found) != 1 {
		t.Errorf("kept are %v (%v)", found, err)
	}
}

// What a run leaves in the work directory of a process is not there for the next, and
// each finds what the process says of it in its own files.
func TestARunLeavesNothingInAProcess(t *testing.T) {
	w, r, run := reserved(t, 5)
	defer r.Close(t.Context())
	w.engine.Images["served"] = w.serving(func(_ context.Context, p *served) int {
		work, _, err := p.Host("/var/lib/deployster/work")
		for q := range p.questions {
			if left, _ := os.ReadDir(work); q.Action == "init" && len(left) > 0 {
				t.Errorf("it finds %v", left)
			}
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
		if err != nil || !strings.Contains(string(text2), fmt.Sprintf("two%d", i)) || i == 1 && strings.Contains(string(text2), "two0") {
			t.Errorf("run %d finds %q (%v)", i, text2, err)
		}
	}
	serving, _ := w.starts()
	assert.Equal(t, 1, serving)
}

// What was given something in confidence, or failed, or is in the midst of saying
// something, does not come to another run.
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
			kept, err := w.engine.Containers(t.Context(), nil)
			require.NoError(t, err)
			assert.Empty(t, kept)
		})
	}
}

// A process that has served for long is not kept any more, however busy it is.
func TestAProcessIsNotKeptForEver(t *testing.T) {
	w, r, run := reserved(t, 5)
	defer r.Close(t.Context())
	began := time.Now()
	for i, want := range []int{1, 1, 1, 2} {
		_, err := w.apply(t, many(1, "served"), run(i), func(o *options) {
			o.Now = func() time.Time { return began.Add(time.Duration(i) * 6 * time.Minute) }
		})
		require.NoError(t, err)
		serving, _ := w.starts()
		assert.Equal(t, want, serving, i)
	}
}

// A process that was started with a directory is not asked about another one that is in
// its place since.
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
		look := func(o *options) {
			run(1)(o)
			o.Forget = true
		}
		for range 2 {
			found := w.mustDrift(t, many(1, of), look)
			assert.Equal(t, report.Stale, found.Resources[0].Status)
		}
		err := filepath.WalkDir(filepath.Join(w.workspace, ".deployster"), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("%s: %s is left", of, path)
			}
			return err
		})
		assert.NoError(t, err)
	}
}
