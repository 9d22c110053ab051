package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	promotioncli "github.com/deployster-go/deployster/internal/cli/promotion"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline/record"
)

func newStatusCommand(a *app.App) *cobra.Command {
	return output.Pictures(session.Asked(a, &cobra.Command{
		Use:   "status [PIPELINE…]",
		Short: "Show the status of pipelines",
		Long: `Show the status of pipelines: what is deployed, has failed and is in progress, at
every stage and host group, where hosts are counted, and those named on which a revision
failed. Below is what does not move, and why. With --hosts it shows hosts, too, those of a
large group that are alike in one row; with --all every host and every reason, whole.

On a terminal it takes no more than a screen, and shows first what failed, waits or is in
progress: stages at which there is nothing of that share a row, and texts are cut (…). What
is piped, or --all shows, is neither cut nor shortened. As JSON, hosts come with --hosts;
of a long list it has what failed, waits or goes on first, and says how many entries it
leaves out (left_out), unless --all.

As a picture (--output svg, dot or mermaid) it takes one pipeline.`,
		Example: `  deployster pipeline status gateway
  deployster pipeline status --watch
  deployster pipeline status gateway --at 812
  deployster pipeline status gateway --output svg > gateway.svg`,
	}, runStatus, session.RegisterStatus(a, "show every host")))
}

// statuses are those of pipelines of both kinds.
func statuses(ctx context.Context, a *app.App, q session.Question, p *query.Pipelines, l *promotioncli.Levels, released, observed []string) (all []query.PipelineStatus, reports []promotioncli.Status, err error) {
	all = []query.PipelineStatus{}
	if len(released) > 0 {
		if all, err = p.Status(q.Hosts || a.All, a.All, released...); err != nil {
			return nil, nil, err
		}
	}
	if len(observed) > 0 {
		if err := l.Follow(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range observed {
		r, err := l.Status(name)
		if err != nil {
			return nil, nil, err
		}
		reports = append(reports, r)
	}
	return all, reports, nil
}

// whole registers --all.
func whole(a *app.App) func(*session.Question, *cobra.Command) {
	return func(_ *session.Question, c *cobra.Command) { a.RegisterWhole(c) }
}

func runStatus(ctx context.Context, a *app.App, q session.Question) error {
	return split(ctx, a, q.Names, q.At, func(p *query.Pipelines, l *promotioncli.Levels, released, observed []string) error {
		return q.Status(ctx, a, p, func() error {
			all, reports, err := statuses(ctx, a, q, p, l, released, observed)
			if q.At == 0 {
				p.Here(all, work.NewHosts(q.Inventory).Identity())
			}
			switch {
			case err != nil:
				return err
			case a.JSON() || a.Format == "text":
				document := map[string]any{"pipelines": query.Bound(all, a.All)}
				if len(reports) > 0 {
					document["promoting"] = reports
				}
				return a.Show(document, func() error {
					return a.Sections("no pipelines", len(all)+len(reports), func(i int) error {
						if i < len(all) {
							return view.Pipeline(a.Out, all[i], a.PlanOptions(a.Out))
						}
						return reports[i-len(all)].Print(a)
					})
				})
			}
			if err := onePicture(released, observed); err != nil {
				return err
			}
			return a.Draw(view.PipelinePicture(all[0]))
		})
	})
}

func newListCommand(a *app.App) *cobra.Command {
	return session.Asked(a, &cobra.Command{
		Use:     "list",
		Short:   "List the pipelines",
		Example: "  deployster pipeline list",
		Args:    cobra.NoArgs,
	}, runList)
}

func runList(ctx context.Context, a *app.App, q session.Question) error {
	return split(ctx, a, q.Names, q.At, func(p *query.Pipelines, l *promotioncli.Levels, _, _ []string) error {
		list, deleted := p.List()
		levels, err := l.List()
		if err != nil {
			return err
		}
		for _, row := range levels {
			delete(deleted, row.Name) // one of the other kind had the name before
		}
		rows := [][]string{{"PIPELINE", "STAGES", "DEPLOYED", "FAILED", "IN PROGRESS"}}
		for _, l := range list {
			rows = append(rows, []string{l.Name, fmt.Sprint(l.Stages), output.Dash(l.Deployed), output.Dash(l.Failed), output.Dash(view.Several(l.InProgress))})
		}
		for _, l := range levels {
			rows = append(rows, []string{l.Name, fmt.Sprint(l.Stages), output.Dash(l.Deployed), output.Dash(l.Failed), output.Dash(view.Several(l.InProgress))})
		}
		document := map[string]any{"pipelines": list, "deleted": deleted}
		if len(levels) > 0 {
			document["promoting"] = levels
		}
		return a.Show(document, func() error {
			if err := a.Table("no pipelines", rows); err != nil {
				return err
			}
			var texts []string
			for _, l := range list {
				for _, p := range l.Pauses {
					texts = append(texts, view.OneLine(fmt.Sprintf("%s: %s", p.Target, p.Message()), a.PlanOptions(a.Out)))
				}
			}
			if len(texts) > 0 {
				if err := a.Printf("%s\n", strings.Join(texts, "\n")); err != nil {
					return err
				}
			}
			if len(deleted) == 0 {
				return nil
			}
			texts = nil
			for _, name := range slices.Sorted(maps.Keys(deleted)) {
				texts = append(texts, fmt.Sprintf("%s (event %d)", name, deleted[name]))
			}
			return a.Printf("deleted: %s\n", strings.Join(texts, ", "))
		})
	})
}

func newHistoryCommand(a *app.App) *cobra.Command {
	return session.Asked(a, &cobra.Command{
		Use:   "history PIPELINE",
		Short: "List the revisions of a pipeline in the order of their release",
		Long: `List the revisions of a pipeline in the order of their release: by whom and when each
was released, when and how its deployment ended, how long that took, and why it ended so.

On a terminal the newest are listed for which there is room, and texts are cut (…):
--all lists every revision. What is piped is neither cut nor shortened.`,
		Example: "  deployster pipeline history gateway --last 20",
		Args:    arguments.Named("a pipeline"),
	}, runHistory, (*session.Question).RegisterLast, whole(a))
}

func runHistory(ctx context.Context, a *app.App, q session.Question) error {
	if is, err := promotioncli.History(ctx, a, q.Names[0], q.At, q.Last); is || err != nil {
		return err
	}
	return withPipelines(ctx, a, q.Names, q.At, func(p *query.Pipelines) error {
		releases, err := p.Releases(q.Names[0])
		if err != nil {
			return err
		}
		list := arguments.Last(releases, q.Last)
		rows := [][]string{{"REVISION", "STATUS", "RELEASED", "ENDED", "TOOK", "BY", "SINCE EVENT", "DEPLOYMENT", "WHY"}}
		for _, r := range list {
			ended, took := "", ""
			if !r.Ended.IsZero() {
				ended, took = phrase.Moment(r.Ended), r.Ended.Sub(r.Released).Round(100*time.Millisecond).String()
			}
			rows = append(rows, []string{
				r.Revision, string(r.Status), phrase.Moment(r.Released), output.Dash(ended), output.Dash(took), output.Dash(r.By), fmt.Sprint(r.Since), r.Deployment, output.Dash(r.Why()),
			})
		}
		withInputs(rows, list)
		const ended, event, deployment = 3, 6, 7
		return a.History(map[string]any{"pipeline": q.Names[0], "revisions": list}, "no revision was released", rows, event, deployment, ended)
	})
}

func newExplainCommand(a *app.App) *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Explain why a target of a pipeline is pending or blocked",
		Long: `Explain why everything at or below a target that makes no progress is pending or
blocked: with the event that is responsible, and the event that would change it.
It names the resources that revisions in progress will remove from hosts.

TARGET is a pipeline, or a target of one as the log has it:
  gateway, stage/gateway/prod, host-group/gateway/beta, host/gateway/beta/antworker001`,
		Example: "  deployster pipeline explain gateway\n  deployster pipeline explain stage/gateway/prod",
		Args:    arguments.Named("a target"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Target = deploylog.Target(args[0])
			if !strings.Contains(args[0], "/") {
				o.Target = record.Target(args[0])
			}
			if _, ok := record.NameOf(o.Target); !ok {
				return exit.Usage("%q is no target of a pipeline: it is a pipeline's name, or begins with pipeline/, stage/, host-group/ or host/", args[0])
			}
			return Explain(c.Context(), a, o)
		},
	}
	arguments.RegisterAt(c, &o.At)
	arguments.RegisterInventory(c, &o.Inventory)
	a.RegisterWhole(c)
	return c
}

// Options is what is to be explained.
type Options struct {
	Target    deploylog.Target
	At        int64  // the event after which it was so; 0 is now
	Inventory string // file
}

// mostNamed is how many resources a line of text names.
const mostNamed = 10

// Explain prints why something at or below a target of a pipeline does not move.
func Explain(ctx context.Context, a *app.App, o Options) error {
	if is, err := promotioncli.Explain(ctx, a, o.Target, o.At); is || err != nil {
		return err
	}
	return withPipelines(ctx, a, nil, o.At, func(p *query.Pipelines) error {
		reasons, err := p.Explain(o.Target, work.NewHosts(o.Inventory), o.At == 0)
		if err != nil {
			return err
		}
		texts, unknown := a.Texts()
		var removals query.Removals
		if unknown == nil {
			removals, unknown = p.Removals(ctx, o.Target, texts, a.All)
		}
		alike := query.AlikeReasons(reasons, a.All)
		bounded := query.Bounded{All: a.All}
		document := map[string]any{"target": o.Target, "event": p.Head(), "reasons": query.BoundReasons(&bounded, "reasons", alike), "removals": query.BoundRemovals(&bounded, "removals", removals)}
		if unknown != nil {
			document["removals_error"] = unknown.Error()
		}
		return a.Show(bounded.In(document), func() error {
			lines := removalLines(a, removals, unknown)
			opts := a.PlanOptions(a.Out)
			if opts.Height > 0 {
				opts.Height = max(2, opts.Height-len(lines))
			}
			if err := view.PipelineReasons(a.Out, o.Target, alike, opts); err != nil {
				return err
			}
			for _, line := range lines {
				if err := a.Printf("%s\n", view.Clean(line)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// mostRemovals is how many removals are shown as text unless all are.
const mostRemovals = 5

// removalLines are what revisions in progress are going to remove, and why that is not known as a whole.
func removalLines(a *app.App, removals query.Removals, unknown error) (lines []string) {
	for i, r := range removals.All {
		most := mostNamed
		if a.All {
			most = len(r.Resources)
		} else if i == mostRemovals {
			removals.More++
			break
		}
		lines = append(lines, fmt.Sprintf("revision %s removes from the hosts of stage %s what no step declares any more: %s", r.Revision, r.Stage, phrase.First(r.Resources, most)))
	}
	if removals.More > 0 {
		lines = append(lines, "there may be more removals: --all shows them")
	}
	if unknown != nil {
		lines = append(lines, "removals are not known: "+unknown.Error())
	}
	return lines
}
