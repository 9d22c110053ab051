package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	promotioncli "github.com/deployster-go/deployster/internal/cli/promotion"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

type applyOptions struct {
	file   string
	adopt  []string
	yes    bool
	inputs inputFlags
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

Revisions under way keep the manifests and variables that they carry since their release,
also where a step names another one now or a file was edited: that is for later revisions.
With --adopt a revision takes the definition, and the manifests as they are now, for what it
has not done yet; so does one that failed, before it is retried. A manifest of a step that
is new to the revisions under way they take as it is now, with the variables of now.`,
		Example: `  deployster pipeline apply -f gateway.yaml
  deployster pipeline apply -f gateway.yaml --yes
  deployster pipeline apply -f gateway.yaml --adopt 42`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.file == "" {
				return exit.Usage("which definition? say -f FILE")
			}
			if is, err := promotioncli.Apply(c.Context(), a, o.file, promotioncli.Inputs{WorkerFlags: o.inputs.WorkerFlags, Public: o.inputs.public, Unpinned: o.inputs.unpinned}, o.yes); is || err != nil {
				return err
			}
			return runApply(c.Context(), a, o)
		},
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "the definition")
	c.Flags().StringArrayVar(&o.adopt, "adopt", nil, "revision under way that takes what changes (repeatable)")
	arguments.RegisterYes(c, &o.yes)
	a.RegisterWhole(c)
	o.inputs.RegisterPinning(c, &o.inputs.public, &o.inputs.unpinned)
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
	below := func(what string) func(stage string, path *string) {
		return func(stage string, path *string) {
			at := filepath.Join(filepath.Dir(file), filepath.FromSlash(*path))
			below, err := session.ManifestBelow(a.Workspace, at)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: stage %s: %s %s: %w", file, stage, what, at, err))
			}
			*path = below
		}
	}
	d.Manifests(below("manifest"))
	d.BuildGroups(below("packages"))
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
	hosts := session.Hosts(ctx, a, o.inputs.Inventory)
	members, err := hosts.Members(d)
	if err != nil {
		return exit.Invalid(err)
	}
	bound := ""
	if slices.ContainsFunc(d.Stages, func(s definition.Stage) bool { return s.Deploy != nil || s.Environment != "" }) {
		bound = hosts.Identity()
	}
	wanted := change{Define: pipeline.Define{Definition: d, Adopt: o.adopt, Inventory: bound, By: app.Whoami()}, members: members, inputs: o.inputs, yes: o.yes}
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		p := pipelines.New(log, a.Now)
		for {
			if err := p.Follow(ctx, 0); err != nil {
				return err
			}
			c, err := define(ctx, a, log, p, wanted)
			if errors.Is(err, errMoved) {
				fmt.Fprintf(a.Err, "note: %v; this is how it is now\n", err)
				continue
			}
			if err != nil {
				return err
			}
			bounded := query.Bounded{All: a.All}
			changes := query.BoundChanges(&bounded, "changes", query.AlikeChanges(c.changes, a.All))
			document := bounded.In(map[string]any{"pipeline": d.Name, "changes": changes, "events": append([]deploylog.Event{}, c.events...), "holds": append([]reason.Reason{}, c.holds...)})
			if len(c.renames) > 0 {
				document["renames"] = c.renames
			}
			switch {
			case len(c.events) == 0:
				return a.Say(document, "pipeline %s is defined like that already", d.Name)
			case c.same:
				return a.Say(document, "pipeline %s is defined like that already; the files that it names are new (event %d)", d.Name, c.events[0].Seq)
			}
			noteTakers(a.Err, p, d.Name)
			for _, h := range c.holds {
				fmt.Fprintf(a.Err, "note: %s\n      → %s\n", h.Message(), h.Change())
			}
			if c.exists {
				noteBehind(a.Err, p, d.Name)
			}
			return a.Say(document, "pipeline %s is defined, %s (event %d)", d.Name, phrase.Count(len(d.Stages), "stage"), c.events[0].Seq)
		}
	})
}

// change is a definition that is to be recorded, with the hosts that it selects, and what
// comes of that.
type change struct {
	pipeline.Define
	members map[string][]string
	inputs  inputFlags
	yes     bool

	exists  bool // there is a pipeline of its name
	same    bool // which has this definition, and of which no revision is to adopt it
	changes []effect.Change
	renames []deployment.Rename
	without []string        // in words, revisions under way that were released without inputs
	unheld  []reason.Reason // what holds stages that go
	bound   string          // the inventory that the pipeline has been bound to until now
	events  []deploylog.Event
	holds   []reason.Reason // why host groups do not go on with the hosts
}

// define shows what a definition changes, asks, and has it recorded.
func define(ctx context.Context, a *app.App, log deploylog.Log, p *pipelines.Pipelines, c change) (change, error) {
	if err := promotioncli.Free(ctx, log, c.Definition.Name); err != nil {
		return c, err
	}
	texts, err := c.preview(ctx, a, p)
	if err != nil {
		return c, err
	}
	if texts, err = c.nameFiles(a, texts); err != nil {
		return c, err
	}
	if !a.JSON() && (!c.same || len(c.changes) > 0) {
		if err := view.PipelineChanges(a.Out, query.AlikeChanges(c.changes, a.All), c.exists, a.PlanOptions(a.Out)); err != nil {
			return c, err
		}
	}
	if c.same {
		return c, c.recordFiles(ctx, a, p, texts)
	}
	c.warn(a)
	name := c.Definition.Name
	if c.exists {
		if err := prompt.Agree(ctx, a, c.yes, fmt.Sprintf("pipeline %s would be changed", name), "Change pipeline %s?", name); err != nil {
			return c, err
		}
	}
	if err := keep(a, texts); err != nil {
		return c, err
	}
	if err := c.record(ctx, a, log, p); err != nil {
		return c, err
	}
	err = p.Ask(name, func(s *pipeline.State) error {
		c.holds = s.Holds()
		return nil
	})
	return c, err
}

// nameFiles has the definition name the files that it has now, beside what else is to be kept. Revisions of those who may
// bring no others have these.
func (c *change) nameFiles(a *app.App, texts work.Carried) (work.Carried, error) {
	collected, err := ownFiles(a, c.Definition, c.inputs)
	if err != nil && c.Definition.Allow != nil {
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(a.Err, "note: only who may do everything can release revisions of pipeline %s: %s\n", c.Definition.Name, output.InLine(err.Error()))
		return texts, nil
	}
	all := maps.Clone(collected.Files)
	c.Files = all.Digests()
	for name, text := range texts {
		if _, has := all[name]; has && string(all[name]) != string(text) {
			all["/"+name] = text // both are kept
			continue
		}
		all[name] = text
	}
	return all, nil
}

// recordFiles records that a definition, which is the same, names other files by now.
func (c *change) recordFiles(ctx context.Context, a *app.App, p *pipelines.Pipelines, texts work.Carried) (err error) {
	if c.Files == nil {
		return nil
	}
	c.Carries, c.Adopt = nil, nil // no revision takes anything
	changed := false
	err = p.Ask(c.Definition.Name, func(s *pipeline.State) error {
		events, err := s.Propose(c.Define, a.Now())
		changed = len(events) > 0
		return err
	})
	if err != nil || !changed {
		return err
	}
	if err := keep(a, texts); err != nil {
		return err
	}
	if a.Server() != "" {
		c.events, _, err = p.Send(ctx, c.Definition.Name, c.Define, 0)
		return err
	}
	c.ID = a.NewID()
	c.events, err = p.Command(ctx, c.Definition.Name, c.Define)
	return err
}

// record has the change recorded as it was shown, with the hosts.
func (c *change) record(ctx context.Context, a *app.App, log deploylog.Log, p *pipelines.Pipelines) (err error) {
	name := c.Definition.Name
	if a.Server() != "" {
		asOf := p.Head()
		if c.yes {
			asOf = 0 // whatever it changes by then
		}
		if c.events, _, err = p.Send(ctx, name, c.Define, asOf); errors.Is(err, reconcile.ErrMoved) {
			err = errMoved
		}
		return err
	}
	c.events, err = p.Change(ctx, name, true, func(s *pipeline.State) ([]deploylog.Event, error) {
		if err := errors.Join(promotioncli.Free(ctx, log, name), c.asShown(p, s)); err != nil {
			return nil, err
		}
		if c.Carries == nil && s.Definition() != nil && s.Deleted() == 0 && (!c.exists || s.Takes()) {
			return nil, errMoved // it was defined meanwhile, or there are revisions under way, to which something is to be carried
		}
		c.ID = a.NewID()
		return s.Propose(c.Define, a.Now())
	})
	if err == nil {
		_, err = p.Command(ctx, name, pipeline.SetMembers{Members: c.members, ID: a.NewID(), By: app.Whoami()})
	}
	return err
}

// asShown fails where the definition has come to mean something else than was shown.
func (c *change) asShown(p *pipelines.Pipelines, s *pipeline.State) error {
	if err := c.checkInputs(p); err != nil {
		return err
	}
	now, err := s.Preview(&c.Define, c.members)
	if err != nil {
		return err
	}
	if !c.yes && slices.ContainsFunc(now, func(n effect.Change) bool { return !slices.Contains(c.changes, n) }) {
		return errMoved
	}
	return nil
}

// checkInputs refuses inputs that there are not, for who holds the pipelines.
func (c *change) checkInputs(p *pipelines.Pipelines) error {
	if err := upstream.Check(c.Definition, p.Upstream); err != nil {
		return exit.Invalid(err)
	}
	return nil
}

// warn says what may not be meant.
func (c *change) warn(a *app.App) {
	if c.bound != "" && c.bound != c.Inventory {
		fmt.Fprintf(a.Err, "note: the hosts of the pipeline are those of inventory %s from now on, and not of inventory %s\n", cmp.Or(view.Clean(c.Inventory), "(any)"), view.Clean(c.bound))
	}
	for _, text := range c.without {
		fmt.Fprintf(a.Err, "note: %s\n", output.InLine(text))
	}
	for _, r := range c.renames {
		fmt.Fprintf(a.Err, "warning: %s\n", view.Clean(r.Message()))
	}
	for _, r := range c.unheld {
		fmt.Fprintf(a.Err, "warning: stage %s goes, and with it what holds it: %s; whatever takes its place is not held unless you pause it (deployster pipeline pause %s STAGE)\n", view.Clean(r.Name), view.Clean(r.Message()), c.Definition.Name)
	}
}

// preview finds out what a definition changes. For the revisions that are under way where
// it changes a pipeline it also reads what that carries, which it returns. Where the
// definition is the same it reads only what no host has to be asked for, to tell which files
// are others by now: a definition may be applied again while hosts and registries are away.
func (c *change) preview(ctx context.Context, a *app.App, p *pipelines.Pipelines) (texts work.Carried, err error) {
	takes, same := false, false
	exists := func(s *pipeline.State) error {
		c.exists = s.Deleted() == 0 && s.Definition() != nil
		takes = s.Takes()
		if !c.exists {
			return nil
		}
		events, err := s.Propose(c.Define, a.Now()) // for what is refused nothing is read
		same = len(events) == 0 && len(c.Adopt) == 0
		return err
	}
	if err := p.Ask(c.Definition.Name, exists); err != nil && !errors.Is(err, pipelines.ErrNoPipeline) {
		return nil, err
	}
	p.Locked(func() { err = c.checkInputs(p) })
	if err != nil {
		return nil, err
	}
	switch {
	case !c.exists && len(c.Adopt) > 0:
		return nil, exit.Usage("--adopt %s: there is no pipeline %s yet, and no revision of it", c.Adopt[0], c.Definition.Name)
	case !c.exists:
		return nil, nil
	}
	switch {
	case takes && same:
		collected, err := filesOf(a, c.Definition, c.inputs)
		if err != nil {
			return nil, err
		}
		c.Carries = collected.Files.Digests()
	case takes:
		if texts, err = inputsOf(ctx, a, c.Definition, pipeline.Release{}, c.inputs); err != nil {
			return nil, err
		}
		c.Carries = texts.Digests()
	}
	return texts, p.Ask(c.Definition.Name, func(s *pipeline.State) error {
		events, err := s.Propose(c.Define, a.Now())
		if err != nil {
			return err
		}
		c.bound = s.Bound()
		members := c.members
		if c.same = len(events) == 0; c.same {
			members = nil // which the scheduler records
		}
		c.unheld, c.without = s.Unheld(c.Definition), withoutInputs(s, c.Definition)
		if slices.ContainsFunc(s.Registrations(), func(r pipeline.Registration) bool { return r.Status == deployment.Running }) {
			c.renames = deployment.Renames(s.Definition(), c.Definition)
		}
		c.changes, err = s.Preview(&c.Define, members)
		return err
	})
}
