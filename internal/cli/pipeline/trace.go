package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
)

func newTraceCommand(a *app.App) *cobra.Command {
	var at int64
	var pipeline string
	c := &cobra.Command{
		Use:   "trace REVISION",
		Short: "Show the way of a revision through pipelines",
		Long: `Show the way of a revision from its commit through its build to each stage: when it came
there, who approved it, by which pull request, and how long it stayed.

REVISION is the name of a revision, or the beginning of that, of its digest, or of a commit
of which it was built (4 characters at least). All pipelines of the log that have it are
shown, whether they release revisions or promote them by observed state.`,
		Example: "  deployster pipeline trace 1.4.2\n  deployster pipeline trace 3f2a9c1 --pipeline shop",
		Args:    arguments.Named("a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			return runTrace(c.Context(), a, args[0], pipeline, at)
		},
	}
	c.Flags().StringVar(&pipeline, "pipeline", "", "only this pipeline (default: all)")
	arguments.RegisterAt(c, &at)
	return c
}

func runTrace(ctx context.Context, a *app.App, revision, pipeline string, at int64) error {
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		traces, err := query.TraceRevision(ctx, log, revision, pipeline, at, a.Now())
		if err != nil {
			return err
		}
		return a.Show(map[string]any{"revision": revision, "traces": traces}, func() error {
			for i, t := range traces {
				if i > 0 {
					if err := a.Printf("\n"); err != nil {
						return err
					}
				}
				if err := printTrace(a, t); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func printTrace(a *app.App, t query.Trace) error {
	if err := a.Printf("%s", a.Wrapped(traceHead(t))); err != nil {
		return err
	}
	rows := [][]string{{"STAGE", "STATUS", "BEGAN", "REACHED", "TOOK", "STAYED", "APPROVED BY", "PULL REQUEST", "WHY"}}
	for _, s := range t.Stages {
		cause, _, _ := strings.Cut(s.Cause, "\n")
		stayed := lasted(s.StayedMS, !s.Seen.IsZero())
		if stayed != "" && s.Left.IsZero() {
			stayed += ", still"
		}
		rows = append(rows, []string{
			s.Stage, s.Status, moment(s.Began), moment(s.Seen), output.Dash(lasted(s.TookMS, s.TookMS > 0)), output.Dash(stayed),
			output.Dash(approvedBy(s.Approvals)), output.Dash(s.PullRequest), output.Dash(cause),
		})
	}
	return a.Table("no stages", rows)
}

func traceHead(t query.Trace) string {
	how := "released"
	if t.Promoted {
		how = "first seen"
	}
	text := fmt.Sprintf("revision %s of pipeline %s: %s, %s %s", t.Revision, t.Pipeline, t.Status, how, phrase.Moment(t.Released))
	if t.By != "" {
		text += " by " + t.By
	}
	if !t.Ended.IsZero() {
		text += ", ended " + phrase.Moment(t.Ended)
	}
	text += "\n"
	for _, c := range t.Commits {
		text += "  commit " + c.Commit
		if c.Repository != "" {
			text += " of " + c.Repository
		}
		if c.Group != "" {
			text += ", built by group " + c.Group
			if !c.Exact {
				text += ", with changes or unknown files"
			}
		}
		text += "\n"
	}
	for _, kind := range slices.Sorted(maps.Keys(t.Artifacts)) {
		text += fmt.Sprintf("  artifact %s %s\n", kind, t.Artifacts[kind])
	}
	for _, in := range t.Inputs {
		text += fmt.Sprintf("  takes %s\n", in)
	}
	return text
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return phrase.Moment(t)
}

func lasted(ms int64, known bool) string {
	if !known {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func approvedBy(all []query.TracedApproval) string {
	var texts []string
	for _, a := range all {
		text := a.By
		if a.Rejected {
			text += " (rejected)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
