package promotions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// told is what a log tells, each only once: how often something was tried, and which of two
// loops of a process was faster, is not the same in each life.
func (w *world) told() (all []string) {
	for _, e := range w.events() {
		all = append(all, fmt.Sprintf("%s of %s, revision %q", e.Name, e.Target, e.Revision))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A process that is killed at any of its appends, before it or right after it is in the log,
// is replaced by another one: no promotion is lost, and none is done twice.
func TestWhichProcessDiesWhereverEachRevisionComesToEachStageOnce(t *testing.T) {
	every := ringtest.Cases(5, 1)
	for _, policy := range []definition.Policy{definition.Single, definition.Concurrent} {
		t.Run(string(policy), func(t *testing.T) {
			want, appends := carried(t, policy, 1000, false)
			require.GreaterOrEqual(t, appends, 20, "%d appends lead to %q", appends, want)
			ends := []bool{false, true}
			if policy == definition.Concurrent {
				ends = ends[1:] // the more dangerous one
			}
			for lives := 0; lives < appends; lives += every {
				for _, last := range ends {
					if got, _ := carried(t, policy, lives, last); !slices.Equal(got, want) {
						t.Fatalf("after a death at append %d (in the log: %v) it tells\n%q\nnot\n%q", lives+1, last, got, want)
					}
				}
			}
		})
	}
}

// carried has two revisions carried through the stages by processes of which the first dies,
// and returns what the log tells then, and how often that one appended.
func carried(t *testing.T, policy definition.Policy, lives int, last bool) (told []string, appends int) {
	p := single()
	p.Policy = policy
	inWorld(t, p, func(w *world) {
		mortal := &reconciletest.Mortal{Log: w.open(), Lives: lives, Last: last}
		log, died := deploylog.Log(mortal), 0
		w.deploys("dev", "1")
		for next := []string{"2", ""}; len(next) > 0; {
			switch err := w.untilIdle(log); {
			case errors.Is(err, reconciletest.ErrDead):
				if died++; died > 1 {
					t.Fatal("a dead process began again")
				}
				log = w.open()
			case err != nil:
				t.Fatal(err)
			default:
				if next[0] != "" {
					w.deploys("dev", next[0])
				}
				next = next[1:]
			}
		}
		w.want("2", "2", "2")
		for _, stage := range w.stages[1:] {
			for _, revision := range []string{"1", "2"} {
				for _, name := range []string{promotion.Triggered, promotion.StageFinished} {
					assert.Equal(t, 1, w.count(name, stage, revision))
				}
			}
		}
		told, appends = w.told(), mortal.Calls()
	})
	return told, appends
}

// Two processes on one log: one promotes, the other stands by and takes over, however the
// first ends, and whatever is under way then.
func TestOfTwoProcessesOnOneLogOnePromotes(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		w.set(func() { w.slowly["staging"], w.slowly["prod"] = 7*time.Second, 13*time.Second })
		const revisions = 8
		first, second := w.start(), w.start()
		for i := range revisions {
			w.deploys("dev", fmt.Sprint(i+1))
			reconciletest.Wait(time.Duration(5*i+1) * time.Second) // somewhere on its way
			if i%2 == 0 {
				first.die()
			} else {
				first.end()
			}
			first, second = second, w.start()
			reconciletest.Wait(5 * time.Minute)
			version := fmt.Sprint(i + 1)
			w.want(version, version, version)
		}
		first.end()
		second.end()
		for _, name := range []string{promotion.RunStarted, promotion.RunFinished} {
			assert.Equal(t, revisions, w.count(name, "", ""))
		}
	})
}

// Of processes that begin together one has the pipeline, and the others may have some of its
// environments. Each ends when nothing more is to be done, whoever did it.
func TestProcessesThatBeginTogetherPromoteOnceAndAllEnd(t *testing.T) {
	for range ringtest.Cases(4, 20) {
		inWorld(t, single(), func(w *world) {
			w.deploys("dev", "1")
			errs := make(chan error)
			const many = 3
			for range many {
				go func() { errs <- w.untilIdle(w.open()) }()
			}
			defer time.AfterFunc(24*time.Hour, func() { panic("it is never idle:\n" + w.story()) }).Stop()
			for range many {
				assert.NoError(t, <-errs)
			}
			synctest.Wait()
			w.want("1", "1", "1")
		})
	}
}
