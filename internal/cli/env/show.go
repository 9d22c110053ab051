package env

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

func newStatusCommand(a *app.App) *cobra.Command {
	check := false
	return session.Asked(a, &cobra.Command{
		Use:   "status [NAME…]",
		Short: "Show the status of environments",
		Long: `Show the status of environments: of every revision, how many tasks are desired and
current. Of the active revision, healthy tasks count. Below is whether it is
paused, why it is stuck, and which hosts are unhealthy; or all hosts (--hosts).

  Created      nothing of it was deployed yet
  Deploying    its tasks are being started
  Active       all its tasks run and are healthy, but for exceptions that max_failed
               allows and that are tried again; a host that joins gets one, too
  Degraded     it is active, with fewer healthy tasks than its minimum
  Undeploying  its tasks are being stopped, because another revision is deployed
  Inactive     its tasks are stopped
  Stuck        its deployment made no progress for too long; it is retried
  Reverting    its tasks are being stopped by a rollback to an earlier revision
  Reverted     its tasks are stopped

With --check the command exits with 2 when an environment is Degraded or Stuck, failed in
its bake, or has fewer healthy hosts than its minimum while one revision replaces another;
so a monitor can run it.`,
		Example: "  deployster env status shop/prod\n  deployster env status --watch\n  deployster env status shop/prod --at 812 --hosts\n  deployster env status shop/prod --check",
	}, func(ctx context.Context, a *app.App, q session.Question) error { return runStatus(ctx, a, q, check) },
		session.RegisterStatus(a, "show every host with its tasks"), func(_ *session.Question, c *cobra.Command) {
			c.Flags().BoolVar(&check, "check", false, "exit with 2 when an environment is Degraded or Stuck, or failed in its bake")
			c.MarkFlagsMutuallyExclusive("check", "watch")
		})
}

// sick reports whether an environment is not as healthy as it should be.
func sick(r report.Report) bool {
	replaced := false // a first deployment has no minimum yet
	for _, row := range r.Rows {
		switch row.Status {
		case report.Degraded, report.Stuck:
			return true
		case report.Undeploying, report.Reverting:
			replaced = true
		default:
		}
	}
	return r.Deployment != nil && r.Deployment.BakeFailed != "" || replaced && r.Healthy < r.Minimum
}

func runStatus(ctx context.Context, a *app.App, q session.Question, check bool) error {
	return withEnvironments(ctx, a, q.Names, q.At, func(e *query.Environments) error {
		here := hostsNow(q)
		return q.Status(ctx, a, e, func() error {
			reports, err := e.Status(q.Names...)
			if err != nil {
				return err
			}
			if here != nil {
				identify(a, e, q.Inventory)
			}
			for i := range reports {
				reports[i].Baking = reports[i].Baking && (q.At > 0 || a.Now().Before(reports[i].Deployment.BakeUntil))
				if here != nil {
					reports[i].LeftOut = leftOut(e, reports[i].Environment, here)
				}
			}
			err = a.Show(map[string]any{"environments": reports}, func() error {
				return a.Sections("no environments", len(reports), func(i int) error {
					if err := view.Environment(a.Out, reports[i], q.Hosts || a.All, a.PlanOptions(a.Out)); err != nil || here == nil {
						return err
					}
					if left := reports[i].LeftOut; left != nil {
						return a.Printf("%s\n  → %s\n", view.Clean(left.Cause), freed)
					}
					if why := e.Elsewhere(reports[i].Environment, here.Identity()); why != nil {
						return a.Printf("%s\n  → %s\n", view.Clean(why.Message), view.Clean(why.Change))
					}
					return nil
				})
			})
			if err == nil && check && slices.ContainsFunc(reports, sick) {
				return exit.Reported(exit.ErrUnhealthy)
			}
			return err
		})
	})
}

// hostsNow are those that there are here at present; nil where the past is asked for.
func hostsNow(q session.Question) *work.Hosts {
	if q.At != 0 {
		return nil
	}
	return work.NewHosts(q.Inventory)
}

type listOptions struct {
	prefix   string
	orphans  bool
	statuses []string
}

func newListCommand(a *app.App) *cobra.Command {
	var o listOptions
	return session.Asked(a, &cobra.Command{
		Use:   "list",
		Short: "List the environments",
		Long: `List the environments that are not deleted, each with its active revision, or the
newest where none was deployed; or the tasks that deleted environments left running
(--orphans), which "env clean" terminates.`,
		Example: "  deployster env list\n  deployster env list --prefix shop/ --status Stuck,Deploying",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *app.App, q session.Question) error { return runList(ctx, a, q, o) }, o.register)
}

func (o *listOptions) register(_ *session.Question, c *cobra.Command) {
	var known []string
	for _, s := range report.RevisionStatuses() {
		known = append(known, string(s))
	}
	c.Flags().StringVar(&o.prefix, "prefix", "", "only environments whose name begins with this, such as shop/")
	c.Flags().StringSliceVar(&o.statuses, "status", nil, "only environments with one of these statuses: "+strings.Join(known, ", "))
	c.Flags().BoolVar(&o.orphans, "orphans", false, "list the tasks that deleted environments left running instead")
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

// wanted are the statuses that are asked for, in whatever case they are typed.
func (o *listOptions) wanted() (wanted []report.RevisionStatus, err error) {
	known := report.RevisionStatuses()
	if o.statuses != nil && len(o.statuses) == 0 {
		return nil, exit.Usage("--status must not be empty: it is one of %s", strings.Trim(fmt.Sprint(known), "[]"))
	}
	for _, text := range o.statuses {
		i := slices.IndexFunc(known, func(s report.RevisionStatus) bool { return strings.EqualFold(string(s), text) })
		if i < 0 {
			return nil, exit.Usage("--status %q: it must be one of %s", text, strings.Trim(fmt.Sprint(known), "[]"))
		}
		wanted = append(wanted, known[i])
	}
	return wanted, nil
}

func runList(ctx context.Context, a *app.App, q session.Question, o listOptions) error {
	statuses, err := o.wanted()
	if err != nil {
		return err
	}
	if o.orphans && len(statuses) > 0 {
		return exit.Usage("--orphans lists tasks of deleted environments, which have no --status")
	}
	return withEnvironments(ctx, a, q.Names, q.At, func(e *query.Environments) error {
		if o.orphans {
			return listOrphans(a, e.Orphans(o.prefix))
		}
		list := e.List(o.prefix, statuses...)
		rows := [][]string{{"NAME", "REVISION", "STATUS", "DESIRED", "CURRENT", "HOSTS"}}
		for _, l := range list {
			rows = append(rows, []string{l.Name, strconv.Itoa(l.Revision), string(l.Status), strconv.Itoa(l.Desired), strconv.Itoa(l.Current), output.InLine(l.Query)})
		}
		none := "no environments"
		if o.prefix != "" || len(statuses) > 0 {
			none = "no environment is like that"
		}
		return a.List(map[string]any{"environments": list}, none, rows)
	})
}

func listOrphans(a *app.App, list []query.OrphanRow) error {
	rows := [][]string{{"ENVIRONMENT", "HOST", "TASK", "LEFT"}}
	for _, o := range list {
		left := fmt.Sprintf("event %d", o.Seq)
		switch {
		case o.Cleaning:
			left = "being terminated"
		case o.Lost:
			left += ", host not in the inventory"
		}
		rows = append(rows, []string{o.Name, output.InLine(o.Host), output.InLine(o.Target), left})
	}
	return a.List(map[string]any{"orphans": list}, "no task was left running", rows)
}

func newRevisionsCommand(a *app.App) *cobra.Command {
	return session.Asked(a, &cobra.Command{
		Use:     "revisions NAME",
		Short:   "List the revisions of an environment, and what changed in each",
		Example: "  deployster env revisions shop/prod",
		Args:    arguments.Named("an environment"),
	}, runRevisions, whole(a))
}

func runRevisions(ctx context.Context, a *app.App, q session.Question) error {
	return withEnvironments(ctx, a, q.Names, q.At, func(e *query.Environments) error {
		revisions, err := reconcile.Get(e.Fold, q.Names[0], (*environment.State).Revisions)
		if err != nil {
			return err
		}
		rows := [][]string{{"REVISION", "BASE", "BY", "CREATED", "CHANGED"}}
		for _, r := range revisions {
			base, changed := "", ""
			if r.Base > 0 && r.Base <= len(revisions) {
				base = strconv.Itoa(r.Base)
				changed = strings.Join(view.DefinitionChanges(revisions[r.Base-1].Definition, r.Definition), "; ")
			}
			rows = append(rows, []string{
				strconv.Itoa(r.Number), output.Dash(base), output.Dash(output.InLine(r.By)), phrase.Moment(r.CreatedAt), output.Dash(output.InLine(changed)),
			})
		}
		return a.History(map[string]any{"environment": q.Names[0], "revisions": revisions}, "no revisions", rows)
	})
}

// whole registers --all.
func whole(a *app.App) func(*session.Question, *cobra.Command) {
	return func(_ *session.Question, c *cobra.Command) { a.RegisterWhole(c) }
}

type showOptions struct {
	name     string
	revision int // 0 is the newest
	at       int64
}

func newShowCommand(a *app.App) *cobra.Command {
	var o showOptions
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Print the definition of a revision, and what it carries",
		Long: `Print the definition of a revision, as a file that "env create" and "env update"
take, with the hashes of the files that the revision carries, and its variables. It says
who accepted it (env accept), and which next one waits to be accepted; --revision shows that
one, too. It notes if the environment is deleted.`,
		Example: "  deployster env show shop/prod\n  deployster env show shop/prod --revision 3 > prod.yaml",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("revision") && o.revision < 1 {
				return exit.Usage("--revision %d: revisions are numbered from 1", o.revision)
			}
			o.name = args[0]
			return runShow(c.Context(), a, o)
		},
	}
	arguments.RegisterAt(c, &o.at)
	c.Flags().IntVar(&o.revision, "revision", 0, "revision to show (default: the newest)")
	return c
}

func runShow(ctx context.Context, a *app.App, o showOptions) error {
	return withEnvironments(ctx, a, []string{o.name}, o.at, func(e *query.Environments) error {
		r, asked, err := e.Shown(o.name, o.revision)
		if err != nil {
			return err
		}
		report, err := reconcile.Get(e.Fold, o.name, (*environment.State).Report)
		if err != nil {
			return err
		}
		texts, err := a.Texts()
		if err != nil {
			return err
		}
		document := map[string]any{"environment": o.name, "revision": r}
		if asked != nil {
			document["asked"] = asked
		}
		if variables, err := texts.Variables(r.Definition.Task.Includes); err == nil && variables != nil {
			document["variables"] = variables
		}
		if images, err := texts.Images(r.Definition.Task.Includes); err == nil && images != nil {
			document["images"] = images
		}
		if omitted, err := texts.Omitted(r.Definition.Task.Includes); err == nil && omitted != nil {
			document["omitted"] = omitted
		}
		if report.Deleted {
			document["deleted"] = true
		}
		left := ""
		if n := len(report.Orphans); n > 0 {
			document["orphans"] = report.Orphans
			left = fmt.Sprintf("; %s left running: deployster env list --orphans", phrase.Count(n, "task"))
		}
		return a.Show(document, func() error {
			if report.Deleted {
				fmt.Fprintf(a.Err, "note: environment %s is deleted; this is its revision %d%s\n", o.name, r.Number, left)
			}
			return a.Printf("%s%s%s", r.Definition.YAML(), a.Wrapped(carriedText(texts, r.Definition)), a.Wrapped(acceptanceText(r, asked)))
		})
	})
}

// acceptanceText is who accepted a revision, and which one waits to be accepted, as comments of a definition.
func acceptanceText(r report.Revision, asked *report.Asked) (text string) {
	if by := r.Accepted; by != nil {
		text = fmt.Sprintf("# %s asked for it, and %s accepted it.\n", output.InLine(r.By), output.InLine(by.By))
	}
	if asked != nil {
		text += fmt.Sprintf("# %s asks for revision %d (event %d), which is not made: %s\n", output.InLine(asked.By), asked.Revision, asked.Seq, output.InLine(asked.Cause()))
	}
	return text
}

// carriedText is what a revision carries, as comments of a definition.
func carriedText(texts work.Texts, d *definition.Definition) string {
	text := "# The revision carries:\n" + output.Carried("#   ", texts, work.TaskFiles(d.Task))
	if d.Task.Includes == nil {
		text += "# What the manifest includes is read when it is applied: an older version made the revision.\n"
	}
	if files := d.Deployment.VerifyFiles; len(files) > 0 {
		text += "# To verify its steps:\n" + output.Carried("#   ", texts, files)
	}
	return text
}

type diffOptions struct {
	name     string
	from, to int
}

func newDiffCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "diff NAME A B",
		Short: "Show how two revisions differ",
		Long: `Show how two revisions differ: their definitions, the manifests of their tasks and the
variables as they were when the revisions were made. On a terminal as much as it shows
at once, as JSON the first 1000 lines, and how much is left out: --all shows everything.`,
		Example: "  deployster env diff shop/prod 3 4",
		Args:    arguments.Named("an environment", "a revision", "a revision"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o := diffOptions{name: args[0]}
			for i, number := range []*int{&o.from, &o.to} {
				if *number, err = strconv.Atoi(args[1+i]); err != nil || *number < 1 {
					return exit.Usage("%q is no revision: they are numbered from 1", args[1+i])
				}
			}
			return runDiff(c.Context(), a, o)
		},
	}
	a.RegisterWhole(c)
	return c
}

func runDiff(ctx context.Context, a *app.App, o diffOptions) error {
	return withEnvironments(ctx, a, []string{o.name}, 0, func(e *query.Environments) error {
		texts, err := a.Texts()
		if err != nil {
			return err
		}
		d, err := e.Differences(o.name, o.from, o.to, texts)
		if err != nil {
			return err
		}
		bounded := query.Bounded{All: a.All}
		document := map[string]any{
			"environment": o.name, "from": o.from, "to": o.to, "manifest": bounded.Text("manifest", d.Manifest), "differences": query.First(&bounded, "differences", d.Definition),
		}
		return a.Show(bounded.In(document), func() error {
			if len(d.Definition) == 0 {
				return a.Printf("revisions %d and %d of %s do not differ\n", o.from, o.to, o.name)
			}
			return view.RevisionDifferences(a.Out, d.Before.Definition, d.After.Definition, d.Manifest, a.PlanOptions(a.Out))
		})
	})
}

func newHistoryCommand(a *app.App) *cobra.Command {
	return session.Asked(a, &cobra.Command{
		Use:     "history NAME",
		Short:   "List the deployments of an environment, oldest first",
		Example: "  deployster env history shop/prod --last 20",
		Args:    arguments.Named("an environment"),
	}, runHistory, (*session.Question).RegisterLast, whole(a))
}

func runHistory(ctx context.Context, a *app.App, q session.Question) error {
	return withEnvironments(ctx, a, q.Names, q.At, func(e *query.Environments) error {
		all, err := reconcile.Get(e.Fold, q.Names[0], (*environment.State).Deployments)
		if err != nil {
			return err
		}
		list := arguments.Last(all, q.Last)
		rows := [][]string{{"DEPLOYMENT", "KIND", "STATUS", "STARTED", "TOOK", "BY", "REASON"}}
		for _, d := range list {
			kind, took := output.InLine(string(d.Kind)), ""
			if d.Automatic {
				kind = "automatic " + kind
			}
			if !d.Ended.IsZero() {
				took = d.Ended.Sub(d.Started).Round(100 * time.Millisecond).String()
			}
			rows = append(rows, []string{
				d.ID, kind, statusOf(d), phrase.Moment(d.Started), output.Dash(took), output.Dash(output.InLine(d.By)), output.Dash(output.InLine(d.Reason)),
			})
		}
		const started = 3 // which the name of the deployment says, too
		return a.History(map[string]any{"environment": q.Names[0], "deployments": list}, "nothing was deployed", rows, started)
	})
}

// statusOf is the status of a deployment, with how many exceptions it finished.
func statusOf(d report.Deployment) string {
	if d.Exceptions == 0 {
		return string(d.Status)
	}
	return fmt.Sprintf("%s, %s", d.Status, phrase.Count(d.Exceptions, "exception"))
}
