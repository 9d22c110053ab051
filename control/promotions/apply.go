package promotions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/runner"
)

// Engines are where the hosts of stages are.
type Engines interface {
	targets.Engines

	// ApplyTarget applies the manifest of a stage on a host. It must bear to be done again.
	ApplyTarget(ctx context.Context, q targets.Question) error

	// VerifyTarget applies what verifies a stage, on the engine of no host, and tells it the
	// hosts. It must bear to be done again.
	VerifyTarget(ctx context.Context, q targets.Question, hosts []string) error
}

// applyTimeout is how long a try may take to apply the manifest of a stage on all hosts.
const applyTimeout = time.Hour

// applying is what is applied on the hosts of a stage at the moment.
type applying struct {
	pipeline string
	step     promotion.Step
	end      context.CancelCauseFunc
}

// applies reports whether a revision comes to a stage by its manifest being applied on hosts.
func applies(stage *definition.Stage) bool { return stage.Targets != nil && stage.Strategy == "" }

// applying is the work of applying the manifest of a stage on its hosts. Who gives the promotion
// up ends it.
func (c *Controller) applying(name string, at reconcile.Slot[workKey], step promotion.Step, stage definition.Stage, variable string) *reconcile.Work[workKey] {
	wanted, end := context.WithCancelCause(context.Background())
	c.applied[step.Target] = applying{name, step, end}
	var begun promotion.Begun
	return &reconcile.Work[workKey]{
		Slot: at, What: string(step.Target),
		Do: func(ctx context.Context) error {
			defer end(nil)
			return bounded(ctx, wanted, applyTimeout, func(ctx context.Context) (err error) {
				begun, err = c.apply(ctx, name, step, stage, variable)
				return err
			})
		},
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			if a := c.applied[step.Target]; a.step.Key() == step.Key() {
				delete(c.applied, step.Target)
			}
			if c.targets != nil {
				c.targets.Again(step.Environment)
			}
			return c.promotions.States[name].Completed(step, begun, err), false
		},
	}
}

// apply applies the manifest of a stage with a revision on its hosts, of some at once. When it
// fails on one, it begins on no other: what is wrong is not brought everywhere.
func (c *Controller) apply(ctx context.Context, pipeline string, s promotion.Step, stage definition.Stage, variable string) (begun promotion.Begun, err error) {
	if c.Engines == nil {
		return begun, fmt.Errorf("applying manifest %s: no engine of a host can be reached from here", stage.Targets.Manifest)
	}
	hosts, err := c.Selected(stage.Targets.Hosts)
	if err != nil {
		return begun, fmt.Errorf("applying manifest %s on %s: %w", stage.Targets.Manifest, stage.Targets.Hosts, err)
	}
	err = c.tries.Hold(ctx, func() error {
		p, err := c.tries.Find(pipeline)
		if err != nil {
			return err
		}
		return p.MayApply(s, hosts)
	})
	if err != nil {
		return begun, fmt.Errorf("applying manifest %s: %w", stage.Targets.Manifest, err)
	}
	of := targets.Stage{Pipeline: pipeline, Name: s.Stage, Place: s.Environment, Targets: *stage.Targets, Variable: variable}
	failed := c.onEach(ctx, hosts, func(host string) error {
		return c.Engines.ApplyTarget(ctx, of.On(host, promotion.Candidate{Revision: s.Revision, Value: s.Value}))
	})
	var words []string
	for i, err := range failed {
		if errors.Is(err, runner.ErrInterrupted) {
			return begun, fmt.Errorf("applying manifest %s on %s: %w", stage.Targets.Manifest, hosts[i], err)
		}
		if err != nil {
			words = append(words, fmt.Sprintf("%s: %s", hosts[i], err.Error()))
		}
	}
	if len(words) > 0 {
		return begun, fmt.Errorf("applying manifest %s: %s", stage.Targets.Manifest, phrase.First(words, mostNamed))
	}
	begun.Answer = fmt.Sprintf("manifest %s was applied on %s", stage.Targets.Manifest, phrase.Count(len(hosts), "host"))
	return begun, nil
}

// onEach calls do for hosts, of which some are worked on at once, until one fails. failed are
// their errors, in the order of the hosts.
func (c *Controller) onEach(ctx context.Context, hosts []string, do func(host string) error) (failed []error) {
	failed = make([]error, len(hosts))
	free := make(chan struct{}, max(c.Parallelism, 1))
	broken, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	for i, host := range hosts {
		free <- struct{}{}
		if broken.Err() != nil || c.Drain.Started() {
			if ctx.Err() != nil {
				failed[i] = context.Cause(ctx)
			} else if broken.Err() == nil {
				failed[i] = runner.ErrInterrupted
			}
			break
		}
		working.Go(func() {
			defer func() { <-free }()
			if failed[i] = do(host); failed[i] != nil {
				stop()
			}
		})
	}
	working.Wait()
	return failed
}

// dropApplying ends what is applied for a pipeline that has given it up.
func (c *Controller) dropApplying(name string) {
	for _, a := range c.applied {
		if a.pipeline == name && !c.promotions.States[name].Wanted(a.step.ID, a.step.Attempt) {
			a.end(promotion.ErrUnwanted)
		}
	}
}
