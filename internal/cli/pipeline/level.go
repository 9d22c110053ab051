package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	promotioncli "github.com/deployster-go/deployster/internal/cli/promotion"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// withoutReleases are the commands that make no sense for a pipeline that promotes by observed
// state, and what helps instead.
var withoutReleases = map[string]string{
	"release":  "deploy the environment of its first stage (deployster env deploy), and its revision is promoted",
	"artifact": "it has no releases that artifacts could be of",
	"skip":     "a newer revision in the first stage takes the place of one that waits",
	"rollback": "deployster env rollback NAME rolls the environment of a stage back, which holds the stage",
	"repair":   "the environment of a stage repairs its tasks by itself",
	"rerun":    "deployster env restart NAME does the tasks of an environment again",
	"cancel":   "deployster pipeline hold PIPELINE STAGE keeps revisions from a stage, and stop-the-line from all",
	"retry":    "a promotion that failed is tried again by itself; deployster pipeline explain PIPELINE says when",
	"confirm":  "deployster env confirm NAME lets an environment lose hosts",
	"diff":     "deployster env diff NAME REVISION REVISION compares revisions of an environment",
	"pause":    "deployster pipeline hold PIPELINE STAGE keeps revisions from a stage, and stop-the-line PIPELINE from all",
}

// routed lets commands do for pipelines that promote by observed state what they do for them.
func routed(c *cobra.Command, a *app.App) {
	for _, c := range c.Commands() {
		remedy, refused := withoutReleases[c.Name()]
		if !refused {
			continue
		}
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				if is, err := promotioncli.Refuse(c.Context(), a, args[0], c.Name(), remedy); is || err != nil {
					return err
				}
			}
			return run(c, args)
		}
	}
}

// observing is a command of pipelines that promote by observed state only.
func observing(a *app.App, c *cobra.Command, remedy string, wanted func(args []string, reason string) (promotion.Command, string)) *cobra.Command {
	var reason string
	c.RunE = func(c *cobra.Command, args []string) error {
		command, done := wanted(args, reason)
		is, err := promotioncli.Propose(c.Context(), a, args[0], command, done)
		if err == nil && !is {
			return promotioncli.Released(args[0], remedy)
		}
		return err
	}
	arguments.RegisterReason(c, &reason)
	return c
}

func newHoldCommand(a *app.App) *cobra.Command {
	return observing(a, &cobra.Command{
		Use:   "hold PIPELINE STAGE",
		Short: "Keep revisions from being promoted to a stage",
		Long: `Keep revisions from being promoted to a stage of a pipeline that promotes by observed
state, until "pipeline release-hold". A promotion that is under way ends. A stage whose
environment somebody rolls back by hand is held by that.`,
		Example: "  deployster pipeline hold shop prod --reason 'the network is being rebuilt'",
		Args:    arguments.Named("a pipeline", "a stage"),
	}, "deployster pipeline pause PIPELINE STAGE pauses a stage of one whose revisions are released", func(args []string, reason string) (promotion.Command, string) {
		return promotion.HoldStage{Stage: args[1], ID: a.NewID(), By: app.Whoami(), Reason: reason}, fmt.Sprintf("stage %s of pipeline %s is held", args[1], args[0])
	})
}

func newReleaseHoldCommand(a *app.App) *cobra.Command {
	return observing(a, &cobra.Command{
		Use:   "release-hold PIPELINE STAGE",
		Short: "Let revisions be promoted to a stage again that was held",
		Long: `Let revisions be promoted to a stage again that was held, or whose environment somebody
rolled back by hand. What was promoted there before and is current is promoted again.`,
		Example: "  deployster pipeline release-hold shop prod",
		Args:    arguments.Named("a pipeline", "a stage"),
	}, "deployster pipeline resume PIPELINE STAGE resumes a stage of one whose revisions are released", func(args []string, reason string) (promotion.Command, string) {
		return promotion.ReleaseHold{Stage: args[1], ID: a.NewID(), By: app.Whoami(), Reason: reason}, fmt.Sprintf("stage %s of pipeline %s is released", args[1], args[0])
	})
}

func newStopTheLineCommand(a *app.App) *cobra.Command {
	return observing(a, &cobra.Command{
		Use:   "stop-the-line PIPELINE",
		Short: "Keep revisions from being promoted to any stage",
		Long: `Keep revisions from being promoted to any stage of a pipeline that promotes by observed
state, until "pipeline resume". Promotions that are under way end.`,
		Example: "  deployster pipeline stop-the-line shop --reason 'orders are lost'\n  deployster pipeline resume shop",
		Args:    arguments.Named("a pipeline"),
	}, "deployster pipeline pause PIPELINE pauses one whose revisions are released", func(args []string, reason string) (promotion.Command, string) {
		return promotion.StopLine{ID: a.NewID(), By: app.Whoami(), Reason: reason}, fmt.Sprintf("the line of pipeline %s is stopped", args[0])
	})
}

// resumeLine resumes a pipeline that promotes by observed state.
func resumeLine(ctx context.Context, a *app.App, o pausing) (is bool, err error) {
	if o.stage != "" {
		return promotioncli.Refuse(ctx, a, o.pipeline, "resume of a stage", fmt.Sprintf("deployster pipeline release-hold %s %s", o.pipeline, o.stage))
	}
	return promotioncli.Propose(ctx, a, o.pipeline, promotion.ResumeLine{ID: a.NewID(), By: app.Whoami(), Reason: o.reason}, fmt.Sprintf("the line of pipeline %s goes on", o.pipeline))
}

// approveLevel approves a revision at a stage of a pipeline that promotes by observed state.
func approveLevel(ctx context.Context, a *app.App, args []string, carries, reason string) (is bool, err error) {
	return promotioncli.Approve(ctx, a, args[0], promotion.Approve{Stage: args[1], Revision: args[2], ID: a.NewID(), By: app.Whoami(), Reason: reason, Carries: carries})
}

// rejectLevel rejects a revision at a stage of a pipeline that promotes by observed state.
func rejectLevel(ctx context.Context, a *app.App, args []string, reason string) (is bool, err error) {
	return promotioncli.Propose(ctx, a, args[0], promotion.Reject{Stage: args[1], Revision: args[2], ID: a.NewID(), By: app.Whoami(), Reason: reason},
		fmt.Sprintf("revision %s of pipeline %s is rejected at stage %s", args[2], args[0], args[1]))
}

// split opens the pipelines of both kinds: those of some names, none is all.
func split(ctx context.Context, a *app.App, names []string, at int64, do func(p *query.Pipelines, l *promotioncli.Levels, released, observed []string) error) error {
	return withPipelines(ctx, a, nil, at, func(p *query.Pipelines) error {
		l, err := promotioncli.Open(ctx, p.Log, a.Now, at)
		if err != nil {
			return err
		}
		observed, released := l.Split(names)
		for _, name := range released {
			if err := p.Check(name); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			released = p.Present()
		}
		return do(p, l, released, observed)
	})
}

// promoting runs a scheduler of releases, and beside it what promotes by observed state. Where
// pipelines are named, each runs only if one of them is its own.
func promoting(ctx context.Context, a *app.App, o pipelines.Options, workers *session.Workers, released, observed []string, named bool, schedule func(context.Context) error) error {
	defer collectSooner(a.Getenv)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(startTime, debug.FreeOSMemory).Stop()
	var running sync.WaitGroup
	var failed error
	if !named || len(observed) > 0 {
		running.Go(func() {
			failed = crash.Do("promoting", func() error {
				p := promotions.Options{Options: o.Options, Observer: o.Observer, Workspace: a.Workspace, Getenv: a.Getenv, Engines: workers.Tasks, Clusters: workers.Clusters}
				p.Scope = reconcile.Of(observed...)
				if !named {
					p.Scope = reconcile.All()
				}
				return promotions.Schedule(ctx, p, workers.Tasks, workers.Hosts)
			})
			if failed != nil {
				cancel(failed)
			}
		})
	}
	var err error
	if !named || len(released) > 0 {
		if err = schedule(ctx); err != nil {
			cancel(err)
		}
	}
	running.Wait()
	if failed != nil && (err == nil || errors.Is(context.Cause(ctx), failed)) {
		return failed
	}
	return err
}

// startTime is after how long a scheduler returns the memory that only its start needed.
const startTime = time.Minute

// collectSooner has garbage collected when half as much is allocated as is kept: a scheduler keeps much
// for long, and allocates little. GOGC in the environment goes first.
func collectSooner(getenv func(string) string) (end func()) {
	if getenv("GOGC") != "" {
		return func() {}
	}
	const percent = 50
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}

// onePicture is the pipeline of which a picture is asked for.
func onePicture(released, observed []string) error {
	switch {
	case len(observed) > 0 && len(released) == 0:
		return exit.Usage("there is no picture of a pipeline that promotes by observed state; its status as text or JSON has everything")
	case len(slices.Concat(released, observed)) != 1:
		return exit.Usage("a picture is of one pipeline: name it")
	}
	return nil
}
