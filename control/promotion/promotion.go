// Package promotion carries the revisions of pipelines to environments.
package promotion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
	"github.com/deployster-go/deployster/runner"
)

// Promotion is a pipelines.Worker that deploys the revisions of pipelines to environments,
// where their stages say so. All other work is another's. What it began it finds
// again in the log, so doing its work twice deploys once.
type Promotion struct {
	pipelines.Options
	environments *environments.Environments
	selected     func(query string) ([]string, error)
	control      func(environment string) (leave func())
}

// New returns a pipelines.Worker for a scheduler with options, whose own Worker has what
// is no deployment to an environment. selected are the hosts that a query selects at
// present. control is called for an environment while its deployment is waited for.
func New(o pipelines.Options, selected func(query string) ([]string, error), control func(environment string) (leave func())) *Promotion {
	return &Promotion{Options: o, environments: environments.New(o.Log, o.Now), selected: selected, control: control}
}

// Schedule runs a scheduler of pipelines that carries their revisions to environments, too,
// and beside it the controller of the environments that stages wait for.
func Schedule(ctx context.Context, o pipelines.Options, tasks environments.Tasks, inventory environments.Inventory) error {
	return environments.Beside(ctx, environments.Options{
		Options: reconcile.Options{Log: o.Log, Parallelism: o.Parallelism, Now: o.Now}, Tasks: tasks, Inventory: inventory, Observer: o.Observer,
	}, func(ctx context.Context, scope *reconcile.Scope) error {
		p := New(o, inventory.Selected, scope.Add)
		p.environments.Identify(tasks.Things, nil)
		o.Worker = p
		return pipelines.NewScheduler(o).Run(ctx)
	})
}

// Worker is the Promotion of a scheduler beside which somebody controls all environments.
func Worker(o pipelines.Options, tasks environments.Tasks, inventory environments.Inventory) *Promotion {
	p := New(o, inventory.Selected, func(string) func() { return func() {} })
	p.environments.Identify(tasks.Things, nil)
	return p
}

// Work implements pipelines.Worker. It returns when the deployment has finished, and fails
// when it is stuck or another one came before.
func (p *Promotion) Work(ctx context.Context, s step.Step, artifacts map[string]string, wanted func() error) (map[string]string, error) {
	if s.Environment == "" {
		return p.Worker.Work(ctx, s, artifacts, wanted)
	}
	d, err := p.find(ctx, s)
	if err == nil && d.ID == "" {
		d, err = p.deploy(ctx, s, artifacts)
	}
	if err != nil {
		return nil, err
	}
	return nil, p.wait(ctx, s.Environment, d)
}

// Settle implements pipelines.Worker. What only waited for an environment is over.
func (p *Promotion) Settle(ctx context.Context, w step.Work) error {
	if w.Event == record.StageDeployed {
		return nil
	}
	return p.Worker.Settle(ctx, w)
}

// The variables that tell a task which revision of which pipeline it is.
const (
	varPipeline   = "pipeline"
	varStage      = "stage"
	varRevision   = "pipeline_revision"
	varDeployment = "pipeline_deployment"
	varArtifacts  = "artifacts"
	varInputs     = "pipeline_inputs" // of a revision that has some
)

// Variables are the names of the variables that a promotion sets in the
// definition of a task.
func Variables() []string {
	return []string{varPipeline, varStage, varRevision, varDeployment, varArtifacts, varInputs}
}

// reason is why an environment is deployed, in words. Deployments of versions before
// those that record their step are known again by it.
func reason(s step.Step) string {
	name, _ := record.NameOf(s.Target)
	return fmt.Sprintf("revision %s of pipeline %s, stage %s, attempt %d (%s)", s.Revision, name, s.Stage, s.Attempt, s.Deployment)
}

// stepOf is what a deployment is known again by: the step that began it.
func stepOf(s step.Step) string {
	return fmt.Sprintf("%s/%s/%d", s.Deployment, s.Target, s.Attempt)
}

// deployments are those of an environment, in order.
func (p *Promotion) deployments(ctx context.Context, name string) (all []report.Deployment, err error) {
	if err := p.environments.Follow(ctx, 0); err != nil {
		return nil, err
	}
	err = p.environments.Ask(name, func(state *environment.State) error {
		all = slices.Clone(state.Deployments()) // which changes while it is read
		return nil
	})
	return all, err
}

// find returns the deployment that the step began, without an ID if there is none.
func (p *Promotion) find(ctx context.Context, s step.Step) (d report.Deployment, err error) {
	all, err := p.deployments(ctx, s.Environment)
	for _, known := range all {
		if known.Step == stepOf(s) || known.Step == "" && known.Reason == reason(s) {
			d = known
		}
	}
	return d, err
}

// deploy makes a revision of the environment for that of the pipeline, unless
// there is one already, and deploys it.
func (p *Promotion) deploy(ctx context.Context, s step.Step, artifacts map[string]string) (d report.Deployment, err error) {
	r, err := p.revise(ctx, s, artifacts)
	if err != nil {
		return d, fmt.Errorf("environment %s: %w", s.Environment, err)
	}
	hosts, err := p.selected(r.Definition.InstanceGroup.Query)
	if err == nil {
		err = p.command(ctx, s, r.Number, hosts)
	}
	if err != nil {
		return d, fmt.Errorf("environment %s: revision %d: %w", s.Environment, r.Number, err)
	}
	return p.find(ctx, s)
}

// command has a revision of the environment deployed, or the environment rolled back to it.
// A rollback is known again by its reason, and tried again as a deployment of what is
// deployed already.
func (p *Promotion) command(ctx context.Context, s step.Step, revision int, hosts []string) error {
	if s.RollsBack {
		_, err := p.environments.Command(ctx, s.Environment, environment.Rollback{Revision: revision, Hosts: hosts, Inventory: p.Hosts.Identity(), By: string(s.Target), Reason: reason(s)})
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Code != environment.AlreadyDeployed {
			return err
		}
	}
	_, err := p.environments.Command(ctx, s.Environment, environment.Deploy{
		Revision: revision, Hosts: hosts, Inventory: p.Hosts.Identity(), By: string(s.Target), Reason: reason(s), Step: stepOf(s),
	})
	return err
}

// revise returns the revision of the environment that is that of the pipeline.
func (p *Promotion) revise(ctx context.Context, s step.Step, artifacts map[string]string) (r report.Revision, err error) {
	_, err = p.environments.Change(ctx, s.Environment, false, func(state *environment.State) ([]deploylog.Event, error) {
		all := state.Revisions()
		i := slices.IndexFunc(all, func(r report.Revision) bool {
			return r.Number >= state.FirstRevision() && r.Definition.Task.Vars[varDeployment] == cmp.Or(s.Original, s.Deployment) && r.Definition.Task.Vars[varStage] == s.Stage
		})
		if i >= 0 {
			r = all[i]
			return nil, nil
		}
		if !state.Exists() {
			return nil, errors.New("it was deleted")
		}
		if s.Original != "" && !s.First {
			name, _ := record.NameOf(s.Target)
			return nil, fmt.Errorf("no revision of it is of revision %s of the pipeline, which is to be deployed again, since it was created (event %d): what helps is another revision, deployster pipeline release %s", s.Revision, all[state.FirstRevision()-1].Seq, name)
		}
		d := taskOf(all[len(all)-1].Definition, s, artifacts)
		r = report.Revision{Number: len(all) + 1, Definition: d}
		return state.Propose(environment.Update{Base: len(all), Definition: d, Bound: s.Bounds != nil || state.StaysBound(Variables()...), By: string(s.Target)}, p.environments.Now())
	})
	return r, err
}

// taskOf returns the definition with the variables of a step.
func taskOf(base *definition.Definition, s step.Step, artifacts map[string]string) *definition.Definition {
	name, _ := record.NameOf(s.Target)
	refs := map[string]any{}
	for kind, ref := range artifacts {
		refs[kind] = ref
	}
	d, vars := *base, map[string]any{}
	maps.Copy(vars, base.Task.Vars)
	maps.Copy(vars, map[string]any{varPipeline: name, varStage: s.Stage, varRevision: s.Revision, varDeployment: cmp.Or(s.Original, s.Deployment), varArtifacts: refs})
	delete(vars, varInputs) // those of another revision
	if inputs := upstream.Variables(s.Takes); inputs != nil {
		vars[varInputs] = inputs
	}
	d.Task.Vars = vars
	return &d
}

// wait waits for the end of a deployment, or of one that took its place and brings about the
// same, such as when somebody deploys the revision again by hand.
func (p *Promotion) wait(ctx context.Context, name string, d report.Deployment) error {
	defer p.control(name)()
	waiting, cancel := p.Drain.Context(ctx)
	defer cancel()
	var failed error
	for e, err := range p.Log.Watch(waiting, deploylog.Filter{Target: envrecord.Target(name), After: d.Seq}) {
		if err != nil && waiting.Err() == nil {
			return fmt.Errorf("watching environment %s: %w", name, err)
		}
		if err != nil || e.Deployment != d.ID {
			continue
		}
		switch e.Name {
		case envrecord.EnvironmentFinished:
			return failed
		case envrecord.EnvironmentStuck:
			failed = cmp.Or(failed, fmt.Errorf("deployment %s is stuck: %s", d.ID, envrecord.Cause(e)))
			next, err := p.successor(ctx, name, d)
			if err != nil || !next.Automatic { // the stage ends with the rollback that came of itself
				return cmp.Or(err, failed)
			}
			d = next
		case envrecord.EnvironmentFailed:
			ended := cmp.Or(failed, fmt.Errorf("deployment %s has ended before it had finished: %s", d.ID, envrecord.Cause(e)))
			next, err := p.successor(ctx, name, d)
			if err != nil || failed != nil || !next.Continues(d) {
				return cmp.Or(err, ended)
			}
			d = next
		case envrecord.EnvironmentDeleted:
			return fmt.Errorf("environment %s was deleted", name)
		}
	}
	return cmp.Or(context.Cause(ctx), error(runner.ErrInterrupted))
}

// successor is the deployment that came right after one; its ID is "" when none has.
func (p *Promotion) successor(ctx context.Context, name string, d report.Deployment) (report.Deployment, error) {
	all, err := p.deployments(ctx, name)
	return report.Successor(all, d.ID), err
}
