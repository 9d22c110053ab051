package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
)

func newReleaseCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "release PIPELINE REVISION",
		Short: "Register a revision and start its deployment",
		Long: `Register a revision and start its deployment. Revisions go through the pipeline
in the order in which they are released, whatever their names are. Each is
released once.

The revision carries the manifests of the pipeline with all that they include, as
they are now in the workspace: every host gets these, whatever becomes of the files,
and from whichever workspace "pipeline run" is started. Containers see that workspace
itself, so a script that a resource runs there and that is edited between two hosts
differs on them.`,
		Example: "  deployster pipeline release gateway 42\n  deployster pipeline release gateway $(git rev-parse HEAD)",
		Args:    arguments.Named("a pipeline", "a revision"),
		RunE:    func(c *cobra.Command, args []string) error { return runRelease(c.Context(), a, args[0], args[1]) },
	}
}

// errRedefined is why the manifests of a pipeline have to be read again.
var errRedefined = errors.New("the pipeline was changed")

func runRelease(ctx context.Context, a *app.App, name, revision string) error {
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		for {
			events, err := release(ctx, a, p, name, pipeline.Release{Revision: revision, ID: a.NewID(), By: app.Whoami()})
			if errors.Is(err, errRedefined) {
				continue
			}
			if err != nil {
				return err
			}
			return a.Recorded(map[string]any{}, events, fmt.Sprintf("revision %s of pipeline %s is released", revision, name), "")
		}
	})
}

// release has a revision recorded with what it carries.
func release(ctx context.Context, a *app.App, p *query.Pipelines, name string, wanted pipeline.Release) ([]deploylog.Event, error) {
	var d *definition.Definition
	err := p.Ask(name, func(s *pipeline.State) error {
		d = s.Definition()
		_, err := s.Propose(wanted, a.Now()) // for what is refused nothing is read
		return err
	})
	if err != nil {
		return nil, err
	}
	if wanted.Carries, err = carry(a, d); err != nil {
		return nil, err
	}
	return p.Change(ctx, name, false, func(s *pipeline.State) ([]deploylog.Event, error) {
		if s.Definition() != nil && s.Definition() != d {
			return nil, errRedefined
		}
		return s.Propose(wanted, a.Now())
	})
}

// carry keeps the manifests of a pipeline with all that they include, as they are now.
func carry(a *app.App, d *definition.Definition) (pipeline.Files, error) {
	files, err := work.CollectPipeline(a.Workspace, d)
	if err != nil {
		return nil, err
	}
	return files.Digests(), keep(a, files)
}

// keep keeps the texts of manifests.
func keep(a *app.App, files work.Carried) error {
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	return texts.KeepAll(files)
}

type showOptions struct {
	name, revision string
	at             int64
}

func newShowCommand(a *app.App) *cobra.Command {
	var o showOptions
	c := &cobra.Command{
		Use:     "show PIPELINE REVISION",
		Short:   "Show a revision, and which files it carries",
		Example: "  deployster pipeline show gateway 42",
		Args:    arguments.Named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name, o.revision = args[0], args[1]
			return runShow(c.Context(), a, o)
		},
	}
	arguments.RegisterAt(c, &o.at)
	return c
}

func runShow(ctx context.Context, a *app.App, o showOptions) error {
	return withPipelines(ctx, a, []string{o.name}, o.at, func(p *query.Pipelines) error {
		if _, err := reconcile.Get(p.Fold, o.name, (*pipeline.State).Deleted); err != nil {
			return err
		}
		r, err := p.Release(o.name, o.revision)
		if err != nil {
			return err
		}
		return a.Show(map[string]any{"pipeline": o.name, "release": r}, func() error {
			text := fmt.Sprintf("revision %s of pipeline %s: released %s, %s since event %d\n", r.Revision, o.name, phrase.Moment(r.Released), r.Status, r.Since)
			text += output.Digests("  ", r.Carries)
			if r.Carries == nil {
				text += "  It carries no files, for an older version released it: manifests are read when they are applied.\n"
			}
			return a.Printf("%s", text)
		})
	})
}
