// Package logs is the commands of the deployment log.
package logs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
)

// exportVersion is the version of the form of log export.
const exportVersion = 1

func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Ask the deployment log what happened",
		Long: `Ask the deployment log what happened. It is append-only and the only source
of truth: every run of every process on this workspace is in it.`,
		Example: `  deployster log list --deployment 01JD3K…
  deployster log runs --last 10
  deployster log latest resource/db
  deployster log follow --target resource/
  deployster log verify`,
		Args: arguments.NoSuchSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newListCommand(a), newRunsCommand(a), newLatestCommand(a), newFollowCommand(a), newVerifyCommand(a), newExportCommand(a))
	return c
}

type filterFlags struct {
	deployment, target, event, since string
	last                             int
	utc                              bool
	follow                           bool // not a flag: what comes later counts, too
}

func (f *filterFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.deployment, "deployment", "", "only events of this deployment (a run's id)")
	c.Flags().StringVar(&f.target, "target", "", `only events of this target, such as resource/db; "resource/" is all resources`)
	c.Flags().StringVar(&f.event, "event", "", "only events of this name, such as action-failed")
	c.Flags().StringVar(&f.since, "since", "", "only events since then: a time (2026-01-31T15:04:05Z), a date, or how long ago (90m)")
	c.Flags().IntVar(&f.last, "last", 0, "only the newest N (0 is all)")
	registerUTC(c, &f.utc)
}

func registerUTC(c *cobra.Command, into *bool) {
	c.Flags().BoolVar(into, "utc", false, "show times in UTC instead of the local time zone")
}

func filter(a *app.App, f filterFlags) (deploylog.Filter, error) {
	filter := deploylog.Filter{
		Deployment: f.deployment, Target: deploylog.Target(f.target), Name: f.event, Last: f.last,
	}
	if f.last < 0 {
		return filter, exit.Usage("--last %d: it must not be negative", f.last)
	}
	var err error
	filter.Since, err = since(a, f.since)
	return filter, err
}

// since reads a time that somebody typed; "" is the zero time.
func since(a *app.App, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return a.Now().Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, exit.Usage("--since %q: it must be a time such as 2026-01-31T15:04:05Z, a date, or how long ago such as 90m", text)
}

// clock is a time as people read it, with its zone.
func clock(t time.Time, utc bool) string {
	if utc {
		t = t.UTC()
	} else {
		t = t.Local()
	}
	return t.Format("2006-01-02 15:04:05.000Z07:00")
}

func newListCommand(a *app.App) *cobra.Command {
	var flags filterFlags
	c := &cobra.Command{
		Use:     "list",
		Short:   "List events, oldest first",
		Example: "  deployster log list --target resource/db --last 20\n  deployster log list --event action-failed --since 24h --output json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return readLog(c.Context(), a, flags, func(ctx context.Context, l deploylog.Log, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
				return l.Read(ctx, f)
			})
		},
	}
	flags.register(c)
	return c
}

func newFollowCommand(a *app.App) *cobra.Command {
	flags := filterFlags{follow: true}
	c := &cobra.Command{
		Use:     "follow",
		Short:   "Print events as they are appended, by any process, until interrupted",
		Example: "  deployster log follow --target run/ --last 5",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return readLog(ctx, a, flags, func(ctx context.Context, l deploylog.Log, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
				return l.Watch(ctx, f)
			})
		},
	}
	flags.register(c)
	return c
}

func readLog(ctx context.Context, a *app.App, flags filterFlags,
	read func(context.Context, deploylog.Log, deploylog.Filter) iter.Seq2[deploylog.Event, error],
) error {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	filter, err := filter(a, flags)
	if err != nil {
		return err
	}
	log, _, err := a.ExistingLog(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if flags.follow {
		if err := unknownFilter(ctx, a, log, filter, true); err != nil {
			return err
		}
	}
	any, who := false, doers{log: log, by: map[string]string{}}
	for e, err := range read(ctx, log, filter) {
		if err != nil {
			return err
		}
		any = true
		if err := printEvent(ctx, a, e, &who, flags.utc, asJSON); err != nil {
			return err
		}
	}
	if any || flags.follow {
		return nil
	}
	return unknownFilter(ctx, a, log, filter, false)
}

func printEvent(ctx context.Context, a *app.App, e deploylog.Event, who *doers, utc, asJSON bool) error {
	if asJSON {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encoding event %d: %w", e.Seq, err)
		}
		return a.Printf("%s\n", text)
	}
	by, err := who.of(ctx, e)
	if err != nil {
		return err
	}
	return a.Printf("%6d  %s  %s  %-14s  %-32s %-26s%s\n", e.Seq, clock(e.CreatedAt, utc), e.Deployment, by, e.Name, e.Target, summary(e))
}

// summary picks from an event's data what a person asks for first.
func summary(e deploylog.Event) string {
	var data struct {
		Status  string   `json:"status"`
		Actions []string `json:"actions"`
		Exit    *int     `json:"exit_code"`
		Took    *float64 `json:"duration_ms"`
		Error   string   `json:"error"`
	}
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	var parts []string
	if data.Status != "" {
		parts = append(parts, data.Status)
	}
	if len(data.Actions) > 0 {
		parts = append(parts, "actions "+strings.Join(data.Actions, ", "))
	}
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if data.Exit != nil {
		parts = append(parts, fmt.Sprintf("exit %d", *data.Exit))
	}
	if data.Took != nil {
		parts = append(parts, fmt.Sprintf("%.1fs", *data.Took/1000))
	}
	if data.Error != "" {
		first, _, _ := strings.Cut(data.Error, "\n")
		parts = append(parts, first)
	}
	if len(parts) == 0 {
		return ""
	}
	return "  " + output.PlainText(strings.Join(parts, " · "))
}

func newLatestCommand(a *app.App) *cobra.Command {
	var utc bool
	c := &cobra.Command{
		Use:   "latest TARGET",
		Short: "Tell what of a target succeeded last, failed last, and is in progress",
		Long: `Tell what of a target succeeded last, failed last, and is in progress.
Targets are run/MANIFEST, resource/NAME and action/RESOURCE/ACTION. "Last" is by
the order in which deployments were begun. What a destroy did has no revision.

What was started of an environment or a task is no longer in progress once the
environment is deleted or the task terminated; nor is what a deployment of a
pipeline had started, once that has ended, was cancelled, or the pipeline deleted.`,
		Example: "  deployster log latest resource/db\n  deployster log latest run/web.yaml --output json",
		Args: cobra.MatchAll(func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !strings.Contains(args[0], "/") {
				return exit.Usage(`latest takes one target, such as resource/db or run/web.yaml`)
			}
			return nil
		}),
		RunE: func(c *cobra.Command, args []string) error {
			return latest(c.Context(), a, deploylog.Target(args[0]), utc)
		},
	}
	registerUTC(c, &utc)
	return c
}

func latest(ctx context.Context, a *app.App, target deploylog.Target, utc bool) error {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	log, path, err := a.ExistingLog(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	var answer struct {
		Target     deploylog.Target  `json:"target"`
		Succeeded  *deploylog.Event  `json:"succeeded"`
		Failed     *deploylog.Event  `json:"failed"`
		InProgress []deploylog.Event `json:"in_progress"`
	}
	answer.Target, answer.InProgress = target, []deploylog.Event{}
	for outcome, into := range map[deploylog.Outcome]**deploylog.Event{
		deploylog.Succeeded: &answer.Succeeded, deploylog.Failed: &answer.Failed,
	} {
		e, ok, err := log.Latest(ctx, target, outcome)
		if err != nil {
			return err
		}
		if ok {
			*into = &e
		}
	}
	started, err := log.InProgress(ctx, target)
	if err != nil {
		return err
	}
	open, err := unended(ctx, log, target, started)
	if err != nil {
		return err
	}
	answer.InProgress = append(answer.InProgress, open...)
	if asJSON {
		text, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("encoding the answer: %w", err)
		}
		return a.Printf("%s\n", text)
	}
	if answer.Succeeded == nil && answer.Failed == nil && len(started) == 0 {
		names, err := namesIn(ctx, log)
		if err != nil {
			return err
		}
		return fmt.Errorf("the log at %s knows nothing of %s%s", path, target, cmp.Or(names.likeTarget(target), "; `deployster log list` shows what it knows"))
	}
	show := func(label string, e *deploylog.Event) error {
		if e == nil {
			return a.Printf("%-12s –\n", label)
		}
		revision := "revision " + e.Revision
		if e.Revision == "" { // what is gone has none
			revision = "destroy"
		}
		return a.Printf("%-12s %s  %s  %s  event %d%s\n", label, e.Deployment, revision, clock(e.CreatedAt, utc), e.Seq, summary(*e))
	}
	if err := errors.Join(show("succeeded", answer.Succeeded), show("failed", answer.Failed)); err != nil {
		return err
	}
	if len(open) == 0 {
		return show("in progress", nil)
	}
	for i := range open {
		if err := show("in progress", &open[i]); err != nil {
			return err
		}
	}
	unfinished, err := runs.UnfinishedRuns(ctx, log, target)
	if err != nil {
		return err
	}
	for _, u := range unfinished {
		if !u.Alive && u.Target.Kind() == "run" {
			if err := a.Printf("%-12s %s\n", "", view.Clean(engines.UnfinishedText(u))); err != nil {
				return err
			}
		}
	}
	return nil
}

func newExportCommand(a *app.App) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the whole log as NDJSON",
		Long: `Write the whole log as NDJSON: a first line with the version of the form and
the id of the log, then one event per line.`,
		Example: "  deployster log export --file deployments.ndjson",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, _, err := a.ExistingLog(c.Context())
			if err != nil {
				return err
			}
			defer func() { _ = log.Close() }()
			if file == "" {
				return export(c.Context(), log, a.Out)
			}
			return exportFile(c.Context(), log, file)
		},
	}
	c.Flags().StringVar(&file, "file", "", "write to this file instead of standard output")
	return c
}

// exportFile writes the export beside its place and moves it there when it is
// whole.
func exportFile(ctx context.Context, log deploylog.Log, path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := export(ctx, log, f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	return nil
}

func export(ctx context.Context, log deploylog.Log, f *os.File) error {
	encoder := json.NewEncoder(f)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"version": exportVersion, "log": log.ID()}); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	for e, err := range log.Read(ctx, deploylog.Filter{}) {
		if err != nil {
			return err
		}
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("exporting event %d: %w", e.Seq, err)
		}
	}
	return nil
}
