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
		statuses, err := w.apply(t, many(2, "served"), run(i))
		if err != nil || statuses["r0"] != report.Changed || statuses["r1"] != report.Changed {
			t.Errorf("run %d: %v, %v", i, statuses, err)
		}
		found, err := w.engine.Containers(t.Context(), map[string]string{invoke.LabelKind: invoke.KindServe})
		if err != nil || len(found) != 1 || found[0].Labels[invoke.LabelRun] != "RESERVE" {
			t.Errorf("after run %d there are %+v (%v)", i, found, err)
		}
	}
	if serving, _ := w.starts(); serving != 1 {
		t.Errorf("%d processes were started for 3 runs", serving)
	}
	r.Close(t.Context())
	if left, err := w.engine.Containers(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
	if _, err := os.Stat(filepath.Join(w.workspace, ".deployster", "work", "RESERVE")); !os.IsNotExist(err) {
		t.Errorf("its directory is left (%v)", err)
	}
	if _, err := w.apply(t, many(1, "served"), run(9)); err != nil {
		t.Error("after the reserve was closed: ", err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) > time.Hour {
			t.Errorf("after run %d: %+v, %v", i, info, err)
		}
		before := time.Now().Add(-40 * 24 * time.Hour)
		if err := os.Chtimes(dir, before, before); err != nil {
			t.Fatal(err)
		}
	}
	if serving, _ := w.starts(); serving != 1 {
		t.Errorf("%d processes were started for 2 runs", serving)
	}
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
			if _, err := w.apply(t, many(1, "served"), run(0)); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if killed {
				cancel()
			}
			began := time.Now()
			r.Close(ctx)
			if took := time.Since(began); (took == 0) != killed {
				t.Errorf("after a second signal %v: it took %s", killed, took)
			}
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
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if serving, _ := w.starts(); serving != 2 {
		t.Errorf("%d processes served two runs at once", serving)
	}
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
			if err := os.WriteFile(filepath.Join(work, "left"), nil, 0o600); err != nil {
				t.Error(err)
			}
			p.answer(t.Context(), q)
		}
		if err != nil {
			t.Error(err)
		}
		return 0
	})
	for i := range 2 {
		text := fmt.Sprintf("resources:\n  one: {type: served, config: {value: 1}}\n  two%d: {type: served, config: {value: 1}}\n", i)
		if _, err := w.apply(t, text, run(i)); err != nil {
			t.Fatal(err)
		}
		said, err := filepath.Glob(filepath.Join(w.workspace, ".deployster", "work", fmt.Sprintf("RUN%d", i), "_served", "*.stderr"))
		if err != nil || len(said) != 1 {
			t.Fatalf("run %d has %v (%v)", i, said, err)
		}
		text2, err := os.ReadFile(said[0])
		if err != nil || !strings.Contains(string(text2), fmt.Sprintf("two%d", i)) || i == 1 && strings.Contains(string(text2), "two0") {
			t.Errorf("run %d finds %q (%v)", i, text2, err)
		}
	}
	if serving, _ := w.starts(); serving != 1 {
		t.Errorf("%d processes were started", serving)
	}
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
			for q := range p.questions {
				if q.Action == "set" {
					p.say(`{"id":%d,"exit":7}`+"\n", q.ID)
					continue
				}
				p.answer(ctx, q)
			}
			return 0
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
			if err != nil || len(kept) > 0 {
				t.Errorf("kept are %v (%v)", kept, err)
			}
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
		if err != nil {
			t.Fatal(err)
		}
		if serving, _ := w.starts(); serving != want {
			t.Errorf("after run %d, %d processes were started; want %d", i, serving, want)
		}
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
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.apply(t, text, run(i)); err != nil {
			t.Fatal(err)
		}
		serving, _ := w.starts()
		if want := 1 + i/2; serving != want {
			t.Errorf("after run %d, %d processes were started; want %d", i, serving, want)
		}
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
			if found, err := w.runner(t, many(1, of), look).Drift(t.Context()); err != nil || found.Resources[0].Status != report.Stale {
				t.Fatalf("%s: %+v (%v)", of, found, err)
			}
		}
		err := filepath.WalkDir(filepath.Join(w.workspace, ".deployster"), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("%s: %s is left", of, path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
