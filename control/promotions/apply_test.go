package promotions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// applied is a world whose last stage is a manifest on hosts, which is applied there.
func applied(t *testing.T, test func(*world, *machines), change ...func(*definition.Definition)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, m := newWorld(t, reconciletest.InMemory(t)), &machines{runs: "0"}
		w.engines, w.stages = m, []string{"dev", "prod"}
		w.define(single(), append([]func(*definition.Definition){onMachines}, change...)...)
		test(w, m)
	})
}

func onMachines(d *definition.Definition) {
	d.Stages[1].Environment = "hosts:shop/prod"
	d.Stages[1].Targets = &definition.Targets{Manifest: "web.yaml", Hosts: "prod", CheckEvery: definition.Duration(time.Minute)}
}

// done are the hosts that were brought somewhere, in order of their names.
func (m *machines) done() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.applied))
}

func TestAManifestIsAppliedOnTheHostsOfAStageOnce(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		p := w.promotes("1")
		<-time.After(2 * time.Minute)
		assert.Equal(t, []string{"prod1 1", "prod2 1"}, m.done())
		w.finished("1", "prod")
		assert.Contains(t, w.story(), "manifest web.yaml was applied on 2 hosts", "the log does not say so")
		<-time.After(time.Hour)
		p.die()
		p = w.start()
		<-time.After(time.Hour)
		p.end()
		assert.Len(t, m.done(), 2, "it is applied again")
	})
}

// What fails on a host goes to no other after that, and is tried again later and later.
func TestWhatCannotBeAppliedIsTriedAgain(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		bad := errors.New("no space left")
		var tries atomic.Int64
		m.applies = func(_ context.Context, q targets.Question) error {
			if q.Task.Host != "prod2" {
				return nil
			}
			tries.Add(1)
			m.mu.Lock()
			defer m.mu.Unlock()
			return bad
		}
		p := w.promotes("1")
		<-time.After(time.Minute) // after 10 and 30 seconds
		assert.EqualValues(t, 3, tries.Load())
		assert.Equal(t, 3, w.count(promotion.StageFailed, "prod", "1"))
		w.says("prod", promotion.AwaitsRetry, "applying manifest web.yaml: prod2: no space left")
		m.set(func() { bad = nil })
		<-time.After(time.Minute)
		w.finished("1", "prod")
		p.end()
	})
}

// Where one fails, nothing is begun on those that were not begun yet.
func TestWhatFailsOnOneHostIsNotBroughtToAll(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		w.many = 50
		var begun atomic.Int64
		m.applies = func(context.Context, targets.Question) error {
			begun.Add(1)
			<-time.After(time.Second)
			return errors.New("it is wrong")
		}
		p := w.promotes("1")
		for w.count(promotion.StageFailed, "prod", "1") == 0 {
			<-time.After(time.Second)
		}
		assert.EqualValues(t, 4, begun.Load(), "it was begun")
		p.end()
	})
}

// A process that is killed at any of its appends is replaced by another one: the log says once
// that it has come, and nothing is applied at once by two.
func TestWhicheverProcessDiesAManifestIsAppliedAsOften(t *testing.T) {
	deaths(t, 6, 1, func(t *testing.T, die func(deploylog.Log) deploylog.Log) {
		applied(t, func(w *world, m *machines) {
			w.deploys("dev", "1")
			died := 0
			for log := die(w.open()); w.untilIdle(log) != nil; died++ {
				log = w.open()
			}
			for _, name := range []string{promotion.StageStarted, promotion.Triggered, promotion.StageFinished} {
				assert.Equal(t, 1, w.count(name, "prod", "1"), name)
			}
			if n := len(m.done()); n != 2 && n != 4 || n == 4 && died == 0 { // again by who does not know how it ended
				t.Errorf("it is applied %d times", n)
			}
		})
	})
}

// A newer revision ends what is applied, and begins when that has ended.
func TestANewerRevisionInterruptsWhatIsApplied(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		var at, ended atomic.Int64
		m.applies = func(ctx context.Context, q targets.Question) error {
			if promotion.TextOf(q.Task.Spec.Vars["version"]) != "1" {
				assert.Zero(t, at.Load())
				return nil
			}
			at.Add(1)
			defer at.Add(-1)
			<-ctx.Done()
			<-time.After(5 * time.Second) // it takes that to end
			ended.Add(1)
			return fmt.Errorf("ended: %w", context.Cause(ctx))
		}
		p := w.promotes("1")
		<-time.After(time.Minute)
		w.deploys("dev", "2")
		<-time.After(5 * time.Minute)
		p.end()
		assert.EqualValues(t, 2, ended.Load())
		assert.Equal(t, []string{"prod1 2", "prod2 2"}, m.done())
		w.finished("2", "prod")
		assert.Zero(t, w.count(promotion.StageFinished, "prod", "1"))
	})
}

// What does not become what it was applied as is a try that failed, after a time.
func TestWhatIsAppliedAndNotSeenHasFailed(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		m.forgets = true
		p := w.promotes("1")
		<-time.After(8 * time.Minute)
		const want = "host group shop/prod does not run revision 1, healthy, as a whole, 7m after manifest web.yaml was applied on 2 hosts"
		require.Equal(t, 1, w.count(promotion.StageFailed, "prod", "1"))
		assert.Contains(t, w.story(), want, "it has not failed by that")
		m.set(func() { m.forgets = false })
		<-time.After(8 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.StageFinished, "prod", "1"), "it does not come there")
		p.end()
	})
}

func TestAStageOnHostsIsVerified(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		var got []string
		bad := errors.New("it does not answer")
		m.verifies = func(_ context.Context, q targets.Question, hosts []string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			got = append(got, fmt.Sprint(q.Pipeline, " ", q.Stage, " ", q.Task.Spec.Manifest, " ", q.Task.Spec.Digest, " ", q.Task.Spec.Vars["version"], " ", hosts))
			return bad
		}
		p := w.promotes("1")
		<-time.After(time.Minute)
		require.GreaterOrEqual(t, w.count(promotion.VerifyFailed, "prod", "1"), 2)
		assert.Equal(t, 0, w.count(promotion.RunFinished, "", "1"))
		require.NotEmpty(t, got)
		assert.Equal(t, "shop prod smoke.yaml 1 1 [prod1 prod2]", got[0])
		m.set(func() { bad = nil })
		<-time.After(5 * time.Minute)
		n := len(got)
		<-time.After(time.Hour)
		p.end()
		assert.Equal(t, 1, w.count(promotion.Verified, "prod", "1"))
		assert.Len(t, got, n, "it is verified again")
		w.finished("1", "prod")
	}, func(d *definition.Definition) {
		d.Stages[1].Verify, d.Stages[1].VerifyFiles = "smoke.yaml", map[string]string{"smoke.yaml": "1"}
	})
}

// Hosts that are gone, or all of them, are no reason to go on with the others.
func TestHostsThatLeaveInBetweenKeepAManifestFromBeingApplied(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		m.runs = "0"
		p := w.start()
		<-time.After(2 * time.Minute)
		w.set(func() { w.none = true })
		w.deploys("dev", "1")
		<-time.After(10 * time.Minute)
		if got := m.done(); len(got) != 0 || w.count(promotion.StageFinished, "prod", "") != 0 {
			t.Errorf("applied: %q\n%s", got, w.story())
		}
		if why := w.explain("prod"); !strings.Contains(why.Message, "prod selects no host") {
			t.Errorf("it is %s: %s", why.Code, why.Message)
		}
		w.set(func() { w.none = false })
		<-time.After(20 * time.Minute)
		if got := m.done(); len(got) != 2 || w.count(promotion.StageFinished, "prod", "1") != 1 {
			t.Errorf("applied: %q\n%s", got, w.story())
		}
		p.end()
	})
}

// So does who deletes the pipeline.
func TestADeletedPipelineEndsWhatIsApplied(t *testing.T) {
	applied(t, func(w *world, m *machines) {
		var ended atomic.Int64
		m.applies = func(ctx context.Context, _ targets.Question) error {
			<-ctx.Done()
			ended.Add(1)
			return context.Cause(ctx)
		}
		p := w.start()
		w.deploys("dev", "1")
		<-time.After(time.Minute)
		w.proposes(promotion.Delete{Cancel: true, ID: "delete"})
		<-time.After(time.Minute)
		if ended.Load() != 2 {
			t.Errorf("%d ended\n%s", ended.Load(), w.story())
		}
		p.end()
	})
}
