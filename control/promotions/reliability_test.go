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
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// These are the sentences of the section "Promotion reliability" of seed "Pipelines:
// level-triggered architecture", each on a log with controllers.

// "the controller is able to retry if a promotion is missed (the controller was offline when a
// update happened)"
func TestAnUpdateWhileNoControllerWasAtWorkIsPromotedByTheNext(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		w.deploys("dev", "1")
		require.NoError(t, w.untilIdle(w.open()))
		for _, version := range []string{"2", "3"} { // of 2 nobody who promotes ever hears
			w.deploys("dev", version)
			w.keepOnly("dev")
			reconciletest.Wait(time.Hour)
		}
		w.want("3", "1", "1")
		require.NoError(t, w.untilIdle(w.open()))
		w.want("3", "3", "3")
		assert.Equal(t, 0, w.count(promotion.RunStarted, "", "2"), "revision 2, which dev does not run any more, was promoted")
	})
}

// "or fails"
func TestAPromotionThatFailsIsTriedAgainAndSucceedsOnce(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		w.set(func() { w.trouble["staging"] = errors.New("the inventory cannot be read") })
		p := w.promotes("1")
		reconciletest.Wait(time.Minute)
		w.says("staging", promotion.AwaitsRetry, "")
		p.die() // how often it failed is in the log
		w.set(func() { delete(w.trouble, "staging") })
		p = w.start()
		reconciletest.Wait(5 * time.Minute)
		w.want("1", "1", "1")
		var pauses []time.Duration
		var failed time.Time
		for _, e := range w.events() {
			switch {
			case e.Target != promotion.StageTarget("shop", "staging"):
			case e.Name == promotion.StageFailed:
				failed = e.CreatedAt
			case e.Name == promotion.StageStarted && !failed.IsZero():
				pauses = append(pauses, e.CreatedAt.Sub(failed).Round(time.Second))
			}
		}
		assert.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second}, pauses, "it was tried again after")
		assert.Equal(t, 1, w.count(promotion.StageFinished, "staging", "1"))
		p.end()
	})
}

// "making promotion attempts exactly once, or at least usually once"
func TestWhatSucceededIsNotPromotedAgainWhoeverLooks(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		w.deploys("dev", "1")
		require.NoError(t, w.untilIdle(w.open()))
		before := len(w.events())
		for range 3 {
			p := w.start()
			reconciletest.Wait(time.Hour)
			p.die()
		}
		assert.Len(t, w.events(), before, "controllers that find all done record")
		p := w.start()
		w.deploys("staging", "hotfix") // which somebody wants there, whatever was promoted
		reconciletest.Wait(time.Hour)
		w.want("1", "hotfix", "1")
		w.says("staging", promotion.WasPromoted, "")
		p.end()
	})
}

// "By examining the state, rather than relying on being triggered by events": what cannot be
// examined is not taken for anything.
func TestAStageWhoseStateCannotBeReadBlocksUntilItCan(t *testing.T) {
	for _, stage := range []string{"dev", "staging"} {
		inWorld(t, single(), func(w *world) {
			w.deploys("dev", "1")
			require.NoError(t, w.untilIdle(w.open()))
			p := w.start()
			w.set(func() { w.silent[stage] = true })
			reconciletest.Wait(2 * time.Minute)
			if stage != "dev" { // which would never be whole
				w.deploys("dev", "2")
			}
			reconciletest.Wait(time.Hour)
			assert.Equal(t, 2, w.startedIn("staging")+w.startedIn("prod"), "%s does not answer", stage)
			if r := w.explain(stage); r.Code != promotion.Unobserved || !r.Blocking() {
				t.Errorf("%s: %+v", stage, r)
			}
			w.set(func() { w.silent[stage] = false })
			w.deploys("dev", "3")
			reconciletest.Wait(time.Hour)
			p.end()
			w.want("3", "3", "3")
		})
	}
}

// "What happens with outstanding promotions when a pipeline is restarted with a new revision?"
// They are closed, and replaced by those of the new one.
func TestPromotionsThatAreOutstandingAreReplacedByThoseOfANewRevision(t *testing.T) {
	for name, between := range map[string]func(w *world, p *process, comes func()) *process{
		"while it runs":               func(_ *world, p *process, comes func()) *process { comes(); return p },
		"after it was killed":         func(w *world, p *process, comes func()) *process { p.die(); p = w.start(); comes(); return p },
		"while there is none, killed": func(w *world, p *process, comes func()) *process { p.die(); comes(); return w.start() },
		"while there is none, ended":  func(w *world, p *process, comes func()) *process { p.end(); comes(); return w.start() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, single(), func(w *world) {
				w.set(func() { w.slowly["staging"] = 2 * time.Minute })
				p := w.promotes("1")
				reconciletest.Wait(time.Minute)
				if r := w.explain("staging"); r.Code != promotion.Promoting || r.Revision != "1" {
					t.Fatalf("staging: %+v", r)
				}
				p = between(w, p, func() { w.deploys("dev", "2") })
				reconciletest.Wait(time.Hour)
				p.end()
				w.want("2", "2", "2")
				assert.NotContains(t, w.deployments("prod"), "1", "revision 1 came to prod")
				started, ended := w.count(promotion.StageStarted, "staging", "1"), w.count(promotion.StageFailed, "staging", "1")+w.count(promotion.StageFinished, "staging", "1")
				assert.Equal(t, ended, started)
			})
		})
	}
}

// "What about if the first environment is following a branch, and there are lots of merges,
// will it just restart the pipeline all the time?" Not where it has to settle.
func TestManyMergesRestartThePipelineOnce(t *testing.T) {
	p := single()
	p.SettleFor = definition.Duration(time.Minute)
	inWorld(t, p, func(w *world) {
		at := w.start()
		const merges = 20
		for i := range merges {
			w.deploys("dev", fmt.Sprint(i+1))
			reconciletest.Wait(20 * time.Second)
		}
		reconciletest.Wait(time.Hour)
		at.end()
		w.want("20", "20", "20")
		assert.Equal(t, 1, w.count(promotion.RunStarted, "", ""), "the pipeline was restarted")
	})
}

// A log that cannot be read ends the process with the reason, and the next one goes on.
func TestALogThatCannotBeReadEndsTheProcessAndLosesNothing(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		w.deploys("dev", "1")
		failed := errors.New("input/output error")
		for _, event := range []string{promotion.RunStarted, promotion.StageStarted, promotion.Triggered, promotion.StageFinished} {
			err := w.untilIdle(&reconciletest.Hooked{Log: w.open(), Event: event, Hook: func(deploylog.Event) error { return failed }})
			assert.ErrorIs(t, err, failed, "%s: %v", event, err)
		}
		require.NoError(t, w.untilIdle(w.open()))
		w.want("1", "1", "1")
	})
}

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
	for policy, every := range map[definition.Policy]int{definition.Single: 2, definition.Concurrent: 4} {
		t.Run(string(policy), func(t *testing.T) {
			var want []string
			deaths(t, 20, every, func(t *testing.T, die func(deploylog.Log) deploylog.Log) {
				got := carried(t, policy, die)
				if want == nil {
					want = got
				}
				assert.Equal(t, want, got)
			})
		})
	}
}

// carried has two revisions carried through the stages by processes of which the first dies,
// and returns what the log tells then.
func carried(t *testing.T, policy definition.Policy, die func(deploylog.Log) deploylog.Log) (told []string) {
	p := single()
	p.Policy = policy
	inWorld(t, p, func(w *world) {
		log, died := die(w.open()), 0
		w.deploys("dev", "1")
		for next := []string{"2", ""}; len(next) > 0; {
			switch err := w.untilIdle(log); {
			case errors.Is(err, reconciletest.ErrDead):
				died++
				require.Equal(t, 1, died, "a dead process began again")
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
					assert.Equal(t, 1, w.count(name, stage, revision), "%s of revision %s to %s", name, revision, stage)
				}
			}
		}
		told = w.told()
	})
	return told
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

// Who rolls back by hand keeps the promotion of the same from coming again, in whichever
// process.
func TestARollbackByHandHoldsInTheNextProcess(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		for _, version := range []string{"1", "2"} {
			w.deploys("dev", version)
			if err := w.untilIdle(w.open()); err != nil {
				t.Fatal(err)
			}
		}
		w.do("prod", environment.Rollback{Revision: 2, Hosts: hostsOf("prod"), By: "ada", Reason: "orders are lost"})
		w.deploys("dev", "3")
		p := w.start()
		reconciletest.Wait(time.Hour)
		w.want("3", "3", "1")
		if r := w.explain("prod"); r.Code != promotion.IsRolledBack {
			t.Errorf("prod: %+v", r)
		}
		p.end()
	})
}
