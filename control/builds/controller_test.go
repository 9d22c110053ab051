package builds_test

import (
	"context"
	"errors"
	"iter"
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
	"github.com/deployster-go/deployster/inventory"
)

func TestAGroupIsBuiltInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.submit("base", jobs("", "1", "1", "2,3"))
		w.takes = func(t build.Task) time.Duration { return time.Duration(t.Job) * time.Second }
		w.completes(id)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a", id+"/3.1 a", id+"/4.1 a")
		assert.Equal(t, []string{
			"group-triggered", "group-created", "group-jobs-created", "group-queued", "group-started", "group-jobs-eligible",
			"job-started 1", "job-finished-successfully 1", "job-dependents-eligible 1", "job-started 2", "job-started 3",
			"job-finished-successfully 2", "job-finished-successfully 3", "job-dependents-eligible 3",
			"job-started 4", "job-finished-successfully 4", "group-finished-successfully",
		}, w.story(id), "the log tells")
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
		assert.True(t, len(w.hasBegun()) == 7 && byWorker["a"] == 2 && byWorker["b"] == 4 &&
			byWorker["v8"] == 1, "there began %q", w.hasBegun())
		var first []string
		for _, e := range w.Events() {
			if e.Name == record.JobStarted {
				first = append(first, record.Decode[record.Started](e).Worker)
			}
		}
		require.Equal(t, []string{"a", "b", "v8"}, slices.Sorted(slices.Values(first[:3])), "they began on %q", first)
		assert.False(t, slices.Equal(first[3:5], []string{"a", "a"}), "they began on %q", first)
		d.Die()
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
		d.completes(other)
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
		w.set(func() { w.hosts[0].Slots = 1 })
		d := w.start()
		w.do(build.Cancel{Group: id})
		wait(30 * time.Second)
		w.wantState(other, transition.Queued)
		w.set(func() { w.atOnce["a"]-- }) // it is known that one goes on there
		wait(2 * time.Minute)
		w.wantState(other, transition.Complete)
		w.wantState(id, transition.Canceling)
		w.set(func() { w.atOnce["a"]++ })
		close(hangs)
		wait(time.Second)
		w.wantState(id, transition.Canceled)
		d.End()
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

func (w *world) event(name string) (last deploylog.Event) {
	for _, e := range w.Events() {
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
			w.completes(id)
			w.event(record.JobLost)
		})
	})
}

func TestWhatAKilledDispatcherBeganIsTakenUpAtOnceByTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs("", "", "1,2"))
		first, second := w.start(), w.start()
		assert.Len(t, w.Notices("standing by"), 1, "notified %q", w.Notices(""))
		wait(30 * time.Second)
		first.Die()
		wait(200 * time.Millisecond)
		assert.Equal(t, []string{id + "/1.1 a", id + "/2.1 a"}, slices.Sorted(slices.Values(w.resumed)))
		wait(31 * time.Second)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a", id+"/3.1 a")
		wait(2 * time.Minute)
		second.completes(id)
	})
}

func TestWhatEndedWhileNobodyLookedIsCollected(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs("", ""))
		w.start().Die()
		wait(time.Hour)
		w.remove(build.Task{Group: id, Job: 2}, w.containers[record.Job(id, 2)]) // somebody removed it
		w.completes(id)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a", id+"/2.2 a")
		if got := w.Notices("rests"); len(got) > 0 { // it was not the worker that died
			t.Errorf("notified %q", got)
		}
	})
}

func TestACancelWhileNobodyDispatches(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return 24 * time.Hour }
		id := w.submit("base", jobs("", "", "1"))
		w.start().Die()
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
			m := &reconciletest.Mortal{Log: w.DeployLog, Lives: lives, Last: last}
			w.options.Log, w.options.UntilIdle = m, true
			for died := true; died; w.options.Log = w.DeployLog {
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
				_, err2 := w.DeployLog.Append(context.Background(), e)
				assert.NoError(t, errors.Join(err, err2), "%v %v", err, err2)
			}
			return nil
		}
		assert.ErrorContains(t, builds.NewController(o).Run(context.Background()), id+": nothing is dispatched", "it ends with")
		w.wantState(other, transition.Complete)
	})
}

func TestADispatcherThatHasNothingToDoWaitsForTheFirstGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		d := w.start()
		wait(time.Minute)
		id := w.submit("base", jobs(""))
		wait(2 * time.Second)
		d.completes(id)
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
		d.End()
	})
}

func TestKilledDispatchersAreNotTheFaultOfAJob(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs(""))
		for range 6 {
			d := w.start()
			wait(50 * time.Second)
			w.set(func() { clear(w.containers) })
			d.Die()
		}
		d := w.start()
		wait(3 * time.Minute)
		d.completes(id)
	})
}

func TestWhichHostsServeAPlace(t *testing.T) {
	beta := inventory.Host{Name: "beta", Slots: 1, Platforms: []string{"linux/arm64", "linux/amd64/v2"}, Attributes: map[string][]string{"stack": {"beta"}}}
	for query, want := range map[string]bool{"": true, "attribute:stack == beta": true, "attribute:stack == prod": false, "attribute:((": false} {
		assert.Equal(t, want, builds.Serves(beta, record.Place{Platform: "linux/amd64", Workers: query}), "%q is served", query)
	}
	for platform, want := range map[string]bool{"linux/arm64": true, "linux/amd64": true, "linux/amd64/v2": true, "linux/amd64/v3": false, "linux/amd": false, "linux/arm": false, "": false} {
		assert.Equal(t, want, builds.Serves(beta, record.Place{Platform: platform}), "%q is served", platform)
	}
}

// Whoever interrupts a dispatcher lets it finish what runs, unless that is not wanted any more.
func TestACancelIsHeardWhileADispatcherEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return 3 * time.Hour }
		id := w.submit("base", jobs(""))
		d := w.start()
		wait(5 * time.Second)
		close(d.Stop)
		wait(5 * time.Second)
		w.do(build.Cancel{Group: id})
		wait(time.Minute)
		assert.Equal(t, transition.Canceled, w.state(id), "a minute after the cancel the group")
		assert.NoError(t, <-d.Ended)
		d.Kill(nil)
	})
}

// A process that is ended before a canceled job has stopped says nothing of the job: the next one waits for that.
func TestWhatIsCutOffBeforeItHasStoppedIsNotCanceled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hook = func(ctx context.Context, _ build.Task) *build.Result {
			<-ctx.Done()
			<-builds.Life(ctx).Done()
			return &build.Result{}
		}
		id := w.submit("base", jobs(""))
		d := w.start()
		wait(5 * time.Second)
		w.do(build.Cancel{Group: id})
		wait(time.Minute)
		d.Kill(nil)
		<-d.Ended
		require.Equal(t, transition.Canceling, w.state(id))
		assert.NotContains(t, w.story(id), record.JobFailed)
		w.hook = nil
		next := w.start()
		wait(time.Minute)
		w.wantState(id, transition.Canceled)
		next.End()
		check(w)
	})
}

// Nor does a process that is to end wait for ever for an engine that does not answer.
func TestADispatcherEndsWhileACanceledJobDoesNotStop(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hook = func(ctx context.Context, _ build.Task) *build.Result {
			<-ctx.Done()
			<-builds.Life(ctx).Done()
			return &build.Result{}
		}
		id := w.submit("base", jobs(""))
		d := w.start()
		wait(5 * time.Second)
		w.do(build.Cancel{Group: id})
		wait(time.Minute)
		require.Equal(t, 0, len(d.Ended), "it has ended, and nobody has told it to")
		close(d.Stop)
		wait(30 * time.Second)
		select {
		case err := <-d.Ended:
			assert.NoError(t, err)
		default:
			t.Error("half a minute after it was to end it waits for the job")
		}
		d.Kill(nil)
		require.Equal(t, transition.Canceling, w.state(id))
		assert.NotContains(t, w.story(id), record.JobFailed)
		w.hook = nil
		next := w.start()
		wait(time.Minute)
		w.wantState(id, transition.Canceled)
		next.End()
		check(w)
	})
}

type late struct{ deploylog.Log }

func (l late) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range l.Log.Watch(ctx, f) {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Of a group that is canceled while its last jobs end the log says one end, not two, however
// the jobs end and however late the dispatcher learns of the cancel.
func TestWhatIsCanceledUnseenDoesNotEndOtherwise(t *testing.T) {
	for name, end := range map[string]func(build.Task) build.Result{
		"built":  built,
		"failed": func(build.Task) build.Result { return failed("exit 1") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				id := w.submit("base", jobs("", "1"))
				w.hook = func(_ context.Context, task build.Task) *build.Result {
					r := built(task)
					if task.Job == 2 {
						r = end(task)
						w.do(build.Cancel{Group: id})
					}
					return &r
				}
				o := w.options
				o.Log, o.UntilIdle = late{w.Open()}, true
				require.NoError(t, builds.NewController(o).Run(context.Background()))
				w.wantState(id, transition.Canceled)
				story := w.story(id)
				for _, event := range []string{record.GroupFinished, record.GroupFailing, record.GroupFailed} {
					assert.NotContains(t, story, event)
				}
				check(w)
			})
		})
	}
}
