package jobs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// What has ended while nobody looked took as long as its engine says.
func TestHowLongItTookIsKnownOfWhatEndedUnseen(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	w.leave(fake, "1")(0)
	r := w.jobs.Resume(t.Context(), w.task(w.recipe()))
	w.wants(r, "finished")
	if r.Finished != nil && r.Finished.Took <= 0 {
		t.Errorf("it took %s", r.Finished.Took)
	}
	w.clean()
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
				r := w.jobs.Resume(t.Context(), w.task(w.recipe()))
				w.wants(r, "finished")
				want := map[time.Duration]time.Time{0: began.Add(2 * time.Minute), time.Hour: time.Now(), -time.Hour: began}[by]
				require.WithinDuration(t, began, made.Began, 0, "it was made from %s to %s, want to %s", made.Began, made.End, want)
				assert.WithinDuration(t, want, made.End, 0, "it was made from %s to %s, want to %s", made.Began, made.End, want)
				if r.Finished != nil && r.Finished.Took != want.Sub(began) {
					t.Errorf("it took %s", r.Finished.Took)
				}
				w.clean()
			})
		})
	}
}

// A job that took too long while nobody looked has timed out, by both clocks.
func TestWhatTookTooLongUnseenHasTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeEngine()
		w := newWorld(t, skewed{fake, time.Hour})
		end := w.leave(fake, "1")
		<-time.After(6 * time.Minute)
		end(0)
		w.wants(w.jobs.Resume(t.Context(), w.task(w.recipe())), "failed: timed out after 5m")
		w.clean()
	})
}
