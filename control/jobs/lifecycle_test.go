package jobs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

func (w *world) wants(r build.Result, want string) {
	w.Helper()
	if got := told(r); got != want && (!strings.HasSuffix(want, "…") || !strings.HasPrefix(got, strings.TrimSuffix(want, "…"))) {
		w.Fatalf("it is %q, want %q", got, want)
	}
}

func (w *world) hanging(ctx context.Context, t *testing.T) (task build.Task, ended chan build.Result) {
	task = w.task(w.recipe("print begun", "write "+out+"/f text", "await "+out+"/go", "print done"))
	ended = make(chan build.Result, 1)
	go func() { ended <- w.jobs.Build(ctx, task) }()
	waittest.Until(t, func() bool { return w.log(task) == "begun\n" }, "it has begun")
	return task, ended
}

func (w *world) goOn() {
	assert.NoError(w, os.WriteFile(filepath.Join(w.work(), "out", "go"), nil, 0o600))
}

func (w *world) work() string {
	return filepath.Join(w.dir, engine.StateDir, "builds", "work", "base-7~12.1")
}

func TestAJobThatIsCanceledIsStopped(t *testing.T) {
	w := newWorld(t, fakeEngine())
	ctx, cancel := cancelable(t)
	task, ended := w.hanging(ctx, t)
	cancel()
	r := <-ended
	w.wants(r, "canceled")
	assert.Equal(t, jobs.LogName("base-7", 12, 1), r.Canceled.Log)
	w.clean()
	w.wants(w.jobs.Build(ctx, task), "canceled")
	w.wants(w.jobs.Resume(ctx, task), "canceled")
}

func TestAJobIsLeftToTheNextProcess(t *testing.T) {
	w := newWorld(t, fakeEngine())
	ctx, stop := context.WithCancel(t.Context())
	task, ended := w.hanging(ctx, t)
	stop()
	w.wants(<-ended, "left")
	w.wants(w.jobs.Resume(ctx, task), "left")
	w.goOn()
	waittest.Until(t, func() bool {
		text, err := os.ReadFile(filepath.Join(w.work(), "progress"))
		return err == nil && strings.Contains(string(text), `{"ended":{`)
	}, "its container has ended")
	w.restart()
	w.resumes(task, "finished")
	assert.Equal(t, "begun\ndone\n", w.log(task))
}

func TestAResultIsKeptUntilItIsRecorded(t *testing.T) {
	for _, lines := range [][]string{{"write " + out + "/f text"}, {"exit 3"}} {
		fake := fakeEngine()
		w := newWorld(t, fake)
		task := w.task(w.recipe(lines...))
		want := told(w.jobs.Build(t.Context(), task))
		w.restart() // before it was recorded
		w.resumes(task, want)
		assert.Len(t, fake.Runs(), 1)
		w.clean()
		w.resumes(task, "lost: the process that did it has died, and its container is gone")
	}
}

// left puts a container into the engine that a process left which has died.
func (w *world) leave(fake *enginetest.Fake, attempt string) (end func(code int)) {
	for _, dir := range []string{"out", "empty"} {
		require.NoError(w, os.MkdirAll(filepath.Join(w.work(), dir), 0o700))
	}
	for name, text := range map[string]string{
		"metadata": "", "out/f": "text", "progress": `{"begun":{"at":"` + time.Now().Format(time.RFC3339Nano) + `","image":{"ID":"` + w.id + `"}}}`,
	} {
		require.NoError(w, os.WriteFile(filepath.Join(w.work(), name), []byte(text), 0o600))
	}
	id, end := fake.Leave(map[string]string{
		"deployster.log": w.options.Log, "deployster.kind": "job", "deployster.job": "base-7/12", "deployster.attempt": attempt,
	})
	fake.Print(id, "begun\n", "")
	return end
}

func TestWhatIsLeftIsGoneOnWith(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		want string
	}{
		"it succeeds": {0, "finished"},
		"it fails":    {9, "failed: exited with 9"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := fakeEngine()
			w := newWorld(t, fake)
			end := w.leave(fake, "1")
			task := w.task(w.recipe())
			ended := make(chan build.Result, 1)
			go func() { ended <- w.jobs.Resume(t.Context(), task) }()
			waittest.Until(t, func() bool { return w.log(task) == "begun\n" }, "its log is there")
			end(c.code)
			r := <-ended
			w.wants(r, c.want)
			if r.Finished != nil {
				assert.Equal(t, "f: text", w.content(r.Finished.Artifact))
			}
		})
	}
}

func TestWhatIsLeftAndCannotBeResumedIsRemoved(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	_ = w.leave(fake, "1")
	r := w.recipe()
	r.Secrets = map[string]recipe.Secret{"TOKEN": {Value: "{{ other }}"}}
	w.options.Secrets = resolved
	w.restart()
	w.resumes(w.task(r), "unbuildable: its secrets: TOKEN is not what it was")
}

func TestAnotherAttemptRemovesWhatIsLeft(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	_ = w.leave(fake, "1")
	task := w.task(w.recipe("list " + out))
	task.Attempt = 2
	w.does(task, "finished")
	assert.Empty(t, w.log(task))
}

func TestTheFaultOfAWorkerIsNotThatOfTheJob(t *testing.T) {
	away := fmt.Errorf("%w: it is away", engine.ErrUnavailable)
	for name, c := range map[string]struct {
		change func(w *world, fake *enginetest.Fake)
		lines  []string
		want   string
	}{
		"it cannot be reached": {
			change: func(w *world, _ *enginetest.Fake) {
				w.options.Worker = func(context.Context, string) (jobs.Worker, error) {
					return jobs.Worker{}, errors.New("host w1: no route")
				}
			},
			want: "lost: host w1: no route",
		},
		"it sees other files": {
			change: func(w *world, fake *enginetest.Fake) {
				w.options.Worker = func(context.Context, string) (jobs.Worker, error) {
					return jobs.Worker{Engine: fake, Images: fake, Info: engine.Info{Name: "docker", Address: "tcp://w1", Remote: true}}, nil
				}
			},
			want: "lost: the engine of worker local, docker at tcp://w1, does not see the files of this machine, …",
		},
		"its engine is gone": {
			change: func(_ *world, fake *enginetest.Fake) { fake.Fail = func(engine.Spec) error { return away } },
			want:   "lost: run image …",
		},
		"its disk is full": {
			change: func(_ *world, fake *enginetest.Fake) {
				fake.Fail = func(engine.Spec) error { return errors.New("mkdir: no space left on device") }
			},
			want: "lost: run image …",
		},
		"the disk is full": {
			change: func(w *world, _ *enginetest.Fake) { w.options.MinFree = 1 << 60 },
			want:   "lost: preparing the job: only …",
		},
		"its engine is stopped, and the container with it": {
			change: func(w *world, fake *enginetest.Fake) {
				w.options.Worker = func(context.Context, string) (jobs.Worker, error) {
					return jobs.Worker{Engine: silent{fake, away}, Images: fake}, nil
				}
			},
			lines: []string{"exit 143"},
			want:  "lost: its container exited with 143 (terminated), and engine is not available: it is away",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := fakeEngine()
			w := newWorld(t, fake)
			c.change(w, fake)
			w.restart()
			w.does(w.task(w.recipe(c.lines...)), c.want)
		})
	}
}

// silent is an engine that does not say who it is any more.
type silent struct {
	engine.Engine
	err error
}

func (s silent) Info(context.Context) (engine.Info, error) { return engine.Info{}, s.err }

func (w *world) spoil(digest string) {
	dir := must.Get(w.store.Directory(context.Background(), digest))(w)
	require.NoError(w, filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			err = errors.Join(os.Chmod(name, 0o600), os.WriteFile(name, []byte("altered"), 0o600))
		}
		return err
	}))
}

func TestWhatAJobUsesMustBeAsItWasMade(t *testing.T) {
	w := newWorld(t, fakeEngine())
	good, bad, missing := w.artifact(map[string]string{"a": "1"}), w.artifact(map[string]string{"a": "2"}), "sha256:"+strings.Repeat("0", 64)
	w.spoil(bad)
	task := w.task(w.recipe())
	task.Uses = []build.Dependency{{Package: "a", Artifact: good, Job: 1, Direct: true}, {Package: "b", Artifact: bad, Job: 2, Direct: true}, {Package: "c", Artifact: missing, Job: 3}}
	r := w.does(task, "spoiled: b, which job 2 built: artifact "+bad+": …")
	assert.Equal(t, []string{bad, missing}, r.Lost.Spoiled)
	assert.Contains(t, r.Lost.Cause, "; c, which job 3 built")
	for i := range task.Uses {
		task.Uses[i].Job = 0
	}
	w.does(task, "unbuildable: b, which was released: artifact "+bad+": …")
	run := w.recipe()
	run.Artifact = missing
	w.does(w.task(run), "unbuildable: its sources: artifact "+missing+": …")
}

func TestWhatWasBuiltIsNotBuiltAgain(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	task := w.task(w.recipe("write " + out + "/f text"))
	first := w.does(task, "finished")
	task.Group, task.Reuse = "base-8", &build.Built{Group: "base-7", Job: 12, Finished: *first.Finished}
	r := w.does(task, "reused job/base-7/12")
	assert.Equal(t, first.Finished.Artifact, r.Finished.Artifact)
	assert.True(t, r.Finished.Size == 4 && r.Finished.Took == 0 && r.Finished.Log == "", "it is %+v", r.Finished)
	w.resumes(task, "reused job/base-7/12")
	assert.Len(t, fake.Runs(), 1)
	w.spoil(first.Finished.Artifact)
	w.does(task, "mistaken: what job/base-7/12 built is not there any more: …")
}

// refusing is a store whose registry refuses so many times.
type refusing struct {
	*artifacts.Store
	times atomic.Int32
	tag   string
	err   error // nil is that it does not answer
}

func (r *refusing) Push(_ context.Context, digest, repository, tag string, _ func(artifacts.Progress)) (string, error) {
	if r.tag = tag; r.times.Add(-1) >= 0 {
		return "", cmp.Or(r.err, errors.New("the registry is away"))
	}
	return repository + "@" + digest, nil
}

func TestWhatIsBuiltIsPushed(t *testing.T) {
	for times, want := range map[int32]string{0: "finished", 8: "finished", 9: "failed: sha256:…"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, fakeEngine())
			store := &refusing{Store: w.store}
			store.times.Store(times)
			w.options.Artifacts = store
			w.restart()
			task := w.task(w.recipe())
			task.Artifacts, task.Group, task.Package = "registry/base", "core/base-7", "c++"
			r := w.does(task, want)
			assert.True(t, (r.Finished == nil || r.Finished.Pushed == "registry/base@"+r.Finished.Artifact) &&
				store.tag == "core_base-7.12-c__", "it is %+v there, with the tag %s", r.Finished, store.tag)
			if r.Failed != nil && !strings.HasSuffix(r.Failed.Cause, "could not be pushed to registry/base: the registry is away; `deployster build retry core/base-7` pushes it, and builds it no more") {
				t.Errorf("it is said %q", r.Failed.Cause)
			}
		})
	}
}

func TestWhatCouldNotBePushedIsNotBuiltAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeEngine()
		w := newWorld(t, fake)
		store := &refusing{Store: w.store, err: fmt.Errorf("it %w", artifacts.ErrDenied)}
		store.times.Store(4) // one that denies it is not asked as often
		w.options.Artifacts = store
		w.restart()
		task := w.task(w.recipe("print hello", "append "+metadata+" a=1", "write "+out+"/f text"))
		task.Artifacts = "registry/base"
		r := w.does(task, "failed: sha256:…")
		require.NotNil(t, r.Failed, "it does not say what it has built")
		require.NotNil(t, r.Failed.Unpushed, "it does not say what it has built: %+v", r.Failed)
		again := task
		again.Attempt, again.Reuse = 2, &build.Built{Group: task.Group, Job: task.Job, Attempt: 1, Finished: *r.Failed.Unpushed}
		second := w.does(again, `finished {"a":"1"}`)
		if f := second.Finished; f != nil && (f.Pushed != "registry/base@"+f.Artifact || f.Log != jobs.LogName("base-7", 12, 1) || f.LogBytes != 6 || f.Size != 4) {
			t.Errorf("it is recorded as %+v", f)
		}
		assert.Len(t, fake.Runs(), 1)
		// Another group that builds the same takes it, too.
		again.Group = "base-8"
		w.does(again, "reused job/base-7/12")
	})
}

func TestWhatIsReusedIsNotSaidToBeInARegistryThatTheGroupDoesNotName(t *testing.T) {
	w := newWorld(t, fakeEngine())
	task := w.task(w.recipe())
	made := *w.jobs.Build(t.Context(), task).Finished
	made.Pushed, task.Group = "registry/gone@"+made.Artifact, "base-8"
	task.Reuse = &build.Built{Group: "base-7", Job: 12, Finished: made}
	assert.Empty(t, w.does(task, "reused job/base-7/12").Finished.Pushed)
}

func TestWhatIsReusedIsPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeEngine())
		store := &refusing{Store: w.store}
		var beside []string
		w.options.Artifacts = store
		w.options.Attach = func(_ context.Context, reference, hash string) error {
			beside = append(beside, reference+" "+hash)
			return nil
		}
		w.restart()
		task := w.task(w.recipe())
		made := *w.jobs.Build(t.Context(), task).Finished
		made.Provenance, task.Group, task.Artifacts = "hash", "base-8", "registry/base"
		for _, was := range []string{"", "registry/other@" + made.Artifact, "registry/base@" + made.Artifact} {
			made.Pushed, store.tag, beside = was, "", nil
			task.Reuse = &build.Built{Group: "base-7", Job: 12, Finished: made}
			r := w.does(task, "reused job/base-7/12")
			there := "registry/base@" + made.Artifact
			assert.Equal(t, there, r.Finished.Pushed, "it was at %q", was)
			if pushes := was != there; pushes != (store.tag == "base-8.12-make") || pushes != slices.Equal(beside, []string{there + " hash"}) {
				t.Errorf("what was at %q is pushed with the tag %q, and has beside it %q", was, store.tag, beside)
			}
		}
		task.Reuse.Finished.Pushed = ""
		store.times.Store(100)
		w.does(task, "failed: "+made.Artifact+" is built, and could not be pushed to registry/base: …")
		ctx, cancel := cancelable(t)
		cancel()
		w.wants(w.jobs.Build(ctx, task), "canceled")
	})
}

func TestHowItWasMadeIsKept(t *testing.T) {
	w := newWorld(t, fakeEngine())
	var made jobs.Made
	w.options.Provenance = func(_ context.Context, m jobs.Made) (string, error) { made = m; return "hash", nil }
	w.restart()
	task := w.task(w.recipe("append " + metadata + " a=1"))
	r := w.does(task, `finished {"a":"1"}`)
	assert.True(t, r.Finished != nil && r.Finished.Provenance == "hash" && made.Artifact.Digest == r.Finished.Artifact &&
		made.Image.ID == w.id && made.Metadata["a"] == "1" && made.End.After(made.Began), "%+v of %+v", made, r.Finished)
	var beside []string
	w.options.Artifacts = &refusing{Store: w.store}
	w.options.Attach = func(_ context.Context, reference, hash string) error {
		beside = append(beside, reference+" "+hash)
		return nil
	}
	w.restart()
	task.Attempt, task.Artifacts = 2, "registry/base"
	assert.Equal(t, []string{w.does(task, `finished {"a":"1"}`).Finished.Pushed + " hash"}, beside)
	w.options.Provenance = func(context.Context, jobs.Made) (string, error) { return "", errors.New("no room") }
	w.restart()
	task.Attempt = 3
	w.does(task, "lost: keeping how it was made: no room")
}

// Neither a full disk nor a worker that is gone by now is a reason to build again.
func TestWhatIsBuiltIsNotLostWhereItsResultCannotBeKept(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	inTheWay := w.work() + ".result"
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
	task := w.task(w.recipe("write " + out + "/f text"))
	first := w.does(task, "finished")
	require.NoError(t, os.RemoveAll(inTheWay))
	w.options.Worker = func(context.Context, string) (jobs.Worker, error) {
		return jobs.Worker{}, errors.New("its engine is down")
	}
	w.restart()
	again := w.resumes(task, "finished")
	assert.Equal(t, first.Finished.Artifact, again.Finished.Artifact)
	assert.Equal(t, first.Finished.Engine, again.Finished.Engine)
	assert.Len(t, fake.Runs(), 1)
}

// A process may be killed while it writes: what is there then is as if it were not. What is there
// whole is not written again, for that may be cut short, too.
func TestWhatIsWrittenInPartIsNotThere(t *testing.T) {
	for _, missing := range []int{0, 1, 100, 1 << 20} { // bytes
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			fake := fakeEngine()
			w := newWorld(t, fake)
			path := w.work() + ".result"
			if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil { // so that all else stays
				t.Fatal(err)
			}
			task := w.task(w.recipe("write " + out + "/f text"))
			first := w.does(task, "finished")
			whole, err := json.Marshal(map[string]any{"result": first})
			require.NoError(t, errors.Join(err, os.RemoveAll(path), os.WriteFile(path, whole[:max(0, len(whole)-missing)], 0o600)))
			before := must.Get(os.Stat(path))(t)
			w.restart()
			assert.Equal(t, first.Finished.Artifact, w.resumes(task, "finished").Finished.Artifact)
			after, err := os.Stat(path)
			assert.True(t, err == nil && (missing != 0 || after.ModTime().Equal(before.ModTime())), "the result was written again: %v", err)
			assert.Len(t, fake.Runs(), 1)
		})
	}
}

func TestAResultIsForgottenOnlyWhenItIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeEngine())
		var recorded atomic.Bool
		w.options.Over = func(context.Context, deploylog.Target, int) (bool, error) { return recorded.Load(), nil }
		w.restart()
		for i, want := range []int{1, 2, 1} {
			recorded.Store(i == 2)
			task := w.task(w.recipe())
			task.Job = 20 + i
			w.does(task, "finished")
			w.jobs.Wait()
			assert.Len(t, w.left(), want, "after %d jobs", i+1)
			<-time.After(2 * time.Minute)
		}
	})
}

// skewed is an engine whose clock is ahead of that of this machine, or behind it.
type skewed struct {
	*enginetest.Fake
	by time.Duration
}

func (s skewed) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	all, err := s.Fake.Containers(ctx, labels)
	for i := range all {
		all[i].Created = all[i].Created.Add(s.by)
	}
	return all, err
}

func (s skewed) Wait(ctx context.Context, id string) (engine.Exit, error) {
	exit, err := s.Fake.Wait(ctx, id)
	exit.Ended = exit.Ended.Add(s.by)
	return exit, err
}

// Whatever clock an engine has, a job ends after it has begun and not later than now, and has not
// taken longer than its engine says.
func TestAnEngineWithAnotherClock(t *testing.T) {
	for name, by := range map[string]time.Duration{"it is right": 0, "it is ahead": time.Hour, "it is behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakeEngine()
				w := newWorld(t, skewed{fake, by})
				var made jobs.Made
				w.options.Provenance = func(_ context.Context, m jobs.Made) (string, error) {
					made = m
					return "statement", nil
				}
				w.restart()
				began := time.Now()
				end := w.leave(fake, "1")
				<-time.After(2 * time.Minute)
				end(0)
				<-time.After(time.Hour / 2)
				r := w.resumes(w.task(w.recipe()), "finished")
				want := map[time.Duration]time.Time{0: began.Add(2 * time.Minute), time.Hour: time.Now(), -time.Hour: began}[by]
				require.WithinDuration(t, began, made.Began, 0, "it was made from %s to %s, want to %s", made.Began, made.End, want)
				assert.WithinDuration(t, want, made.End, 0, "it was made from %s to %s, want to %s", made.Began, made.End, want)
				assert.Equal(t, want.Sub(began), r.Finished.Took)
			})
		})
	}
}

func TestWhatTookTooLongUnseenHasTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeEngine()
		w := newWorld(t, skewed{fake, time.Hour})
		end := w.leave(fake, "1")
		<-time.After(6 * time.Minute)
		end(0)
		w.resumes(w.task(w.recipe()), "failed: timed out after 5m")
	})
}
