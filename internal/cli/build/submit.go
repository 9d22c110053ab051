package build

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view/groups"
	"github.com/deployster-go/deployster/manifest"
)

type submitOptions struct {
	planOptions
	work     session.WorkerFlags
	listed   bool     // the inventory was named
	public   []string // variables that are no secrets
	unpinned bool
	failFast bool
	noReuse  bool
	maxLost  int
}

func newSubmitCommand(a *app.App) *cobra.Command {
	var o submitOptions
	c := &cobra.Command{
		Use:   "submit -f FILE",
		Short: "Queue a build group of packages that were touched, or of jobs",
		Long: `Queue a build group: the jobs that it takes to rebuild packages that were touched, and
all that needs them ("build plan" shows them), or a list of jobs. Nothing is built until
"build run" works it off.

The group carries what its jobs run, as it is now: the values of variables, the contents of
images, as the first worker that answers has or gets them, and the sources. Of secret
variables it carries only which file they are in, and a hash: there their values must stay
the same. What cannot be built, such as a package of which a source is missing, is listed
with what needs it, and the rest is built. Jobs that no worker can do now are warned of.

Through a server (--server), the workers are those of the server, which has or gets the
images; the definition, its variables and the sources are those here, and are sent. Files of
secret variables are not: the server must have the same ones.`,
		Example: `  deployster build submit -f packages.yaml --touched gcc,make
  deployster build submit -f jobs.yaml --fail-fast
  deployster build submit -f packages.yaml --var mirror=mirror.example --output json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c); err != nil {
				return err
			}
			if o.maxLost < 0 {
				return exit.Usage("--max-lost %d: it must not be negative", o.maxLost)
			}
			o.listed = c.Flags().Changed("inventory")
			return runSubmit(c.Context(), a, o)
		},
	}
	o.register(c)
	c.Flags().BoolVar(&o.failFast, "fail-fast", false, "begin nothing any more once a job has failed")
	c.Flags().BoolVar(&o.noReuse, "no-reuse", false, "build also what was built before of the same inputs")
	c.Flags().IntVar(&o.maxLost, "max-lost", build.DefaultMaxLost, "how often a job whose worker is lost begins again")
	arguments.RegisterInventory(c, &o.work.Inventory)
	o.work.Input.RegisterVariables(c)
	c.Flags().StringVar(&o.work.Engine.Pull, "pull", string(engine.PullMissing), "when to pull images: missing, always or never")
	_ = c.RegisterFlagCompletionFunc("pull", cobra.FixedCompletions([]string{"missing", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().StringArrayVar(&o.public, "allow-logged", nil, "a variable that is no secret, although a secret reads it, or its file is not of the workspace (repeatable)")
	c.Flags().BoolVar(&o.unpinned, "allow-unpinned", false, "use an image that cannot be had now as it is on each worker, instead of refusing it")
	return c
}

func runSubmit(ctx context.Context, a *app.App, o submitOptions) error {
	collected, err := collect(ctx, a, o)
	if err != nil {
		return err
	}
	if err := session.WarnUnread(a, collected.Unread, o.work.Input.Strict); err != nil {
		return err
	}
	for _, text := range collected.Warnings {
		fmt.Fprintf(a.Err, "warning: %s\n", output.InLine(text))
	}
	c := collected.Submit
	c.By, c.FailFast, c.NoReuse, c.MaxLost = app.Whoami(), o.failFast, o.noReuse, o.maxLost
	if len(c.Jobs) == 0 && len(c.Unbuildable) > 0 {
		if err := a.Show(map[string]any{"jobs": 0, "unbuildable": c.Unbuildable}, func() error { return printUnbuildable(a, c.Unbuildable) }); err != nil {
			return err
		}
		return exit.Usage("nothing of %s can be built, so there is no group", o.file)
	}
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	if err := texts.KeepAll(collected.Files); err != nil {
		return err
	}
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		groups := builds.New(log, a.Now)
		if err := groups.Follow(ctx, 0); err != nil {
			return err
		}
		events, err := groups.Command(ctx, c)
		if err != nil {
			return err
		}
		return printSubmitted(a, events, collected, next(a, o, events[0].Deployment))
	})
}

// collect collects what the group is to carry.
func collect(ctx context.Context, a *app.App, o submitOptions) (collected *submission.Collected, err error) {
	text, err := manifest.ReadFile(o.file, definition.MaxSize)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	policy, err := o.work.Engine.Policy()
	if err != nil {
		return nil, err
	}
	texts, err := a.Texts()
	if err != nil {
		return nil, err
	}
	to, err := openTarget(ctx, a, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	collector := &submission.Collector{
		Inputs: session.Inputs(a, o.work.Input), Texts: texts, Artifacts: to.artifacts, Workers: to.workers, Engine: to.engine,
		Contents: to.contents, Policy: policy, Platform: to.platform, Unpinned: o.unpinned, Public: o.public, Own: a.NewID(),
	}
	err = interrupt.Within(ctx, func(ctx context.Context) error {
		collected, err = collector.Collect(ctx, submission.Request{
			File: o.file, Name: nameOf(a.Workspace, o.file), Text: text, Touched: o.touched, Converge: o.converge,
		})
		return err
	})
	if err == nil {
		for i := range collected.Submit.Places {
			collected.Submit.Places[i].Inventory = to.inventory
		}
	}
	return collected, err
}

// nameOf is the path of a file below the workspace, or else its absolute one.
func nameOf(workspace, file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	if below, err := filepath.Rel(workspace, abs); err == nil && filepath.IsLocal(below) {
		return filepath.ToSlash(below)
	}
	return abs
}

func printSubmitted(a *app.App, events []deploylog.Event, collected *submission.Collected, next string) error {
	c, id, last := collected.Submit, events[0].Deployment, events[len(events)-1].Seq
	document := map[string]any{
		"group": id, "event": last, "jobs": len(c.Jobs), "places": c.Places, "commit": c.Commit, "source": c.Source,
		"unbuildable": append([]record.Unbuildable{}, c.Unbuildable...), "images": append([]submission.Pinned{}, collected.Images...),
		"sources": append([]submission.Kept{}, collected.Sources...), "plugs": append([]submission.Plugged{}, collected.Plugs...), "warnings": append([]string{}, collected.Warnings...),
	}
	return a.Show(document, func() error {
		text := fmt.Sprintf("build group %s is submitted: %s (event %d)\n", id, jobsOf(c.Jobs), last)
		for _, i := range collected.Images {
			text += fmt.Sprintf("  image %s for %s %s\n", output.InLine(i.Image.Image), i.Platform, output.InLine(described(i)))
		}
		if len(collected.Sources) > 0 {
			size := int64(0)
			for _, kept := range collected.Sources {
				size += kept.Size
			}
			of := groups.Source(c.Source)
			if of != "" {
				of = "," + of
			}
			text += fmt.Sprintf("  sources in %s, %s%s\n", phrase.Count(len(collected.Sources), "artifact"), phrase.Size(size), of)
		}
		for _, p := range collected.Plugs {
			text += fmt.Sprintf("  plug %s holds %s, %s: %s\n", output.InLine(p.Path), phrase.Count(p.Files, "file"), phrase.Size(p.Bytes), p.Hash)
		}
		if err := a.Printf("%s", text); err != nil {
			return err
		}
		if len(c.Unbuildable) > 0 {
			if err := a.Printf("\n"); err != nil {
				return err
			}
			if err := printUnbuildable(a, c.Unbuildable); err != nil {
				return err
			}
			if err := a.Printf("\n"); err != nil {
				return err
			}
		}
		return a.Printf("%s\n", next)
	})
}

// next is what a group waits for that is submitted: a server builds by itself.
func next(a *app.App, o submitOptions, group string) string {
	if a.Server() != "" {
		return "the server builds it: deployster build status " + group
	}
	run := "deployster build run"
	if o.listed {
		run += " --inventory " + output.ShellWord(o.work.Inventory)
	}
	return "nothing is built yet: " + run + "; deployster build status " + group
}

// described says in words which content an image has.
func described(i submission.Pinned) string {
	switch {
	case i.Unpinned != "":
		return "is unpinned: " + i.Unpinned
	case i.Digest != "":
		return "is " + i.Digest
	default:
		return "is " + i.ID + ", of no registry"
	}
}

func printUnbuildable(a *app.App, all []record.Unbuildable) error {
	rows := [][]string{{"UNBUILDABLE", "CAUSE"}}
	for _, u := range all {
		rows = append(rows, []string{u.Package, u.Cause})
	}
	return a.Table("", rows)
}

// jobsOf is how many jobs a group has, and of how many packages where that is not as many, as
// it is of a list of jobs.
func jobsOf(jobs []record.JobSpec) string {
	packages := map[string]bool{}
	for _, j := range jobs {
		packages[j.Package] = true
	}
	text := phrase.Count(len(jobs), "job")
	if len(packages) == len(jobs) {
		return text
	}
	return text + " of " + phrase.Count(len(packages), "package")
}
