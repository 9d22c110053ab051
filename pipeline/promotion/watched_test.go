package promotion_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// watcher does what a controller does beside deciding, as long as it is there.
type watcher struct {
	*world
	absent time.Time
	began  time.Time // when it came last
	there  bool
}

func (w *watcher) leaves() { w.there, w.absent = false, time.Time{} }

// watches is a pass of the controller. One that was away begins from the log.
func (w *watcher) watches() (steps []promotion.Step) {
	w.Helper()
	if !w.there {
		w.again()
		w.there, w.began, w.absent = true, w.now, w.state.UnwatchedSince(w.now)
	}
	if !w.absent.IsZero() {
		concerns, unknown := w.state.Concerns(w.seen, w.absent)
		if concerns {
			w.record(w.state.Watched(w.absent)...)
		}
		if concerns || !unknown {
			w.absent = time.Time{}
		}
	}
	steps = w.decide()
	if next := w.state.WatchedAgain(w.seen, w.began, w.now); len(steps) == 0 && !next.IsZero() && !next.After(w.now) {
		w.record(w.state.Watched(time.Time{})...)
	}
	return steps
}

// passes has the controller be there for a while.
func (w *watcher) passes(d time.Duration) (steps []promotion.Step) {
	w.Helper()
	for end := w.now.Add(d); w.now.Before(end) && len(steps) == 0; {
		w.now = w.now.Add(min(end.Sub(w.now), 10*time.Second))
		steps = w.watches()
	}
	return steps
}

func soaking(d time.Duration) func(*definition.Definition) {
	return func(of *definition.Definition) { of.Stages[1].Soak = dur(d) }
}

func TestASoakGoesOnAfterAnAbsence(t *testing.T) {
	for name, test := range map[string]struct {
		soak, before, away time.Duration
		left               [2]time.Duration // between which it goes on after the absence
	}{
		"a weekend in the middle":            {2 * time.Hour, time.Hour, 60 * time.Hour, [2]time.Duration{59 * time.Minute, 73 * time.Minute}},
		"at its very end":                    {2 * time.Hour, 2*time.Hour - 20*time.Second, 60 * time.Hour, [2]time.Duration{time.Minute, 13 * time.Minute}},
		"less than a minute":                 {2 * time.Hour, time.Hour, 50 * time.Second, [2]time.Duration{58 * time.Minute, 72 * time.Minute}},
		"a short soak":                       {30 * time.Second, 10 * time.Second, 60 * time.Hour, [2]time.Duration{30 * time.Second, 30 * time.Second}},
		"a restart takes no tenth of a week": {7 * 24 * time.Hour, 6 * 24 * time.Hour, 5 * time.Minute, [2]time.Duration{24 * time.Hour, 41 * time.Hour}},
	} {
		w := &watcher{world: newWorld(t, 3, usual, soaking(test.soak))}
		w.runs("c", "1")
		w.runs("ab", "2")
		w.watches()
		require.Empty(t, w.passes(test.before), name)
		w.leaves()
		w.now = w.now.Add(test.away)
		back := w.now
		steps := w.passes(2 * test.soak)
		require.Len(t, steps, 1, name)
		took := w.now.Sub(back)
		assert.GreaterOrEqual(t, took, test.left[0], name)
		assert.LessOrEqual(t, took, test.left[1]+20*time.Second, name)
	}
}

// A controller that is killed again and again, and comes back within seconds, loses a tenth of the time in
// which it is there at most. One that ends in order loses nothing.
func TestASoakEndsAlthoughControllersAreRestarted(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for name, test := range map[string]struct {
		soak  time.Duration
		stays []time.Duration
	}{
		"minutes":           {8 * time.Hour, []time.Duration{3 * time.Minute}},
		"half a day":        {week, []time.Duration{12 * time.Hour}},
		"minutes and hours": {week, []time.Duration{5 * time.Minute, 25 * time.Minute, 7 * time.Hour, 2 * time.Minute, 101 * time.Minute}},
	} {
		for _, ordered := range []bool{false, true} {
			w := &watcher{world: newWorld(t, 3, usual, soaking(test.soak))}
			w.runs("c", "1")
			w.runs("ab", "2")
			w.watches()
			began, away := w.now, time.Duration(0)
			var steps []promotion.Step
			for n := 0; len(steps) == 0 && w.now.Sub(began) < 2*test.soak; n++ {
				for end := w.now.Add(test.stays[n%len(test.stays)]); len(steps) == 0 && w.now.Before(end); {
					w.now = w.now.Add(30 * time.Second)
					steps = w.watches()
				}
				if len(steps) == 0 && ordered {
					w.record(w.state.WatchedUntil(w.seen, w.now)...)
				}
				w.leaves()
				w.now, away = w.now.Add(15*time.Second), away+15*time.Second
			}
			require.Len(t, steps, 1, "%s, ordered %t", name, ordered)
			most := test.soak + test.soak/10
			if ordered {
				most = test.soak + away + 2*time.Minute
			}
			took := w.now.Sub(began)
			assert.GreaterOrEqual(t, took, test.soak, "%s, ordered %t", name, ordered)
			assert.LessOrEqual(t, took, most, "%s, ordered %t", name, ordered)
		}
	}
}

// Earlier versions watched, but did not record it: a soak that is running goes on after the upgrade. From
// then on an absence is one.
func TestASoakThatRunsGoesOnAfterAnUpgrade(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		away time.Duration // after the upgrade
		left [2]time.Duration
	}{
		"it stays":  {0, [2]time.Duration{day - time.Minute, day + time.Minute}},
		"it leaves": {2 * day, [2]time.Duration{3*day - 2*time.Minute, 3*day + 11*time.Minute}},
	} {
		w := &watcher{world: newWorld(t, 3, usual, soaking(7*day))}
		w.runs("c", "1")
		w.runs("ab", "2")
		w.decide()
		w.now = w.now.Add(6 * day)
		upgraded := w.now
		require.Empty(t, w.watches(), name)
		if test.away > 0 {
			require.Empty(t, w.passes(time.Hour), name)
			w.leaves()
			w.now = w.now.Add(test.away)
		}
		require.Len(t, w.passes(14*day), 1, name)
		assert.GreaterOrEqual(t, w.now.Sub(upgraded), test.left[0], name)
		assert.LessOrEqual(t, w.now.Sub(upgraded), test.left[1], name)
	}
}

// While it is not known what a stage runs, it is not known either whether it soaked.
func TestAnAbsenceIsRecordedOnceTheStageIsSeen(t *testing.T) {
	w := &watcher{world: newWorld(t, 3, usual, soaking(time.Hour))}
	w.runs("c", "1")
	w.runs("ab", "2")
	w.watches()
	w.passes(30 * time.Minute)
	w.leaves()
	w.now = w.now.Add(60 * time.Hour)
	seen := w.seen["env/b"]
	w.see("b", promotion.Observation{Health: promotion.Unknown, Why: "nobody looks"})
	require.Empty(t, w.passes(10*time.Minute))
	w.see("b", seen)
	require.Empty(t, w.passes(20*time.Minute), "it counts that nobody saw it")
	require.Len(t, w.passes(20*time.Minute), 1)
}

// What does not wait for time records nothing.
func TestAnAbsenceThatConcernsNothingIsNotRecorded(t *testing.T) {
	w := &watcher{world: newWorld(t, 3, usual, soaking(time.Hour))}
	w.runs("abc", "1")
	w.watches()
	w.passes(2 * time.Hour)
	before := len(w.log)
	w.leaves()
	w.now = w.now.Add(60 * time.Hour)
	w.passes(2 * time.Hour)
	assert.Len(t, w.log, before)
}

// A webhook was asked just before the controller left: what it was asked for has its whole time.
func TestWhatWasAskedForHasItsTimeAfterAnAbsence(t *testing.T) {
	w := &watcher{world: coming(t, func(d *definition.Definition) {
		d.Stages[1].Strategy, d.Stages[1].Webhook = definition.WithWebhook, &definition.Webhook{URL: "https://ci.example", Timeout: dur(30 * time.Minute)}
	})}
	steps := w.watches()
	require.Len(t, steps, 1)
	w.record(w.state.Completed(steps[0], promotion.Begun{Answer: "200 OK"}, nil)...)
	w.passes(10 * time.Minute)
	w.leaves()
	w.now = w.now.Add(60 * time.Hour)
	w.passes(15 * time.Minute)
	assert.Equal(t, promotion.Promoting, w.explain("b").Code, "it has failed by the clock")
	steps = w.passes(10 * time.Minute)
	require.Len(t, steps, 1)
	assert.Equal(t, 2, steps[0].Attempt)
}

// TestASoakCountsWatchedTime compares with the naive sum of the times in which a controller was there.
func TestASoakCountsWatchedTime(t *testing.T) {
	promoted, absences := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		soak := time.Duration(rapid.IntRange(2, 600).Draw(t, "minutes")) * time.Minute
		w := &watcher{world: newWorld(t, 3, usual, soaking(soak))}
		w.runs("c", "1")
		w.runs("ab", "2")
		w.watches()
		watched, away := time.Duration(0), 0
		for watched < 3*soak {
			part := time.Duration(rapid.IntRange(1, int(soak/time.Second)).Draw(t, "there")) * time.Second
			before := w.now
			steps := w.passes(part)
			watched += w.now.Sub(before)
			if len(steps) > 0 {
				require.GreaterOrEqual(t, watched+time.Duration(away)*time.Minute, soak, "it goes on too early")
				promoted++
				absences += away
				return
			}
			// Of each absence a tenth may be lost, and what is left is a minute at least.
			lost := time.Duration(away) * (max(soak/10, time.Minute) + time.Minute)
			require.Less(t, watched, soak+lost+time.Minute, "it does not go on after %d absences", away)
			w.leaves()
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 60*3600).Draw(t, "away")) * time.Second)
			away++
		}
	})
	if promoted == 0 || absences == 0 {
		t.Errorf("of %d that soaked there were %d absences", promoted, absences)
	}
}
