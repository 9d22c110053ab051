package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

func newRepairCommand(a *app.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "repair PIPELINE STAGE [HOST…]",
		Short: "Do a stage again on hosts that failed there",
		Long: `Do the steps of a stage again on the hosts that failed there while their host group
did not, because max_failed let them, or on those of them that are named. They get the
revision that finished the stage last, with what it carries, as the others did.

It is a deployment of its own, which is in the stage at once and may be cancelled and
retried. It is refused while a revision is in the stage, or in a batch that the stage
belongs to, and when another one has come to the stage since.`,
		Example: "  deployster pipeline repair gateway prod --reason 'more disk space'\n  deployster pipeline repair gateway prod h7",
		Args: func(c *cobra.Command, args []string) error {
			what := []string{"a pipeline", "a stage"}
			for range len(args) - len(what) {
				what = append(what, "a host")
			}
			return arguments.Named(what...)(c, args)
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return runRedo(c.Context(), a, args[0], pipeline.Repair{Stage: args[1], Hosts: args[2:], ID: a.NewID(), By: app.Whoami(), Reason: reason})
	}
	arguments.RegisterReason(c, &reason)
	return c
}

func newRerunCommand(a *app.App) *cobra.Command {
	var reason string
	var flags inputFlags
	c := &cobra.Command{
		Use:   "rerun PIPELINE STAGE REVISION",
		Short: "Do a stage of a revision again",
		Long: `Do a stage again that a revision has finished, with what the revision carries: smoke
tests, a migration, or a deployment to all hosts of the stage. Other stages stay as they
are. An environment has the revision deployed again; artifacts that are built again
leave the references that the revision has as they are.

It is a deployment of its own, which is in the stage at once and may be cancelled and
retried. It is refused while a revision is in the stage, or in a batch that the stage
belongs to, and when another one has come to the stage since.

A stage that was added to the pipeline after the revision has finished is done with it for
the first time: a run, or a deployment to hosts. Its manifests and their variables are sent
as they are now in the workspace, as "pipeline release" does.`,
		Example: "  deployster pipeline rerun gateway smoke-test 42 --reason 'the network is back'",
		Args:    arguments.Named("a pipeline", "a stage", "a revision"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		wanted := pipeline.Rerun{Stage: args[1], Revision: args[2], ID: a.NewID(), By: app.Whoami(), Reason: reason}
		return runRerun(c.Context(), a, args[0], wanted, flags)
	}
	arguments.RegisterReason(c, &reason)
	flags.RegisterPinning(c, &flags.public, &flags.unpinned)
	return c
}

// runRerun does a stage again, or brings a revision into one that was added later, with the
// manifests as they are now.
func runRerun(ctx context.Context, a *app.App, name string, wanted pipeline.Rerun, flags inputFlags) error {
	var added *definition.Definition // of a pipeline with such a stage
	release := pipeline.Release{Revision: wanted.Revision}
	err := withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		return p.Ask(name, func(s *pipeline.State) error {
			_, err := s.Propose(wanted, a.Now())
			if refused := new(refusal.Error); !errors.As(err, &refused) || refused.Code != pipeline.CarriesNothing {
				return err
			}
			added = s.Definition()
			for _, r := range s.Registrations() {
				if r.Revision == wanted.Revision {
					release.Takes = r.Takes
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	if added != nil {
		if wanted.Carries, err = carry(ctx, a, added, release, flags); err != nil {
			return err
		}
	}
	return runRedo(ctx, a, name, wanted)
}

func runRedo(ctx context.Context, a *app.App, name string, wanted pipeline.Command) error {
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		events, err := p.Command(ctx, name, wanted)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(events, func(e deploylog.Event) bool { return record.RedoOf(e) != nil })
		started := events[i]
		info := record.RedoOf(started)
		done := fmt.Sprintf("stage %s of pipeline %s is done again with revision %s", info.Stage, name, started.Revision)
		if info.First {
			done = fmt.Sprintf("revision %s of pipeline %s is brought into stage %s", started.Revision, name, info.Stage)
		}
		if len(info.Hosts) > 0 {
			var hosts []string
			for _, t := range info.Hosts {
				hosts = append(hosts, string(t)[strings.LastIndexByte(string(t), '/')+1:])
			}
			const named = 5
			done += " on " + phrase.First(hosts, named)
		}
		if !a.JSON() {
			events = events[i : i+1]
		}
		return a.Recorded(map[string]any{"redo": info}, events, done, "")
	})
}
