package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// pausing is a command that pauses or resumes a pipeline or one of its stages.
type pausing struct {
	pipeline, stage, reason string
	resume                  bool
}

func newPauseCommand(a *app.App) *cobra.Command {
	return pausingCommand(a, pausing{}, &cobra.Command{
		Use:   "pause PIPELINE [STAGE]",
		Short: "Pause a pipeline or one of its stages: nothing new begins in it",
		Long: `Pause a pipeline, or one of its stages: nothing new begins in it, until it is
resumed. What is being done at the moment ends and is recorded. Revisions may be
released, approved and cancelled; a change of the pipeline does not end the pause.`,
		Example: "  deployster pipeline pause gateway --reason 'the network is being rebuilt'\n  deployster pipeline pause gateway prod --reason freeze",
	})
}

func newResumeCommand(a *app.App) *cobra.Command {
	return pausingCommand(a, pausing{resume: true}, &cobra.Command{
		Use:   "resume PIPELINE [STAGE]",
		Short: "Resume a pipeline or a stage that was paused, or in which a revision failed",
		Long: `Resume a pipeline, or one of its stages, that was paused. Without a stage, those of
its stages that were paused by themselves stay so, and are named.

A stage in which a revision failed keeps later revisions out: resuming it, where it is
not paused, lets them enter, though what broke that one may break them, too. What still
holds a stage is named. While a stage is being rolled back it is refused.

Of a pipeline that promotes by observed state, end what "pipeline stop-the-line" began.`,
		Example: "  deployster pipeline resume gateway\n  deployster pipeline resume gateway prod",
	})
}

func pausingCommand(a *app.App, o pausing, c *cobra.Command) *cobra.Command {
	c.Args = arguments.NamedAtLeast(1, "a pipeline", "a stage")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.pipeline = args[0]; len(args) > 1 {
			o.stage = args[1]
		}
		return runPausing(c.Context(), a, o)
	}
	arguments.RegisterReason(c, &o.reason)
	return c
}

func runPausing(ctx context.Context, a *app.App, o pausing) error {
	if o.resume {
		if is, err := resumeLine(ctx, a, o); is || err != nil {
			return err
		}
	}
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		var before, after []pipeline.PauseInfo
		var stops []reason.Reason
		err := p.Ask(o.pipeline, func(s *pipeline.State) (err error) {
			before = s.Pauses()
			if o.stage != "" {
				o.stage, err = s.Stage(o.stage)
			}
			return err
		})
		if err != nil {
			return err
		}
		var wanted pipeline.Command = pipeline.PausePipeline{Stage: o.stage, ID: a.NewID(), By: app.Whoami(), Reason: o.reason}
		if o.resume {
			wanted = pipeline.ResumePipeline{Stage: o.stage, ID: a.NewID(), By: app.Whoami(), Reason: o.reason}
		}
		events, err := p.Command(ctx, o.pipeline, wanted)
		if err != nil {
			return err
		}
		err = p.Ask(o.pipeline, func(s *pipeline.State) error {
			after, stops = s.Pauses(), s.Stops()
			return nil
		})
		if err != nil {
			return err
		}
		if err := a.Recorded(map[string]any{"pauses": append([]pipeline.PauseInfo{}, after...)}, events, o.outcome(len(events) > 0, slices.Concat(before, after)), ""); err != nil || !o.resume {
			return err
		}
		for _, still := range after {
			a.Notice(fmt.Sprintf("note: %s is %s", o.name(still.Stage), view.Clean(still.Message())))
		}
		for _, still := range stops {
			if still.Name == o.stage {
				a.Notice(fmt.Sprintf("note: later revisions are still %s; to let them enter all the same: deployster pipeline resume %s %s", view.Clean(still.Message()), o.pipeline, o.stage))
			}
		}
		return nil
	})
}

// outcome says what was done, or why nothing was to be done.
func (o pausing) outcome(done bool, before []pipeline.PauseInfo) string {
	what, verb := o.name(o.stage), "paused"
	if o.resume {
		verb = "resumed"
	}
	if done {
		return what + " is " + verb
	}
	t := record.Target(o.pipeline)
	if o.stage != "" {
		t = record.StageTarget(o.pipeline, o.stage)
	}
	for _, p := range before {
		if p.Target == t && !o.resume {
			return what + " is already " + view.Clean(p.Message())
		}
	}
	return what + " is not paused"
}

// name is what people call the pipeline or a stage of it.
func (o pausing) name(stage string) string {
	if stage == "" {
		return "pipeline " + o.pipeline
	}
	return fmt.Sprintf("stage %s of pipeline %s", stage, o.pipeline)
}
