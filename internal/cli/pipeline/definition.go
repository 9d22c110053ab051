package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
)

type applyOptions struct {
	file      string
	inventory string
	yes       bool
}

func newApplyCommand(a *app.App) *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Define a pipeline or change it",
		Long: `Define a pipeline, or change it while revisions are under way.

For every revision that is under way it shows what would run that would not have
run, what is skipped because the revision is past it, and what is refused because
it would run there for the first time; and asks before a pipeline is changed.

Revisions under way keep the manifests that they carry since their release. For a
manifest that they do not carry, they take what it is now, with all that it includes.`,
		Example: "  deployster pipeline apply -f gateway.yaml\n  deployster pipeline apply -f gateway.yaml --yes",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.file == "" {
				return exit.Usage("which definition? say -f FILE")
			}
			return runApply(c.Context(), a, o)
		},
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "the definition")
	arguments.RegisterInventory(c, &o.inventory)
	arguments.RegisterYes(c, &o.yes)
	return c
}

// readDefinition reads a definition. The manifests that it names are looked for
// beside it, and known by their paths below the workspace.
func readDefinition(a *app.App, file string) (*definition.Definition, error) {
	text, err := work.ReadFile(file)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	d, err := definition.Parse(file, text, inventory.CheckQuery)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	var problems []error
	d.Manifests(func(stage string, path *string) {
		at := filepath.Join(filepath.Dir(file), filepath.FromSlash(*path))
		below, err := session.ManifestBelow(a.Workspace, at)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: stage %s: manifest %s: %w", file, stage, at, err))
		}
		*path = below
	})
	if err := errors.Join(problems...); err != nil {
		return nil, exit.Invalid(err)
	}
	return d, nil
}

// errMoved is why a preview has to be made again.
var errMoved = errors.New("revisions have moved on")

func runApply(ctx context.Context, a *app.App, o applyOptions) error {
	d, err := readDefinition(a, o.file)
	if err != nil {
		return err
	}
	members, err := work.NewHosts(o.inventory).Members(d)
	if err != nil {
		return exit.Invalid(err)
	}
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		p := pipelines.New(log, a.Now)
		for {
			if err := p.Follow(ctx, 0); err != nil {
				return err
			}
			events, changes, holds, err := define(ctx, a, p, d, members, o.yes)
			if errors.Is(err, errMoved) {
				fmt.Fprintf(a.Err, "note: %v; this is how it is now\n", err)
				continue
			}
			if err != nil {
				return err
			}
			document := map[string]any{"pipeline": d.Name, "changes": append([]pipeline.Change{}, changes...), "events": append([]deploylog.Event{}, events...), "holds": append([]pipeline.Reason{}, holds...)}
			if len(events) == 0 {
				return a.Say(document, "pipeline %s is defined like that already", d.Name)
			}
			for _, h := range holds {
				fmt.Fprintf(a.Err, "note: %s\n      → %s\n", h.Message(), h.Change())
			}
			return a.Say(document, "pipeline %s is defined, %s (event %d)", d.Name, phrase.Count(len(d.Stages), "stage"), events[0].Seq)
		}
	})
}

// define shows what a definition changes, asks, and has it recorded. holds is why host
// groups do not go on with the hosts that it selects.
func define(ctx context.Context, a *app.App, p *pipelines.Pipelines, d *definition.Definition, members map[string][]string, yes bool) (events []deploylog.Event, changes []pipeline.Change, holds []pipeline.Reason, err error) {
	changes, exists, same, err := preview(p, d, members)
	if err != nil || same {
		return nil, nil, nil, err
	}
	if !a.JSON() {
		if err := view.PipelineChanges(a.Out, changes, exists, a.PlanOptions(a.Out)); err != nil {
			return nil, nil, nil, err
		}
	}
	if exists {
		if err := prompt.Agree(ctx, a, yes, fmt.Sprintf("pipeline %s would be changed", d.Name), "Change pipeline %s?", d.Name); err != nil {
			return nil, nil, nil, err
		}
	}
	carries, err := carryToThoseUnderWay(a, d, exists)
	if err != nil {
		return nil, nil, nil, err
	}
	events, err = p.Change(ctx, d.Name, true, func(s *pipeline.State) ([]deploylog.Event, error) {
		now, err := s.Preview(d, members)
		if err != nil {
			return nil, err
		}
		if !yes && slices.ContainsFunc(now, func(c pipeline.Change) bool { return !slices.Contains(changes, c) }) {
			return nil, errMoved
		}
		if carries == nil && s.Definition() != nil && s.Deleted() == 0 {
			return nil, errMoved // it was defined meanwhile: there may be revisions under way, to which something is to be carried
		}
		return s.Propose(pipeline.Define{Definition: d, Carries: carries, ID: a.NewID(), By: app.Whoami()}, a.Now())
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if _, err := p.Command(ctx, d.Name, pipeline.SetMembers{Members: members, ID: a.NewID(), By: app.Whoami()}); err != nil {
		return nil, nil, nil, err
	}
	err = p.Ask(d.Name, func(s *pipeline.State) error {
		holds = s.Holds()
		return nil
	})
	return events, changes, holds, err
}

// preview reports what a definition would change, whether there is a pipeline of
// its name, and whether that has this definition already.
func preview(p *pipelines.Pipelines, d *definition.Definition, members map[string][]string) (changes []pipeline.Change, exists, same bool, err error) {
	err = p.Ask(d.Name, func(s *pipeline.State) (err error) {
		exists = s.Deleted() == 0
		if same = s.Defines(d); same || !exists {
			return nil
		}
		changes, err = s.Preview(d, members)
		return err
	})
	if errors.Is(err, pipelines.ErrNoPipeline) {
		err = nil
	}
	return changes, exists, same, err
}

type deleteOptions struct {
	name        string
	yes, cancel bool
	reason      string
}

func newDeleteCommand(a *app.App) *cobra.Command {
	var o deleteOptions
	c := &cobra.Command{
		Use:   "delete PIPELINE",
		Short: "Delete a pipeline",
		Long: `Delete a pipeline. What it has deployed stays where it is, and its events stay in
the log; nothing of it begins any more. One of its name that is applied later is a
new pipeline: it has no revisions, and any may be released.

While revisions are under way it is refused, unless they are to be cancelled
(--cancel). What is being done at the moment is finished and recorded.`,
		Example: "  deployster pipeline delete gateway --reason 'replaced by gateway-eu'\n  deployster pipeline delete gateway --cancel --yes",
		Args:    arguments.Named("a pipeline"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runDelete(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.cancel, "cancel", false, "cancel the revisions that are under way")
	arguments.RegisterYes(c, &o.yes)
	arguments.RegisterReason(c, &o.reason)
	return c
}

func runDelete(ctx context.Context, a *app.App, o deleteOptions) error {
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		deletion := pipeline.Delete{ID: a.NewID(), By: app.Whoami(), Reason: o.reason, Cancel: o.cancel}
		var running []string
		err := p.Ask(o.name, func(s *pipeline.State) error {
			running = query.InProgress(s)
			_, err := s.Propose(deletion, a.Now()) // what is refused is not asked for
			return err
		})
		if err != nil {
			return err
		}
		what := "pipeline " + o.name
		if len(running) > 0 {
			what += fmt.Sprintf(" (revision %s under way is cancelled)", strings.Join(running, ", "))
		}
		if err := prompt.Agree(ctx, a, o.yes, what+" would be deleted", "Delete %s?", what); err != nil {
			return err
		}
		events, err := p.Change(ctx, o.name, false, func(s *pipeline.State) ([]deploylog.Event, error) {
			if !o.yes && !slices.Equal(query.InProgress(s), running) {
				return nil, errMoved
			}
			return s.Propose(deletion, a.Now())
		})
		if err != nil {
			return err
		}
		if !a.JSON() {
			events = events[len(events)-1:] // the one of the deletion
		}
		return a.Recorded(map[string]any{"pipeline": o.name}, events, fmt.Sprintf("pipeline %s is deleted", o.name), "")
	})
}
