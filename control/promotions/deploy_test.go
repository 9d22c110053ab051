package promotions

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/environment"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// begunTry is a log with a pipeline of which a try has begun to promote revision 7 to prod.
type begunTry struct {
	*testing.T
	open logtest.Store
	log  deploylog.Log
	step promotion.Step
}

func newTry(t *testing.T) *begunTry {
	t.Helper()
	b := &begunTry{T: t, open: reconciletest.InMemory(t)}
	b.log = b.open()
	d := &envdefinition.Definition{Name: "prod", Type: envdefinition.Daemon, InstanceGroup: envdefinition.InstanceGroup{Query: "all"}, Task: envdefinition.TaskSpec{Manifest: "m", Vars: map[string]any{"version": int64(6)}}}
	_, err := environments.New(b.log, time.Now).Command(t.Context(), "prod", environment.Create{Definition: d})
	b.fails(err)
	b.wants(promotion.Define{ID: "define", Definition: &definition.Definition{
		Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"},
		Stages: []definition.Stage{{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod"}},
	}})
	seen := promotion.Observed{
		"dev":  {Health: promotion.Whole, Revision: "7", Value: int64(7), Came: 1, Event: 1},
		"prod": {Health: promotion.Partly, Event: 1},
	}
	for range 2 { // that the revision is current comes alone
		b.change(func(s *promotion.State) ([]deploylog.Event, error) {
			for step := range s.Decide(seen, time.Now()) {
				b.step = step
			}
			return b.step.Events, nil
		})
	}
	if !b.step.Promotes {
		t.Fatalf("nothing is to be promoted: %+v", b.step)
	}
	return b
}

func (b *begunTry) fails(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *begunTry) change(propose func(s *promotion.State) ([]deploylog.Event, error)) {
	b.Helper()
	_, err := New(b.log, time.Now).Change(b.Context(), "shop", true, propose)
	b.fails(err)
}

// wants has a person command the pipeline.
func (b *begunTry) wants(c promotion.Command) {
	b.Helper()
	b.change(func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(c, promotion.Observed{}, time.Now())
	})
}

// process is one that promotes.
func (b *begunTry) process() *Controller {
	return NewController(Options{
		Options:  reconcile.Options{Log: b.open(), Now: time.Now, Parallelism: 1},
		Selected: func(string) ([]string, error) { return []string{"h1"}, nil }, Identity: func() string { return "" },
	})
}

func (b *begunTry) deployments() (all []report.Deployment) {
	b.Helper()
	e := environments.New(b.log, time.Now)
	b.fails(e.Follow(b.Context(), 0))
	b.fails(e.Ask("prod", func(s *environment.State) error {
		all = s.Deployments()
		for _, d := range all {
			if r, err := s.Revision(d.Revision); err != nil || r.Definition.Task.Vars["version"] != int64(7) {
				b.Errorf("deployment %s is of %+v", d.ID, r.Definition)
			}
		}
		return nil
	}))
	return all
}

// Whoever does a try again deploys once, and finds that again: also where another process deploys
// between its look and its command. What is a number stays one.
func TestATryDeploysOnceWhoeverDoesItAgain(t *testing.T) {
	b := newTry(t)
	first, err := b.process().deploy(t.Context(), "shop", b.step, "version")
	b.fails(err)
	again, err := b.process().deploy(t.Context(), "shop", b.step, "version")
	b.fails(err)
	if first.Deployment == "" || first != again {
		t.Errorf("it finds %+v, and then %+v", first, again)
	}
	c := b.process()
	b.fails(c.commands.Follow(t.Context(), 0))
	if err := c.command(t.Context(), "shop", b.step, "version", environment.Deploy{Revision: first.Revision, Hosts: []string{"h1"}, Step: b.step.Key()}); !errors.Is(err, errBegun) {
		t.Errorf("its command comes to %v", err)
	}
	if all := b.deployments(); len(all) != 1 || all[0].Step != b.step.Key() {
		t.Errorf("there are %+v", all)
	}
}

// What keeps the stage and was recorded after the try was decided keeps it from deploying.
func TestATryDeploysNothingThatWasForbiddenSince(t *testing.T) {
	for name, c := range map[string]promotion.Command{
		"held":    promotion.HoldStage{Stage: "prod", ID: "hold", By: "ada"},
		"stopped": promotion.StopLine{ID: "stop", By: "ada"},
		"deleted": promotion.Delete{Cancel: true, ID: "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTry(t)
			p := b.process()
			b.wants(c)
			if begun, err := p.deploy(t.Context(), "shop", b.step, "version"); err == nil || begun.Deployment != "" {
				t.Errorf("it begins %+v, %v", begun, err)
			}
			if all := b.deployments(); len(all) != 0 {
				t.Errorf("there are %+v", all)
			}
		})
	}
}

// A program that is asked knows a try by a key that is the same whichever process asks, and that no
// other try has, also of a pipeline of that name in another log.
func TestAKeyIsOfOneTryOfOneLog(t *testing.T) {
	b, other := newTry(t), newTry(t)
	if b.step.Key() != other.step.Key() {
		t.Fatalf("the tries are %s and %s", b.step.Key(), other.step.Key())
	}
	key, next := b.process().keyOf(b.step), b.step
	next.Attempt++
	if again := b.process().keyOf(b.step); again != key || !strings.HasPrefix(key, "promotion-") {
		t.Errorf("the keys are %s and %s", key, again)
	}
	if of := other.process().keyOf(other.step); of == key {
		t.Error("another log has the same key")
	}
	if of := b.process().keyOf(next); of == key {
		t.Error("the next try has the same key")
	}
}
