package environments_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/stretchr/testify/assert"
)

// verified has a deployment begin with one host, which is verified.
func verified(d *definition.Definition) {
	d.Deployment.MinHealthyPercent = 0
	d.Deployment.Steps = []definition.Wave{{Hosts: budget.Budget{Count: 1}, Pause: new(definition.Duration), Verify: "smoke.yaml"}}
}

// tests counts what verifies, of which there is never more than one at once, and lasts
// until it is ended or so long.
func (w *world) tests(lasts time.Duration, result error) (begun, ended *int) {
	begun, ended = new(int), new(int)
	running := 0
	w.verify = func(ctx context.Context, v environment.Verification) error {
		w.set(func() {
			*begun++
			if running++; running > 1 || v.Manifest != "smoke.yaml" || len(v.Hosts) != 1 || v.Step != 1 {
				w.Errorf("%d verify at once, the last %+v", running, v)
			}
		})
		defer w.set(func() { running--; *ended++ })
		select {
		case <-time.After(lasts):
			return result
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return begun, ended
}

func TestWhatVerifiesIsTakenUpAgainByTheNextController(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*running)
		tries int
	}{"of one that is stopped, which lets it end": {(*running).end, 1}, "of one that dies": {(*running).die, 2}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				begun, ended := w.tests(time.Minute, nil)
				w.deployed(daemon("web", verified), "a", "b")
				first := w.start()
				wait(30 * time.Second)
				c.end(first)
				w.options.Tasks = worker{w, "second"}
				w.start()
				wait(2 * time.Minute)
				w.wantRows("web", "1 Active 2 2")
				assert.Equal(t, []int{c.tries, c.tries}, []int{*begun, *ended})
				w.wantCount(c.tries, record.StepVerifying)
				w.wantCount(1, record.StepVerified)
				w.wantCount(0, record.StepVerifyFailed)
			})
		})
	}
}

func TestWhatVerifiesEndsWithItsDeploymentAndItsStep(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a rollback":          func(w *world) { w.rollback("web", 1) },
		"another revision":    func(w *world) { w.redeployed(2, daemon("web", image("3"))) },
		"its end":             func(w *world) { w.do("web", environment.Delete{}) },
		"a host that is sick": func(w *world) { w.becomes("a", "web:2", "unhealthy"); w.hint("a") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, ended := w.tests(5*time.Minute, nil)
				w.active("web", "a", "b")
				w.redeployed(1, daemon("web", image("2"), verified))
				w.start()
				wait(30 * time.Second)
				change(w)
				wait(2 * time.Second)
				assert.Equal(t, 1, *ended)
				wait(time.Minute)
				w.wantCount(0, record.EnvironmentStuck, record.StepVerifyFailed)
				w.wantCount(1, record.StepVerifyEnded)
			})
		})
	}
}

// What verifies a step only waits for most of its time: it keeps nobody from bringing back what
// has died, and yet there are no more of it at once than there are slots.
func TestWhatVerifiesTakesNoSlotOfTheWorkOnHosts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		running, most := 0, 0
		w.verify = func(context.Context, environment.Verification) error {
			w.set(func() { running++; most = max(most, running) })
			defer w.set(func() { running-- })
			<-time.After(5 * time.Minute)
			return nil
		}
		w.active("log", "a")
		for _, name := range []string{"shop", "web"} {
			w.deployed(daemon(name, verified), "a", "b")
		}
		w.start()
		wait(time.Minute)
		w.becomes("a", "log:1", "unhealthy")
		w.hint("a")
		wait(time.Minute)
		w.wantRows("log", "1 Active 1 1")
		assert.Equal(t, 1, running, "verify")
		w.wantCount(1, record.TaskDied)
		wait(10 * time.Minute)
		assert.Equal(t, 1, most, "have verified at once")
		w.wantCount(2, record.StepVerified)
	})
}

// What the log refuses to begin does not count as begun: others would wait for its end forever.
func TestWhatIsRefusedKeepsNobodyFromBeingVerified(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		w.tests(time.Second, nil)
		w.options.Log = &reconciletest.Hooked{Log: w.log, Event: record.StepVerifying, Hook: reconciletest.Refuse(record.Target("shop"))}
		for _, name := range []string{"shop", "web"} {
			w.deployed(daemon(name, verified), name+"1", name+"2")
		}
		w.start()
		wait(time.Minute)
		w.wantRows("web", "1 Active 2 2")
		w.wantCount(1, record.StepVerified)
	})
}

// Who waits for others is next when its time has come, also where others ask again and again.
func TestStepsAreVerifiedInTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		var order []string
		w.verify = func(_ context.Context, v environment.Verification) error {
			w.set(func() { order = append(order, v.Environment) })
			<-time.After(time.Minute)
			if v.Environment != order[0] {
				return nil
			}
			return errors.New("no answer")
		}
		for _, name := range []string{"a", "b", "c"} {
			w.deployed(daemon(name, verified), name+"1", name+"2")
		}
		w.start()
		wait(10 * time.Minute)
		if len(order) != 5 || order[1] == order[0] || order[2] == order[0] || order[3] != order[0] || order[4] != order[0] {
			t.Errorf("they were verified in the order %q, and not each once before the first again; the log tells\n%s", order, strings.Join(w.story(), "\n"))
		}
	})
}

func TestADeploymentThatCannotBeVerifiedIsStuckOrRolledBack(t *testing.T) {
	for name, c := range map[string]struct {
		configure []func(*definition.Definition)
		lasts     time.Duration
		says      string
		rows      string
	}{
		"stuck":       {nil, time.Second, "step 1 of 1 could not be verified by smoke.yaml: no answer", "1 Undeploying 0 2; 2 Stuck 3 1"},
		"rolled back": {[]func(*definition.Definition){func(d *definition.Definition) { d.Deployment.AutoRollback = true }}, time.Second, "no answer", "1 Active 3 3; 2 Reverted 0 0"},
		"it hangs":    {nil, time.Hour, "not done within 10m, so it was ended", "1 Undeploying 0 2; 2 Stuck 3 1"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				begun, _ := w.tests(c.lasts, errors.New("no answer"))
				w.active("web", "a", "b", "c")
				w.redeployed(1, daemon("web", append(c.configure, image("2"), verified)...))
				w.untilIdle()
				w.wantRows("web", c.rows)
				assert.Equal(t, 3, *begun)
				w.wantCount(1, record.EnvironmentStuck)
				assert.Contains(t, w.cause(record.EnvironmentStuck), c.says)
			})
		})
	}
}

// cause is why the last event of a name happened.
func (w *world) cause(name string) (cause string) {
	for _, e := range w.events() {
		if e.Name == name {
			cause = record.Cause(e)
		}
	}
	return cause
}
