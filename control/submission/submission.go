// Package submission collects what a build group carries, when it is submitted: what each
// job runs, with the values of the variables that it uses, the contents of images, the files
// of the workspace that it reads, and what was released. From then on the group is what it
// was, whatever becomes of the workspace.
//
// What is wrong with the definition is refused, all of it in one go: whatever can be found
// without what is broken is looked for all the same. What is wrong with a
// package alone (a source of it is missing, what was released is gone) makes that package
// unbuildable, and with it all that needs it; the rest is built.
package submission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/contents"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
)

// Workers are where jobs may be done.
type Workers interface {
	// Workers are those that there are at present.
	Workers() ([]inventory.Host, error)

	// Look asks the engine of a worker for which platforms it builds. It fails when that
	// does not answer, or cannot serve.
	Look(ctx context.Context, name string) (platforms []string, err error)
}

// Artifacts keep what groups carry of the workspace, and what was released: those of the log, as
// an *artifacts.Store does.
type Artifacts interface {
	// Use reports whether an artifact is there, and has it stay until the group names it.
	Use(ctx context.Context, digest string) (bool, error)

	Collect(ctx context.Context, dir string, limits artifacts.Limits) (artifacts.Artifact, error)
	Pull(ctx context.Context, ref string, limits artifacts.Limits, progress func(artifacts.Progress)) (artifacts.Artifact, error)
}

// Contents finds out what plugs hold, as a *contents.Reader does.
type Contents interface {
	Of(ctx context.Context, path string) (contents.Content, error)
}

// Collector collects what groups carry. All fields are required that do not say otherwise.
type Collector struct {
	Inputs    work.Inputs
	Texts     work.Texts
	Artifacts Artifacts
	Workers   Workers
	Contents  Contents                                                           // of plugs; nil if these are on another machine
	Engine    func(ctx context.Context, worker string) (*work.Connection, error) // of a worker, where images are looked for
	Policy    engine.PullPolicy
	Platform  string   // of jobs of which nobody knows for which one they are
	Unpinned  bool     // an image that cannot be had is carried as whatever it is
	Public    []string // variables that are no secrets, whatever reads them; may be nil
	Own       string   // tells the jobs of this group whose images are not pinned from those of all others
}

// Request is what is to be submitted.
type Request struct {
	File     string // the definition, as people name it
	Name     string // that by which the group carries it: its path below the workspace, or an absolute one
	Text     []byte
	Touched  []string // packages; none are all
	Converge int      // 0 is as the definition says
}

// Collected is what a group is to carry.
type Collected struct {
	Submit   build.Submit // without who submits it, and how it is to go on after failures
	Files    work.Carried // that are to be kept before
	Images   []Pinned     // sorted by place, and by name
	Sources  []Kept       // what was kept of the workspace
	Plugs    []Plugged    // whose contents are known
	Unread   []manifest.Problem
	Warnings []string // sentences
}

// Pinned is an image with the content that it has at a place.
type Pinned struct {
	recipe.Image
	Platform string `json:"platform"`
	Worker   string `json:"worker,omitempty"` // that was asked
}

// Kept is an artifact that was made of files of the workspace.
type Kept struct {
	Paths    []string `json:"paths"`
	Artifact string   `json:"artifact"` // digest
	Size     int64    `json:"size"`     // bytes
	Files    int      `json:"files"`
}

// Collect collects what a group carries. What it finds wrong is an *work.InputError. It keeps
// artifacts, but none of the Files.
func (c *Collector) Collect(ctx context.Context, r Request) (*Collected, error) {
	s := &collecting{Collector: c, ctx: ctx, out: &Collected{Files: work.Carried{}}, packages: map[string]*definition.Package{}}
	d, p := s.read(r)
	if p == nil {
		return nil, s.refusal()
	}
	s.d = d
	for i := range d.Packages {
		s.packages[d.Packages[i].Name] = &d.Packages[i]
	}
	err := s.look(p)
	if supposed := s.suppose(p); err == nil && supposed != nil {
		err = s.look(supposed)
	}
	if s.ctx.Err() != nil {
		return nil, err
	}
	if err := errors.Join(s.refusal(), err); err != nil {
		return nil, err
	}
	if s.blamed != nil {
		if p, err = plan.Make(d, r.Touched); err != nil {
			return nil, &work.InputError{Cause: fmt.Errorf("%s: %w", r.File, err)}
		}
	}
	if err := s.submit(r, p); err != nil {
		return nil, err
	}
	return s.out, nil
}

// look looks at all that the jobs of a plan run.
func (s *collecting) look(p *plan.Plan) error {
	for _, step := range []func(*plan.Plan) error{s.evaluate, s.readPlugs, s.choosePlaces, s.keepSources, s.keepReleased, s.pinImages} {
		if err := step(p); err != nil {
			return err
		}
	}
	return nil
}

// Plan reads a definition, and makes its plan. What is wrong is an *work.InputError.
func Plan(r Request) (*definition.Definition, *plan.Plan, error) {
	var s problems
	d, p := s.read(r)
	if err := s.found.Err(); err != nil {
		return nil, nil, &work.InputError{Cause: err}
	}
	return d, p, nil
}

// collecting is one Collect.
type collecting struct {
	*Collector
	problems
	ctx      context.Context
	out      *Collected
	packages map[string]*definition.Package

	jobs     map[string]*job             // by package
	sources  map[*recipe.Recipe][]string // evaluated, as the definition lists them; "" is one that cannot be
	fleet    *fleet
	places   []*place              // of jobs
	plugs    map[string]plugged    // by path
	released map[string]string     // digests of what was released, by package
	blamed   []*definition.Package // that turned out to be unbuildable
	checkout                       // of the workspace
}

// job is what the build of a package runs.
type job struct {
	pkg    *definition.Package
	recipe *recipe.Recipe // without the content of its image; packages that run the same may share it
	place  int            // index in the places
}

// blame makes a package unbuildable, of which what is wrong with it as well is said, too.
func (s *collecting) blame(pkg *definition.Package, format string, args ...any) {
	cause := fmt.Sprintf(format, args...)
	if pkg.Unbuildable != "" {
		cause = pkg.Unbuildable + "; " + cause
	}
	pkg.Unbuildable = cut(cause)
	s.blamed = append(s.blamed, pkg)
}

// cut bounds a cause, which stands in an event.
func cut(text string) string {
	const most = 1000
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// submit makes the command of what was collected.
func (s *collecting) submit(r Request, p *plan.Plan) error {
	c := &s.out.Submit
	c.Triggered = record.Triggered{Name: s.d.Group, File: r.Name, Touched: r.Touched, Artifacts: s.d.Artifacts, Source: s.source()}
	if at := s.tree(); at != nil {
		c.Commit = at.Commit
	}
	if !s.d.List {
		c.Converge = s.d.Converge
	}
	c.Cycles = p.Cycles
	for _, u := range p.Unbuildable {
		c.Unbuildable = append(c.Unbuildable, record.Unbuildable(u))
	}
	recipes := &recipeSet{index: map[string]int{}, of: map[recipeKey]int{}}
	used := map[int]int{} // index in the places of the command
	for _, j := range p.Jobs {
		of := s.jobs[j.Package]
		at := s.places[of.place]
		if _, known := used[of.place]; !known {
			used[of.place] = len(c.Places)
			c.Places = append(c.Places, at.Place)
		}
		index, whole, err := recipes.add(of.recipe, at)
		if err != nil {
			return err
		}
		spec := record.JobSpec{Package: j.Package, Version: j.Version, Place: used[of.place], Recipe: index, Waits: slices.Sorted(slices.Values(j.Waits))}
		if j.Of > 1 {
			spec.Pass, spec.Of = j.Pass, j.Of
		}
		for _, u := range j.Uses {
			use := record.Use{Package: u.Package, Job: u.Job, Run: u.Run}
			if u.Job == 0 {
				use.Artifact = s.released[u.Package]
			}
			spec.Uses = append(spec.Uses, use)
		}
		spec.Inputs = whole.Inputs(spec, at.Platform, s.Own)
		c.Jobs = append(c.Jobs, spec)
	}
	if err := s.warnUnserved(c); err != nil {
		return err
	}
	s.tellPlugs(p)
	documents, err := recipe.Encode(recipes.all)
	if err != nil {
		return err
	}
	for name, text := range documents {
		s.out.Files[name] = text
	}
	if text, included := s.out.Files[r.Name]; included && !bytes.Equal(text, r.Text) {
		return &work.InputError{Cause: fmt.Errorf("%s was changed while it was read: try again", r.File)}
	}
	s.out.Files[r.Name] = r.Text
	c.Carries = s.out.Files.Digests()
	return nil
}
