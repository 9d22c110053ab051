package resource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

type lockOptions struct {
	files   []string
	upgrade []string // names; everything stands for all
	prune   bool
	input   session.Flags
	engine  engines.Flags
}

// everything is what --upgrade means without a name.
const everything = "all"

// NewLockCommand returns the command lock.
func NewLockCommand(a *app.App) *cobra.Command {
	var o lockOptions
	c := &cobra.Command{
		Use:   "lock [MANIFEST…]",
		Short: "Lock what images of types and modules elsewhere mean, in deployster.lock",
		Long: `Lock what names mean, in the file deployster.lock of the workspace. Of the images
of types that manifests use, and those that actions of their types run, that is the
digest that the registry has now, or the id of an image that was built here; of
modules that are elsewhere, the commit and the digest of their files, which are
fetched, and used from then on.

Keep the file with the manifests: plan, apply, drift, destroy, adopt and revisions
use what it says, wherever the tag of an image points to by then, and apply and
plan refuse with --locked what it does not say.

What the file says stays, unless it is to be upgraded: with --upgrade all of it, also
without a manifest, or with --upgrade=NAME that. Types that ship with Deployster are
those of its version, and images that are named by their digest are what they are:
neither is locked.`,
		Example: `  deployster lock web.yaml
  deployster lock --upgrade
  deployster lock --upgrade=registry.example/types/web:1
  deployster lock base.yaml prod.yaml --prune
  deployster apply web.yaml --locked`,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return runLock(c.Context(), a, o)
		},
	}
	c.Flags().StringArrayVar(&o.upgrade, "upgrade", nil, "find out anew what is locked, of all names, or with =NAME of this one (repeatable)")
	c.Flags().Lookup("upgrade").NoOptDefVal = everything
	c.Flags().BoolVar(&o.prune, "prune", false, "remove what the manifests do not use")
	o.input.RegisterVariables(c)
	o.engine.Register(c)
	o.engine.RegisterCache(c)
	return c
}

func runLock(ctx context.Context, a *app.App, o lockOptions) (err error) {
	if len(o.files) == 0 && (len(o.upgrade) == 0 || o.prune) {
		return exit.Usage("lock needs the manifests that use the images, such as \"deployster lock web.yaml\"; only --upgrade, of what is locked already, does without")
	}
	policy, err := o.engine.Policy()
	if err != nil {
		return err
	}
	lock, err := lockfile.Read(a.Workspace)
	if err != nil {
		return exit.Invalid(err)
	}
	missing := lock == nil
	if missing {
		lock = &lockfile.File{Images: map[string]lockfile.Image{}, Modules: map[string]lockfile.Module{}}
	}
	if err := o.check(lock); err != nil {
		return err
	}
	before, err := lock.Encode()
	if err != nil {
		return err
	}
	ctx, signals := interrupt.Handle(ctx, a.Notice)
	defer signals.Done()
	u := &locked.Update{Lock: lock, Policy: policy, Upgrade: o.upgrades}
	if err := o.update(ctx, a, u); err != nil {
		if signals.Interrupted() {
			return errors.Join(runner.ErrInterrupted, err)
		}
		return err
	}
	after, err := lock.Encode()
	// Also one that locks nothing is a lock: --locked wants a file.
	if err == nil && (string(before) != string(after) || missing && len(o.files) > 0) {
		err = lock.Write(a.Workspace)
	}
	if err != nil {
		return err
	}
	return showLock(a, lock, u.Changes())
}

// update locks what the manifests use.
func (o *lockOptions) update(ctx context.Context, a *app.App, u *locked.Update) error {
	if err := o.modules(ctx, a, u); err != nil {
		return err
	}
	in := &work.Input{Manifest: &manifest.Manifest{}}
	if len(o.files) > 0 {
		o.input.Placed = true
		var err error
		if in, err = session.LoadAndWarn(a, o.files, o.input, runner.ConfirmNo); err != nil {
			return err
		}
	}
	if err := o.lockImages(ctx, a, u, in.Manifest); err != nil {
		return err
	}
	if o.prune {
		u.Prune()
	}
	return nil
}

// check refuses to upgrade what is not locked.
func (o *lockOptions) check(lock *lockfile.File) error {
	for _, name := range o.upgrade {
		if _, image := lock.Images[name]; name == everything || image || lock.Modules[name] != (lockfile.Module{}) {
			continue
		}
		names := append(slices.Sorted(maps.Keys(lock.Images)), slices.Sorted(maps.Keys(lock.Modules))...)
		if len(names) == 0 {
			return exit.Usage("--upgrade=%s: nothing is locked yet; \"deployster lock MANIFEST\" does that", name)
		}
		return exit.Usage("--upgrade=%s: that is not in %s, which has %s", name, lockfile.Name, phrase.Cut(strings.Join(names, ", "), 400))
	}
	return nil
}

func (o *lockOptions) upgrades(name string) bool {
	return slices.Contains(o.upgrade, everything) || slices.Contains(o.upgrade, name)
}

// modules locks the modules elsewhere that manifests call, without manifests those that are locked, and places them.
func (o *lockOptions) modules(ctx context.Context, a *app.App, u *locked.Update) error {
	cache := sync.OnceValues(session.ModuleCache)
	sources, err := manifest.ReadFiles(o.files)
	if err != nil {
		return exit.Invalid(err)
	}
	with, err := cache()
	if err != nil {
		return fmt.Errorf("opening the cache of modules: %w", err)
	}
	if err := u.Modules(ctx, with, a.Workspace, sources...); err != nil {
		return err
	}
	if len(o.files) == 0 {
		for _, source := range slices.Sorted(maps.Keys(u.Lock.Modules)) {
			if _, err := u.Module(ctx, with, source); err != nil {
				return err
			}
		}
	}
	return locked.Place(ctx, a.Workspace, u.Lock, cache)
}

// lockImages locks images with the engine, if there are any to lock.
func (o *lockOptions) lockImages(ctx context.Context, a *app.App, u *locked.Update, m *manifest.Manifest) error {
	needed := len(o.files) == 0 && len(u.Lock.Images) > 0 || slices.ContainsFunc(m.Resources, func(r *manifest.Resource) bool { return !locked.Ships(r.Type) })
	if !needed {
		return nil
	}
	o.engine.Unlocked = true
	on, err := engines.Connect(ctx, a, a.Notices(), o.engine)
	if err != nil {
		return err
	}
	u.Holder = on.Images
	return errors.Join(o.images(ctx, a, u, on, m), on.Engine.Close())
}

// images locks the images of the types of a manifest, and those that their actions run; without
// a manifest those that are locked.
func (o *lockOptions) images(ctx context.Context, a *app.App, u *locked.Update, on *work.Connection, m *manifest.Manifest) error {
	if len(o.files) == 0 {
		for _, ref := range slices.Sorted(maps.Keys(u.Lock.Images)) {
			if err := u.Image(ctx, ref, ""); err != nil {
				return fmt.Errorf("locking %s: %w", ref, err)
			}
		}
		return nil
	}
	asked := map[string]string{} // resources, by their types: one of each is asked
	var problems []manifest.Problem
	note := func(resource string, err error) {
		r := m.Resource(resource)
		problems = append(problems, manifest.Problem{Position: r.Position, Path: "resources." + resource + ".type", Message: "cannot be locked: " + strings.Join(strings.Fields(err.Error()), " ")})
	}
	for _, r := range m.Resources {
		if _, known := asked[r.Type]; known || locked.Ships(r.Type) {
			continue
		}
		asked[r.Type] = r.Name
		if err := u.Image(ctx, r.Type, ""); err != nil {
			note(r.Name, err)
		}
	}
	if len(problems) > 0 || len(asked) == 0 || ctx.Err() != nil {
		return problemsOf(ctx, problems)
	}
	ask, err := session.AskLockedActions(a, session.WorkerFlags{Input: o.input, Engine: o.engine})
	if err != nil {
		return err
	}
	named, failed := ask(ctx, on, m, slices.Sorted(maps.Values(asked)), locked.Carried(u.Lock))
	for typ, resource := range asked {
		if failed[resource] != nil {
			note(resource, failed[resource])
		}
		for _, ref := range named[resource] {
			if ref == typ {
				continue
			}
			if err := u.Image(ctx, ref, typ); err != nil {
				note(resource, err)
			}
		}
	}
	return problemsOf(ctx, problems)
}

func problemsOf(ctx context.Context, problems []manifest.Problem) error {
	if len(problems) == 0 {
		return context.Cause(ctx)
	}
	slices.SortFunc(problems, func(a, b manifest.Problem) int { return strings.Compare(a.String(), b.String()) })
	return &manifest.Error{Problems: problems}
}

func showLock(a *app.App, lock *lockfile.File, changes []locked.Change) error {
	count := len(lock.Images) + len(lock.Modules)
	if changes == nil {
		changes = []locked.Change{}
	}
	return a.Show(map[string]any{"type": "lock", "file": lockfile.Name, "locked": count, "changes": changes}, func() error {
		for _, c := range changes {
			line := ""
			switch {
			case c.Was == "":
				line = fmt.Sprintf("+ %s %s\n    %s", c.Kind, c.Name, c.Is)
			case c.Is == "":
				line = fmt.Sprintf("- %s %s\n    %s", c.Kind, c.Name, c.Was)
			default:
				line = fmt.Sprintf("~ %s %s\n    %s\n    → %s", c.Kind, c.Name, c.Was, c.Is)
			}
			if err := a.Printf("%s\n", line); err != nil {
				return err
			}
		}
		if len(changes) == 0 {
			return a.Printf("%s: nothing to change, %s locked\n", lockfile.Name, phrase.Count(count, "name"))
		}
		return a.Printf("%s: %s changed, %s locked\n", lockfile.Name, phrase.Count(len(changes), "name"), phrase.Count(count, "name"))
	})
}

// lockInto has what is sent to a server carry what the workspace locks.
func lockInto(a *app.App, o staticOptions, in *work.Input, files work.Carried) error {
	lock, err := engines.LockFile(a, o.input.Locked)
	if err != nil || lock == nil {
		return err
	}
	var problems []manifest.Problem
	for _, r := range in.Manifest.Resources {
		if err := locked.Check(lock, r.Type); err != nil && o.input.Locked {
			problems = append(problems, manifest.Problem{Position: r.Position, Path: "resources." + r.Name + ".type", Message: err.Error()})
		}
	}
	if len(problems) > 0 {
		return exit.Invalid(&manifest.Error{Problems: problems})
	}
	files[revision.ImagesName], err = locked.Encode(lock, o.input.Locked)
	return err
}
