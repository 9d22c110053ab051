package promotions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/targets"
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

func newTry(t *testing.T, change ...func(*definition.Definition)) *begunTry {
	t.Helper()
	b := &begunTry{T: t, open: reconciletest.InMemory(t)}
	b.log = b.open()
	d := &envdefinition.Definition{Name: "prod", Type: envdefinition.Daemon, InstanceGroup: envdefinition.InstanceGroup{Query: "all"}, Task: envdefinition.TaskSpec{Manifest: "m", Vars: map[string]any{"version": int64(6)}}}
	_, err := environments.New(b.log, time.Now).Command(t.Context(), "prod", environment.Create{Definition: d})
	b.fails(err)
	of := &definition.Definition{
		Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"},
		Stages: []definition.Stage{{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod"}},
	}
	for _, c := range change {
		c(of)
	}
	b.wants(promotion.Define{ID: "define", Definition: of})
	seen := promotion.Observed{
		"dev":                    {Health: promotion.Whole, Revision: "7", Value: int64(7), Came: 1, Event: 1},
		of.Stages[1].Environment: {Health: promotion.Partly, Event: 1},
	}
	for range 2 { // that the revision is current comes alone
		b.change(func(s *promotion.State) ([]deploylog.Event, error) {
			for step := range s.Decide(seen, time.Now()) {
				b.step = step
			}
			return b.step.Events, nil
		})
	}
	require.True(t, b.step.Promotes, "nothing is to be promoted")
	return b
}

func (b *begunTry) fails(err error) {
	b.Helper()
	require.NoError(b, err)
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
	require.NotEmpty(t, first.Deployment, "it finds %+v, and then %+v", first, again)
	assert.Equal(t, again, first)
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
			assert.Empty(t, b.deployments())
		})
	}
}

// A program that is asked knows a try by a key that is the same whichever process asks, and that no
// other try has, also of a pipeline of that name in another log.
func TestAKeyIsOfOneTryOfOneLog(t *testing.T) {
	b, other := newTry(t), newTry(t)
	require.Equal(t, other.step.Key(), b.step.Key())
	key, next := b.process().keyOf(b.step), b.step
	next.Attempt++
	require.Equal(t, key, b.process().keyOf(b.step))
	assert.True(t, strings.HasPrefix(key, "promotion-"), "the keys are %s", key)
	assert.NotEqual(t, key, other.process().keyOf(other.step), "another log has the same key")
	assert.NotEqual(t, key, b.process().keyOf(next), "the next try has the same key")
}

// engines have the manifests of stages applied on hosts.
type engines struct {
	Engines
	applied []string
}

func (e *engines) ApplyTarget(_ context.Context, q targets.Question) error {
	e.applied = append(e.applied, fmt.Sprintf("%s %v", q.Task.Host, q.Task.Spec.Vars["version"]))
	return nil
}

// So it is with what is to be applied on hosts, and where these are not those that were seen.
func TestATryAppliesNothingThatWasForbiddenSince(t *testing.T) {
	onHosts := func(d *definition.Definition) {
		d.Stages[1].Environment, d.Stages[1].Targets = "hosts:shop/prod", &definition.Targets{Manifest: "web.yaml", Hosts: "all"}
	}
	sees := func(hosts ...string) promotion.Sighting {
		seen := promotion.Sighting{Asked: []string{"7"}}
		for _, h := range hosts {
			seen.Hosts = append(seen.Hosts, promotion.HostSighting{Host: h, Revision: "6"})
		}
		return seen
	}
	for name, c := range map[string]struct {
		was  []string // hosts that were seen
		wish promotion.Command
		done string
	}{
		"nothing":   {was: []string{"h1"}, done: "h1 7"},
		"held":      {was: []string{"h1"}, wish: promotion.HoldStage{Stage: "prod", ID: "hold"}},
		"stopped":   {was: []string{"h1"}, wish: promotion.StopLine{ID: "stop"}},
		"deleted":   {was: []string{"h1"}, wish: promotion.Delete{Cancel: true, ID: "delete"}},
		"too few":   {was: []string{"h1", "h2", "h3", "h4"}},
		"fewer":     {was: []string{"h1", "h2"}, done: "h1 7"},
		"all other": {was: []string{"h2", "h3"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTry(t, onHosts)
			p, e := b.process(), &engines{}
			p.Engines = e
			b.change(func(s *promotion.State) ([]deploylog.Event, error) { return s.Sighted("prod", sees(c.was...)), nil })
			if c.wish != nil {
				b.wants(c.wish)
			}
			stage := definition.Stage{Name: "prod", Environment: "hosts:shop/prod", Targets: &definition.Targets{Manifest: "web.yaml", Hosts: "all"}}
			_, err := p.apply(t.Context(), "shop", b.step, stage, "version")
			if done := strings.Join(e.applied, ", "); done != c.done || (err == nil) != (done != "") {
				t.Errorf("it applies %q: %v", done, err)
			}
		})
	}
}

// What verifies a stage is not begun where the stage runs something else by now.
func TestNothingIsVerifiedThatRunsThereNoMore(t *testing.T) {
	verified := func(d *definition.Definition) { d.Stages[1].Verify = "smoke.yaml" }
	onHosts := func(d *definition.Definition) {
		d.Stages[1].Environment, d.Stages[1].Targets = "hosts:shop/prod", &definition.Targets{Manifest: "web.yaml", Hosts: "all"}
	}
	for name, change := range map[string][]func(*definition.Definition){"environment": {verified}, "hosts": {verified, onHosts}} {
		t.Run(name, func(t *testing.T) {
			b := newTry(t, change...)
			p := b.process()
			p.Verify = func(context.Context, environment.Verification) error { return nil }
			p.Engines = &engines{}
			stage := definition.Stage{Name: "prod", Environment: b.step.Environment, Verify: "smoke.yaml"}
			if name == "hosts" {
				stage.Targets = &definition.Targets{Manifest: "web.yaml", Hosts: "all"}
			}
			// runs has the stage run the revision as a whole; it returns by which deployment.
			runs := func(revision string) (deployment string) {
				if name == "hosts" {
					b.change(func(s *promotion.State) ([]deploylog.Event, error) {
						return s.Sighted("prod", promotion.Sighting{Hosts: []promotion.HostSighting{{Host: "h1", Revision: revision}}, Value: revision}), nil
					})
					return ""
				}
				step := b.step
				step.Revision, step.Value, step.ID = revision, nil, "try of "+revision
				begun, err := p.deployAs(t.Context(), step)
				b.fails(err)
				return begun
			}
			deployment := runs("7")
			step := promotion.Step{Verifies: true, ID: "v", Target: "stage/shop/prod", Stage: "prod", Environment: b.step.Environment, Revision: "7", Attempt: 1, Deployment: deployment}
			b.change(func(s *promotion.State) ([]deploylog.Event, error) {
				came := promotion.Observed{}
				s.AddSightings(came)
				data := promotion.Payload{Environment: step.Environment, Deployment: deployment, Came: came[step.Environment].Came}.Data()
				return []deploylog.Event{{Deployment: "v", Target: step.Target, Revision: "7", Name: promotion.Verifying, Attempt: 1, Data: data}}, nil
			})
			b.fails(p.verifyNow(t.Context(), "shop", step, stage))
			runs("8")
			assert.ErrorIs(t, p.verifyNow(t.Context(), "shop", step, stage), promotion.ErrUnwanted, "it ends with")
		})
	}
}

// deployAs deploys an environment for a try that nobody recorded.
func (c *Controller) deployAs(ctx context.Context, s promotion.Step) (deployment string, err error) {
	if err := c.commands.Follow(ctx, 0); err != nil {
		return "", err
	}
	r, err := c.revise(ctx, s, "version", false)
	if err == nil {
		_, err = c.commands.Command(ctx, s.Environment, environment.Deploy{Revision: r.Number, Hosts: []string{"h1"}, Step: s.Key()})
	}
	if err != nil {
		return "", err
	}
	begun, err := c.find(s)
	return begun.Deployment, err
}

// VerifyTarget implements Engines.
func (*engines) VerifyTarget(context.Context, targets.Question, []string) error { return nil }

// What is proposed is not closed where it is wanted again by the time that this may be done.
func TestNothingIsWithdrawnThatIsWanted(t *testing.T) {
	pull := &definition.PullRequest{Repository: "https://git.example/acme/deploy.git", File: "prod.yaml", Value: "tag", Base: "main", Branch: "deployster/shop/prod"}
	b := newTry(t, func(d *definition.Definition) {
		d.Stages[1].Strategy, d.Stages[1].PullRequest = definition.WithPullRequest, pull
	})
	p, of := b.process(), promotion.Proposal{Step: b.step, Pull: pull}
	assert.ErrorIs(t, p.mayWithdraw(t.Context(), "shop", of), errWanted, "it comes to")
	b.change(func(*promotion.State) ([]deploylog.Event, error) {
		return []deploylog.Event{{Deployment: b.step.ID, Target: b.step.Target, Revision: b.step.Revision, Name: promotion.StageFailed, Attempt: b.step.Attempt, Data: promotion.Payload{SupersededBy: "8"}.Data()}}, nil
	})
	assert.NoError(t, p.mayWithdraw(t.Context(), "shop", of), "nobody wants it any more")
}
