package promotions_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// verifiedBy has the first stage verified by a manifest.
func verifiedBy(text string) func(*definition.Definition) {
	return func(d *definition.Definition) {
		d.Stages[0].Verify, d.Stages[0].VerifyFiles = "smoke.yaml", map[string]string{"smoke.yaml": text}
	}
}

// inVerified has a pipeline whose first stage is verified by a manifest, as somebody says.
func inVerified(t *testing.T, verifies func(w *world, ctx context.Context, v environment.Verification) error, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reconciletest.InMemory(t))
		w.define(single(), verifiedBy("1"))
		w.verifies = func(ctx context.Context, v environment.Verification) error { return verifies(w, ctx, v) }
		test(w)
	})
}

func TestWhatRunsInAStageIsVerifiedWithItsHostsAndVariables(t *testing.T) {
	var got []environment.Verification
	inVerified(t, func(_ *world, _ context.Context, v environment.Verification) error {
		got = append(got, v)
		return nil
	}, func(w *world) {
		w.deploys("dev", "1")
		require.NoError(t, w.untilIdle(w.open()))
		w.want("1", "1", "1")
	})
	if len(got) != 1 || got[0].Environment != "dev" || got[0].Manifest != "smoke.yaml" || got[0].Files["smoke.yaml"] != "1" || got[0].Vars["version"] != "1" || !slices.Equal(got[0].Hosts, hostsOf("dev")) {
		t.Errorf("it was verified by %+v", got)
	}
}

// A process that is killed at any of its appends is replaced by another one, by which what one
// left open is verified: the log says once that it is.
func TestWhicheverProcessDiesAStageIsVerifiedOnce(t *testing.T) {
	deaths(t, 17, 1, func(t *testing.T, die func(deploylog.Log) deploylog.Log) {
		inVerified(t, func(*world, context.Context, environment.Verification) error { return nil }, func(w *world) {
			w.deploys("dev", "1")
			for log := die(w.open()); w.untilIdle(log) != nil; {
				log = w.open()
			}
			w.want("1", "1", "1")
			for _, name := range []string{promotion.Verifying, promotion.Verified} {
				assert.Equal(t, 1, w.count(name, "dev", "1"), name)
			}
		})
	})
}

// The next process waits until what verifies has ended, though the one that began it is killed.
func TestAStageIsNeverVerifiedByTwoProcessesAtOnce(t *testing.T) {
	at, most, began := 0, 0, 0
	inVerified(t, func(w *world, ctx context.Context, _ environment.Verification) error {
		w.set(func() { at++; began++; most = max(most, at) })
		<-time.After(time.Minute) // nobody can end it
		w.set(func() { at-- })
		return context.Cause(ctx)
	}, func(w *world) {
		w.deploys("dev", "1")
		first := w.start()
		reconciletest.Wait(30 * time.Second)
		second := w.start()
		first.die()
		reconciletest.Wait(time.Hour)
		second.end()
		w.want("1", "1", "1")
		if most != 1 || began != 2 || w.count(promotion.Verifying, "dev", "1") != 1 || w.count(promotion.Verified, "dev", "1") != 1 {
			t.Errorf("%d at once, of %d", most, began)
		}
	})
}

// Whoever has the lock may be about to have it verified by something else.
func TestNothingIsVerifiedByWhatIsExchangedInBetween(t *testing.T) {
	var by []string
	inVerified(t, func(_ *world, _ context.Context, v environment.Verification) error {
		by = append(by, v.Files["smoke.yaml"])
		return nil
	}, func(w *world) {
		w.deploys("dev", "1")
		d := &definition.Definition{Name: "shop", Promotion: single(), Stages: stagesOf(w.stages...)}
		verifiedBy("2")(d)
		require.NoError(t, w.untilIdle(&overtaken{Log: w.open(), w: w, event: promotion.Verifying, command: promotion.Define{Definition: d, ID: "another"}}))
		w.want("1", "1", "1")
		require.Equal(t, []string{"2"}, by, "it was verified by")
		assert.Zero(t, w.count(promotion.VerifyFailed, "dev", ""), "it was verified by %q", by)
	})
}

// What another deployment makes useless is ended, which is no failure.
func TestWhatVerifiesIsEndedWhenSomethingElseIsDeployed(t *testing.T) {
	ended := 0
	inVerified(t, func(_ *world, ctx context.Context, v environment.Verification) error {
		if v.Vars["version"] != "1" {
			return nil
		}
		<-ctx.Done()
		ended++
		return fmt.Errorf("ended: %w", context.Cause(ctx))
	}, func(w *world) {
		p := w.promotes("1")
		reconciletest.Wait(time.Minute)
		w.deploys("dev", "2")
		reconciletest.Wait(10 * time.Minute)
		soon := ended
		p.end()
		w.want("2", "2", "2")
		if soon != 1 || w.count(promotion.VerifyFailed, "dev", "") > 0 || w.count(promotion.VerifyEnded, "dev", "1") != 1 {
			t.Errorf("it was ended %d times", ended)
		}
	})
}

// A try that takes too long has failed with that, and is made again.
func TestATryToVerifyEndsInItsTime(t *testing.T) {
	for _, c := range []struct {
		timeout definition.Duration
		tries   int // in the first two hours
		want    string
	}{
		{0, 1, "not done within 1h, so it was ended: "},
		{definition.Duration(50 * time.Minute), 2, "not done within 50m, so it was ended: "},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, reconciletest.InMemory(t))
			w.define(single(), verifiedBy("1"), func(d *definition.Definition) { d.Stages[0].VerifyTimeout = c.timeout })
			w.verifies = func(ctx context.Context, _ environment.Verification) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			p := w.promotes("1")
			reconciletest.Wait(2 * time.Hour)
			p.die()
			if n := w.count(promotion.VerifyFailed, "dev", "1"); n != c.tries || !strings.Contains(w.story(), c.want) || w.count(promotion.StageStarted, "staging", "") > 0 {
				t.Errorf("%d tries have failed of %s", n, c.timeout)
			}
		})
	}
}
