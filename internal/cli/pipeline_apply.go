package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline"
)

type pipelineApplyOptions struct {
	file      string
	inventory string
	yes       bool
}

func (a *app) pipelineApplyCommand() *cobra.Command {
	var o pipelineApplyOptions
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Define a pipeline, or change it while revisions are under way",
		Long: `Define a pipeline, or change it while revisions are under way.

For every revision that is under way it shows what would run that would not have
run, what is skipped because the revision is past it, and what is refused because
it would run there for the first time; and asks before a pipeline is changed.`,
		Example: "  deployster pipeline apply -f gateway.yaml\n  deployster pipeline apply -f gateway.yaml --yes",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.file == "" {
				return usage("which definition? say -f FILE")
			}
			return a.applyPipeline(c.Context(), o)
		},
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "the definition")
	registerInventory(c, &o.inventory)
	registerYes(c, &o.yes)
	return c
}

// readDefinition reads a definition. The manifests that it names are looked for
// beside it, and known by their paths below the workspace.
func (a *app) readDefinition(file string) (*pipeline.Definition, error) {
	workspace, err := a.workspace()
	if err != nil {
		return nil, err
	}
	text, err := work.ReadFile(file)
	if err != nil {
		return nil, &usageError{err}
	}
	d, err := pipeline.Parse(file, text, func(query string) error {
		_, err := inventory.ParseQuery(query)
		return err
	})
	if err != nil {
		return nil, &usageError{err}
	}
	var problems []error
	d.Manifests(func(stage string, path *string) {
		at := filepath.Join(filepath.Dir(file), filepath.FromSlash(*path))
		below, err := manifestBelow(workspace, at)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: stage %s: manifest %s: %w", file, stage, at, err))
		}
		*path = below
	})
	if err := errors.Join(problems...); err != nil {
		return nil, &usageError{err}
	}
	return d, nil
}

// manifestBelow is work.ManifestBelow, with an error in plain words.
func manifestBelow(workspace, path string) (string, error) {
	below, err := work.ManifestBelow(workspace, path)
	if err != nil {
		return "", errors.New(fileWords(err))
	}
	return below, nil
}

// errMoved is why a preview has to be made again.
var errMoved = errors.New("revisions moved on meanwhile")

func (a *app) applyPipeline(ctx context.Context, o pipelineApplyOptions) (err error) {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	d, err := a.readDefinition(o.file)
	if err != nil {
		return err
	}
	members, err := work.NewHosts(o.inventory).Members(d)
	if err != nil {
		return &usageError{err}
	}
	workspace, err := a.workspace()
	if err != nil {
		return err
	}
	log, err := a.openLog(ctx, workspace, a.err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	p := pipelines.NewPipelines(log, a.now)
	for {
		if err := p.Follow(ctx, 0); err != nil {
			return err
		}
		events, changes, err := a.changePipeline(ctx, p, d, members, o.yes, asJSON)
		if errors.Is(err, errMoved) {
			fmt.Fprintf(a.err, "note: %v; this is how it is now\n", err)
			continue
		}
		if err != nil {
			return err
		}
		return a.tellApplied(d, events, changes, asJSON)
	}
}

// changePipeline shows what a definition changes, asks, and has it recorded.
func (a *app) changePipeline(ctx context.Context, p *pipelines.Pipelines, d *pipeline.Definition, members map[string][]string, yes, asJSON bool) ([]deploylog.Event, []pipeline.Change, error) {
	changes, exists, same, err := preview(p, d, members)
	if err != nil || same {
		return nil, nil, err
	}
	if !asJSON {
		if err := view.PipelineChanges(a.out, changes, exists, a.planOptions(a.out)); err != nil {
			return nil, nil, err
		}
	}
	if exists {
		if err := a.agree(ctx, yes, asJSON, fmt.Sprintf("pipeline %s would be changed", d.Name), "Change pipeline %s?", d.Name); err != nil {
			return nil, nil, err
		}
	}
	events, err := p.Change(ctx, d.Name, true, func(s *pipeline.State) ([]deploylog.Event, error) {
		now, err := s.Preview(d, members)
		if err != nil {
			return nil, err
		}
		if !yes && slices.ContainsFunc(now, func(c pipeline.Change) bool { return !slices.Contains(changes, c) }) {
			return nil, errMoved
		}
		return s.Propose(pipeline.Define{Definition: d, ID: a.newID(), By: whoami()}, a.now())
	})
	if err != nil {
		return nil, nil, err
	}
	_, err = p.Command(ctx, d.Name, pipeline.SetMembers{Members: members, ID: a.newID(), By: whoami()})
	return events, changes, err
}

// preview tells what a definition would change, whether there is a pipeline of
// its name, and whether that has this definition already.
func preview(p *pipelines.Pipelines, d *pipeline.Definition, members map[string][]string) (changes []pipeline.Change, exists, same bool, err error) {
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

func (a *app) tellApplied(d *pipeline.Definition, events []deploylog.Event, changes []pipeline.Change, asJSON bool) error {
	if asJSON {
		return a.printJSON(map[string]any{"pipeline": d.Name, "changes": append([]pipeline.Change{}, changes...), "events": append([]deploylog.Event{}, events...)})
	}
	if len(events) == 0 {
		return write(a.out, "pipeline %s is defined like that already\n", d.Name)
	}
	return write(a.out, "pipeline %s is defined, %s (event %d)\n", d.Name, count(len(d.Stages), "stage"), events[0].Seq)
}
