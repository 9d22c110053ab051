package pipeline

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	promotioncli "github.com/deployster-go/deployster/internal/cli/promotion"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// inputFlags are the flags of what makes revisions, or brings manifests to some.
type inputFlags struct {
	session.WorkerFlags
	public   []string // variables that are no secrets
	unpinned bool     // images whose contents are not known need not be carried
}

func newReleaseCommand(a *app.App) *cobra.Command {
	var flags inputFlags
	var fix, pending bool
	var inputs []string
	c := &cobra.Command{
		Use:   "release PIPELINE REVISION",
		Short: "Register a revision and start its deployment",
		Long: `Register a revision and start its deployment. Revisions go through the pipeline
in the order in which they are released, whatever their names are. Each is
released once.

The revision carries the manifests of the pipeline with all that they include, and the
variables that these read, as they are now in the workspace: every host gets these,
whatever becomes of the files, and from whichever workspace "pipeline run" is started.
It also carries which content the images have of resource types, and those that
configurations of types that ship name, as the first host that answers has or gets them.
Of secret variables it carries only which file they are in, and a hash: there their
values must stay the same. Containers see that workspace
itself, so a script that a resource runs there and that is edited between two hosts
differs on them.

Where stages have inputs, the revision takes one of each of these other pipelines: the
newest that has passed the stage which the definition names, or the one that --input
names. Where two of them were themselves released with revisions of one pipeline, these
must be the same. What it took it keeps.

Through a server, an operator of this pipeline alone brings what its definition names and
allows. With --pending a revision that brings more is asked for: it is released once an
operator of everything accepts it ("pipeline accept").

A stage in which a revision failed keeps later ones out. With --fix this one enters it
all the same, and those that wait there are skipped, for they would undo the fix.`,
		Example: "  deployster pipeline release gateway 42\n  deployster pipeline release gateway $(git rev-parse HEAD)\n  deployster pipeline release gateway 44 --fix\n  deployster pipeline release app 7 --input config=3",
		Args:    arguments.Named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			wanted, err := named(inputs)
			if err != nil {
				return err
			}
			return runRelease(c.Context(), a, args[0], pipeline.Release{Revision: args[1], Fix: fix, Pending: pending}, wanted, flags)
		},
	}
	c.Flags().BoolVar(&fix, "fix", false, "enter stages in which earlier revisions failed, and go by those that wait there")
	c.Flags().BoolVar(&pending, "pending", false, "ask for it if you may not release it as it is")
	c.Flags().StringArrayVar(&inputs, "input", nil, "revision of another pipeline to take, as PIPELINE=REVISION (repeatable)")
	flags.RegisterPinning(c, &flags.public, &flags.unpinned)
	return c
}

// errRedefined is why the manifests of a pipeline have to be read again.
var errRedefined = errors.New("the pipeline was changed, or what the revision takes")

func runRelease(ctx context.Context, a *app.App, name string, wanted pipeline.Release, inputs map[string]string, flags inputFlags) error {
	wanted.By = app.Whoami()
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		var events []deploylog.Event
		var chosen []upstream.Chosen
		err := whileRedefined(name, func() (err error) {
			wanted.ID = a.NewID()
			events, chosen, err = release(ctx, a, p, name, wanted, inputs, flags)
			return err
		})
		if err != nil {
			return err
		}
		noteNewer(a.Err, chosen)
		noteFailed(a.Err, p, chosen)
		next := ""
		for _, c := range chosen {
			next += fmt.Sprintf("\n  takes %s, which has %s", output.InLine(c.String()), output.InLine(c.Had()))
		}
		if n := len(events); n > 0 && events[n-1].Name == record.ReleaseAsked {
			content := ""
			if asks := record.Read(events[n-1].Data).Asks; asks != nil {
				content = asks.Content
			}
			return a.Recorded(map[string]any{}, events, fmt.Sprintf("revision %s of pipeline %s is asked for, and released once an operator of everything accepts it", wanted.Revision, name),
				fmt.Sprintf("\n  deployster pipeline accept %s %s --content %s", name, wanted.Revision, content))
		}
		return a.Recorded(map[string]any{}, events, fmt.Sprintf("revision %s of pipeline %s is released", wanted.Revision, name), next)
	})
}

// mostReads is how often a release reads its manifests, which takes seconds where it pins images.
const mostReads = 10

// whileRedefined releases again while the pipeline, or what the revision takes, is changed
// meanwhile, but not forever: what changes it may never stop.
func whileRedefined(name string, release func() error) error {
	for range mostReads {
		if err := release(); !errors.Is(err, errRedefined) {
			return err
		}
	}
	return fmt.Errorf("nothing is released: %w, each of the %d times that the manifests of pipeline %s were read; deployster pipeline history %s tells by whom: release it when that has ended", errRedefined, mostReads, name, name)
}

// release has a revision recorded with what it carries, and what it takes of other pipelines
// as these are when it is recorded.
func release(ctx context.Context, a *app.App, p *query.Pipelines, name string, wanted pipeline.Release, inputs map[string]string, flags inputFlags) (events []deploylog.Event, chosen []upstream.Chosen, err error) {
	propose := func(s *pipeline.State) (events []deploylog.Event, err error) {
		if wanted.Takes, chosen, err = take(p, s.Definition(), inputs); err != nil {
			return nil, err
		}
		return s.Propose(wanted, a.Now())
	}
	var d *definition.Definition
	err = p.Ask(name, func(s *pipeline.State) error {
		d = s.Definition()
		_, err := propose(s) // for what is refused nothing is read
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	takes := wanted.Takes
	if wanted.Carries, err = carry(ctx, a, d, wanted, flags); err != nil {
		return nil, nil, err
	}
	same := func(s *pipeline.State) ([]deploylog.Event, error) {
		if s.Definition() != nil && s.Definition() != d {
			return nil, errRedefined
		}
		events, err := propose(s)
		if err == nil && !reflect.DeepEqual(wanted.Takes, takes) {
			return nil, errRedefined // images may be named by what it takes
		}
		return events, err
	}
	if a.Server() == "" {
		events, err = p.Change(ctx, name, false, same)
		return events, chosen, err
	}
	if err := p.Follow(ctx, 0); err != nil {
		return nil, nil, err
	}
	asOf := p.Head()
	err = p.Ask(name, func(s *pipeline.State) error {
		_, err := same(s)
		return err
	})
	if err == nil {
		events, _, err = p.Send(ctx, name, wanted, asOf)
	}
	if errors.Is(err, reconcile.ErrMoved) {
		err = errRedefined
	}
	return events, chosen, err
}

// carry keeps the manifests of a pipeline with all that they include, and the variables
// that these read, as they are now.
func carry(ctx context.Context, a *app.App, d *definition.Definition, r pipeline.Release, flags inputFlags) (record.Files, error) {
	files, err := inputsOf(ctx, a, d, r, flags)
	if err != nil {
		return nil, err
	}
	return files.Digests(), keep(a, files)
}

// inputsOf are the manifests of a pipeline with all that they include, the variables that
// these read, and the images of their types, as they are now.
func inputsOf(ctx context.Context, a *app.App, d *definition.Definition, r pipeline.Release, flags inputFlags) (work.Carried, error) {
	collected, err := filesOf(a, d, flags)
	if err != nil {
		return nil, err
	}
	warnMissing(a.Err, d, collected.Files, r)
	if err := carryGroups(ctx, a, d, collected.Files, flags); err != nil {
		return nil, err
	}
	return collected.Files, pinImages(ctx, a, d, collected, r, flags)
}

// ownFiles are what the definition names by itself: as filesOf, without a word about them.
func ownFiles(a *app.App, d *definition.Definition, flags inputFlags) (*work.Collection, error) {
	collected, err := work.CollectPipeline(a.Workspace, func(sources ...manifest.Source) ([]vars.Assignment, error) {
		return session.Assignments(a, flags.Input, work.StepVariables(d), sources...)
	}, d)
	if err != nil {
		return nil, err
	}
	pinning, err := session.Pinning(a, flags.Input, flags.public)
	if err != nil {
		return nil, err
	}
	return collected, collected.Pin(pinning)
}

// filesOf are those without the images, for which no host is asked.
func filesOf(a *app.App, d *definition.Definition, flags inputFlags) (*work.Collection, error) {
	collected, err := work.CollectPipeline(a.Workspace, func(sources ...manifest.Source) ([]vars.Assignment, error) {
		return session.Assignments(a, flags.Input, work.StepVariables(d), sources...)
	}, d)
	if err == nil {
		err = groupFiles(a, d, collected.Files)
	}
	if err != nil {
		return nil, err
	}
	if err := session.NoteOmitted(a, collected); err != nil {
		return nil, err
	}
	if err := session.WarnUnread(a, collected.GivenUnread(), flags.Input.Strict); err != nil {
		return nil, err
	}
	pinning, err := session.Pinning(a, flags.Input, flags.public)
	if err != nil {
		return nil, err
	}
	return collected, collected.Pin(pinning)
}

// pinImages lets a revision carry images, as they are on the hosts of the steps that need
// them. The release has no revision where they are for several.
func pinImages(ctx context.Context, a *app.App, d *definition.Definition, collected *work.Collection, r pipeline.Release, flags inputFlags) error {
	policy, err := flags.Engine.Policy()
	if err != nil {
		return err
	}
	ask, err := session.AskActions(a, flags.WorkerFlags)
	if err != nil {
		return err
	}
	pool := session.OpenPool(a, flags.WorkerFlags, a.Err)
	p := work.ImagePinning{
		Ask: ask, Pool: pool, Policy: policy, Unpinned: flags.unpinned,
		Places: collected.Places(session.Inputs(a, flags.Input), work.NewHosts(flags.Inventory), d, r.Revision, r.Takes),
	}
	return interrupt.Within(ctx, func(ctx context.Context) error {
		return errors.Join(collected.PinImages(ctx, p), pool.Close())
	})
}

// keep keeps what a revision carries.
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
		Short:   "Show a revision, and what it carries",
		Example: "  deployster pipeline show gateway 42",
		Args:    arguments.Named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name, o.revision = args[0], args[1]
			if is, err := promotioncli.Show(c.Context(), a, o.name, o.revision, o.at); is || err != nil {
				return err
			}
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
		texts, err := a.Texts()
		if err != nil {
			return err
		}
		document := map[string]any{"pipeline": o.name, "release": r}
		if variables, err := texts.Variables(r.Carries); err == nil && variables != nil {
			document["variables"] = variables
		}
		if images, err := texts.Images(r.Carries); err == nil && images != nil {
			document["images"] = images
		}
		if omitted, err := texts.Omitted(r.Carries); err == nil && omitted != nil {
			document["omitted"] = omitted
		}
		return a.Show(document, func() error {
			text := fmt.Sprintf("revision %s of pipeline %s: released %s, %s since event %d\n", r.Revision, o.name, phrase.Moment(r.Released), r.Status, r.Since)
			text += takenText(r.Takes) + output.Carried("  ", texts, r.Carries)
			if r.Carries == nil {
				text += "  It carries no files, for an older version released it: manifests are read when they are applied.\n"
			}
			return a.Printf("%s", a.Wrapped(text))
		})
	})
}
