package builds_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/deploylog"
)

// Whoever interrupts a dispatcher lets it finish what runs, unless that is not wanted any more.
func TestACancelIsHeardWhileADispatcherEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return 3 * time.Hour }
		id := w.submit("base", jobs(""))
		d := w.start()
		wait(5 * time.Second)
		close(d.stop)
		wait(5 * time.Second)
		w.do(build.Cancel{Group: id})
		wait(time.Minute)
		assert.Equal(t, transition.Canceled, w.state(id), "a minute after the cancel the group")
		assert.NoError(t, <-d.ended)
		d.kill()
	})
}

// A process that is ended before a canceled job has stopped says nothing of the job: the next
// one waits for that.
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
		d.kill()
		<-d.ended
		require.Equal(t, transition.Canceling, w.state(id))
		assert.NotContains(t, w.story(id), record.JobFailed)
		w.hook = nil
		next := w.start()
		wait(time.Minute)
		w.wantState(id, transition.Canceled)
		next.end()
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
		require.Equal(t, 0, len(d.ended), "it has ended, and nobody has told it to")
		close(d.stop)
		wait(30 * time.Second)
		select {
		case err := <-d.ended:
			assert.NoError(t, err)
		default:
			t.Error("half a minute after it was to end it waits for the job")
		}
		d.kill()
		require.Equal(t, transition.Canceling, w.state(id))
		assert.NotContains(t, w.story(id), record.JobFailed)
		w.hook = nil
		next := w.start()
		wait(time.Minute)
		w.wantState(id, transition.Canceled)
		next.end()
		check(w)
	})
}

// late is a log whose watchers learn an hour late what others append.
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
				o.Log, o.UntilIdle = late{w.open()}, true
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
