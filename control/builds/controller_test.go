package builds_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
)

func TestAGroupIsBuiltInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.submit("base", jobs("", "1", "1", "2,3"))
		w.takes = func(t build.Task) time.Duration { return time.Duration(t.Job) * time.Second }
		w.untilIdle()
		w.wantState(id, transition.Complete)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a", id+"/3.1 a", id+"/4.1 a")
		want := []string{
			"group-triggered", "group-created", "group-jobs-created", "group-queued", "group-started", "group-jobs-eligible",
			"job-started 1", "job-finished-successfully 1", "job-dependents-eligible 1", "job-started 2", "job-started 3",
			"job-finished-successfully 2", "job-finished-successfully 3", "job-dependents-eligible 3",
			"job-started 4", "job-finished-successfully 4", "group-finished-successfully",
		}
		assert.Equal(t, want, w.story(id), "the log tells")
	})
}

func TestJobsAreDoneOnTheLeastBusyWorkerThatServesThem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 2), host("b", 4), host("arm", 9, "linux/arm64"), host("v8", 1, "linux/amd64/v2"))
		w.takes = func(build.Task) time.Duration { return time.Hour }
		w.submit("base", jobs("", "", "", "", "", "", "", "", ""))
		d := w.start()
		byWorker := map[string]int{}
		for _, text := range w.hasBegun() {
			_, worker, _ := strings.Cut(text, " ")
			byWorker[worker]++
		}
		if len(w.hasBegun()) != 7 || byWorker["a"] != 2 || byWorker["b"] != 4 || byWorker["v8"] != 1 {
			t.Errorf("there began %q", w.hasBegun())
		}
		var first []string
		for _, e := range w.events() {
			if e.Name == record.JobStarted {
				first = append(first, record.Decode[record.Started](e).Worker)
			}
		}
		require.Equal(t, []string{"a", "b", "v8"}, slices.Sorted(slices.Values(first[:3])), "they began on %q", first)
		assert.False(t, slices.Equal(first[3:5], []string{"a", "a"}), "they began on %q", first)
		d.die()
	})
}

func TestParallelismBoundsAllWorkers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 2), host("b", 2))
		w.options.Parallelism = 3
		id := w.submit("base", jobs("", "", "", "", "", "", ""))
		d := w.start()
		assert.Equal(t, 3, len(w.hasBegun()), "jobs began at once")
		wait(time.Minute)
		w.wantState(id, transition.Complete)
		d.end()
	})
}

func TestACancelStopsAtOnceWhatRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		id, other := w.submit("base", jobs("", "", "", "1")), w.submit("other", jobs(""))
		w.takes = func(build.Task) time.Duration { return time.Hour }
		d := w.start()
		w.wantBegun(id+"/1.1 a", id+"/2.1 a")
		wait(10 * time.Second)
		w.do(build.Cancel{Group: id, By: "me"})
		wait(100 * time.Millisecond)
		w.wantState(id, transition.Canceled)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a", other+"/1.1 a") // for which there is room now
		wait(2 * time.Hour)
		w.wantState(other, transition.Complete)
		d.end()
	})
}

func TestAJobThatDoesNotStopGivesItsSlotToOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 1))
		id, other := w.submit("base", jobs("")), w.submit("other", jobs(""))
		hangs := make(chan struct{})
		w.hook = func(_ context.Context, t build.Task) *build.Result {
			if t.Group != id {
				return nil
			}
			<-hangs
			r := build.Result{Canceled: &record.Canceled{}}
			return &r
		}
		w.mu.Lock()
		w.hosts[0].Slots = 1
		w.mu.Unlock()
		d := w.start()
		w.do(build.Cancel{Group: id})
		wait(30 * time.Second)
		w.wantState(other, transition.Queued)
		w.mu.Lock()
		w.atOnce["a"]-- // it is known that one goes on there
		w.mu.Unlock()
		wait(2 * time.Minute)
		w.wantState(other, transition.Complete)
		w.wantState(id, transition.Canceling)
		w.mu.Lock()
		w.atOnce["a"]++
		w.mu.Unlock()
		close(hangs)
		wait(time.Second)
		w.wantState(id, transition.Canceled)
		d.end()
	})
}

func TestAFailureLetsTheRestGoOn(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.submit("base", jobs("", "1", "", "3"))
		w.ends = func(t build.Task) build.Result {
			if t.Job == 1 {
				return failed("no")
			}
			return built(t)
		}
		w.untilIdle()
		w.wantState(id, transition.Failed)
		assert.Equal(t, 3, len(w.hasBegun()))
	})
}

func TestAPanicIsAFailureOfTheJob(t *testing.T) {
	inWorld(t, func(w *world) {
		id, other := w.submit("base", jobs("", "1")), w.submit("other", jobs(""))
		w.hook = func(_ context.Context, t build.Task) *build.Result {
			if t.Group == id {
				panic("out of wits")
			}
			return nil
		}
		w.untilIdle()
		w.wantState(id, transition.Failed)
		w.wantState(other, transition.Complete)
		assert.Contains(t, string(w.event(record.JobFailed).Data), "out of wits")
	})
}

// event is the last event of a name.
func (w *world) event(name string) (last deploylog.Event) {
	w.Helper()
	for _, e := range w.events() {
		if e.Name == name {
			last = e
		}
	}
	require.NotZero(w, last.Seq, "there is no %s", name)
	return last
}

func TestWhatABuilderSaysThatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		result build.Result
		cause  string
	}{
		"nothing":                     {build.Result{}, "nothing says how"},
		"more than the log takes":     {build.Result{Finished: &record.Finished{Artifact: "sha256:1", Metadata: map[string]string{"k": strings.Repeat("x", deploylog.MaxData)}}}, "cannot be recorded"},
		"a failure that is too large": {failed(strings.Repeat("x", deploylog.MaxData)), "cannot be recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				id := w.submit("base", jobs(""))
				w.ends = func(build.Task) build.Result { return tc.result }
				w.untilIdle()
				w.wantState(id, transition.Failed)
				assert.Contains(t, string(w.event(record.JobFailed).Data), tc.cause)
			})
		})
	}
	t.Run("that it was canceled, and it was not", func(t *testing.T) {
		inWorld(t, func(w *world) {
			id := w.submit("base", jobs(""))
			once := false
			w.ends = func(t build.Task) build.Result {
				if once {
					return built(t)
				}
				once = true
				return build.Result{Canceled: &record.Canceled{}}
			}
			w.untilIdle()
			w.wantState(id, transition.Complete)
			w.event(record.JobLost)
		})
	})
}

func TestStopLetsWhatRunsFinishAndBeginsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.submit("base", jobs("", "", "", "1"))
		d := w.start()
		w.wantBegun(id+"/1.1 a", id+"/2.1 a")
		d.end()
		w.wantBegun(id+"/1.1 a", id+"/2.1 a")
		if story := w.story(id); !strings.HasPrefix(story[len(story)-1], "job-dependents-eligible") && !strings.HasPrefix(story[len(story)-1], "job-finished") {
			t.Errorf("it tells %q", story)
		}
		w.untilIdle()
		w.wantState(id, transition.Complete)
		assert.Empty(t, w.resumed)
	})
}

func TestWhatAKilledDispatcherBeganIsTakenUpAtOnceByTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs("", "", "1,2"))
		first, second := w.start(), w.start()
		assert.Len(t, w.notices("standing by"), 1, "notified %q", w.notified)
		wait(30 * time.Second)
		first.die()
		wait(200 * time.Millisecond)
		assert.Equal(t, []string{id + "/1.1 a", id + "/2.1 a"}, slices.Sorted(slices.Values(w.resumed)))
		wait(31 * time.Second)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a", id+"/3.1 a")
		wait(2 * time.Minute)
		w.wantState(id, transition.Complete)
		second.end()
	})
}

func TestWhatEndedWhileNobodyLookedIsCollected(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs("", ""))
		w.start().die()
		wait(time.Hour)
		w.remove(build.Task{Group: id, Job: 2}, w.containers[record.Job(id, 2)]) // somebody removed it
		w.untilIdle()
		w.wantState(id, transition.Complete)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a", id+"/2.2 a")
		if got := w.notices("rests"); len(got) > 0 { // it was not the worker that died
			t.Errorf("notified %q", got)
		}
	})
}

func TestACancelWhileNobodyDispatches(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return 24 * time.Hour }
		id := w.submit("base", jobs("", "", "1"))
		w.start().die()
		w.do(build.Cancel{Group: id})
		w.wantState(id, transition.Canceling)
		before := time.Now()
		w.untilIdle()
		w.wantState(id, transition.Canceled)
		require.LessOrEqual(t, time.Since(before), time.Second)
		assert.Empty(t, w.containers)
	})
}

// A dispatcher that dies at any append is replaced by one that brings about the same.
func TestWhoeverDiesWhereverEverythingIsBuiltOnce(t *testing.T) {
	life := func(t *testing.T, lives int, last bool) (appends int) {
		inWorld(t, func(w *world) {
			id := w.submit("base", jobs("", "", "1,2", "3", "3"))
			m := &reconciletest.Mortal{Log: w.log, Lives: lives, Last: last}
			w.options.Log, w.options.UntilIdle = m, true
			for died := true; died; w.options.Log = w.log {
				err := builds.NewController(w.options).Run(context.Background())
				if died = errors.Is(err, reconciletest.ErrDead); err != nil && !died {
					t.Fatal(err)
				}
			}
			w.wantState(id, transition.Complete)
			check(w)
			appends = m.Calls()
		})
		return appends
	}
	appends := life(t, 1000, false)
	require.GreaterOrEqual(t, appends, 5)
	for lives := range appends {
		for _, last := range []bool{false, true} {
			life(t, lives, last)
		}
	}
}

func TestAStalledGroupIsAnErrorAndKeepsNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		id, other := w.submit("base", jobs("", "1")), w.submit("other", jobs(""))
		o := w.options
		o.UntilIdle = true
		w.hook = func(_ context.Context, task build.Task) *build.Result {
			if task.Group == id && task.Job == 1 {
				e, err := record.New(id, record.Group(id), record.GroupStalled, 1, record.Ended{Cause: "nothing is dispatched"})
				if _, err2 := w.log.Append(context.Background(), e); errors.Join(err, err2) != nil {
					t.Error(err, err2)
				}
			}
			return nil
		}
		err := builds.NewController(o).Run(context.Background())
		assert.ErrorContains(t, err, id+": nothing is dispatched", "it ends with")
		w.wantState(other, transition.Complete)
	})
}

func TestADispatcherThatHasNothingToDoWaitsForTheFirstGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		d := w.start()
		wait(time.Minute)
		id := w.submit("base", jobs(""))
		wait(2 * time.Second)
		w.wantState(id, transition.Complete)
		d.end()
		w.untilIdle()
	})
}

func TestACancelIsCommittedWhileMuchIsDispatched(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 100))
		id := w.submit("base", jobs(make([]string, 2000)...))
		w.takes = func(build.Task) time.Duration { return time.Millisecond }
		d := w.start()
		wait(3 * time.Millisecond)
		w.do(build.Cancel{Group: id})
		synctest.Wait()
		wait(time.Second)
		w.wantState(id, transition.Canceled)
		check(w)
		d.end()
	})
}
