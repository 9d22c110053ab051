package resource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

type planOptions struct {
	lookOptions
	detailed bool
	destroy  bool
	saving   bool   // -o was given
	out      string // its value
}

// NewPlanCommand returns the command plan.
func NewPlanCommand(a *app.App) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan MANIFEST… | PLAN",
		Short: "Show what an apply would change",
		Long: `Show what an apply would change, and change nothing.

Resource types are initialized and the state of the resources is discovered;
no action is run. A resource that depends on one which is not yet as
configured is "known after apply" of it.

With --destroy it shows what a destroy would remove.

With -o the plan is saved, for "apply FILE" to do exactly that, and nothing
else. The file holds no secrets in clear. Given a saved PLAN instead of
manifests, it is shown as it was made.`,
		Example: `  deployster plan web.yaml
  deployster plan web.yaml --detailed-exitcode    # 0 no changes, 1 failed, 2 changes
  deployster plan web.yaml --output json
  deployster plan web.yaml --destroy --target db
  deployster plan web.yaml -o web.plan
  deployster apply web.plan`,
		Args: arguments.Manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files, o.saving = args, c.Flags().Changed("out")
			return plan(c.Context(), a, o)
		},
	}
	o.register(a, c)
	a.RegisterAll(c)
	c.Flags().BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when there are changes")
	c.Flags().BoolVar(&o.destroy, "destroy", false, "show what a destroy would remove; --target takes along what depends on it")
	c.Flags().StringVarP(&o.out, "out", "o", "", "save the plan to this file, for apply")
	return c
}

func plan(ctx context.Context, a *app.App, o planOptions) error {
	saved, err := readSavedPlan(o.files)
	if err != nil {
		return err
	}
	if saved != nil {
		return showSaved(a, o, saved)
	}
	o.input.Removing = o.destroy
	if o.saving {
		if err := o.savable(); err != nil {
			return err
		}
	}
	s, err := session.Start(ctx, a, "plan", o.files, o.input, o.engine, runner.ConfirmNo)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.destroy {
		s.Control.Meaning = s.Meaning()
	}
	held, err := runs.Watch(s.Control)
	if err != nil {
		return err
	}
	defer held.End()
	var salt planfile.Salt
	var place *replacement
	if o.saving {
		if place, err = replace(o.out); err != nil {
			return err
		}
		defer place.discard()
		if salt, err = planfile.NewSalt(rand.Reader); err != nil {
			return err
		}
		s.Spec.Fingerprint = salt.Fingerprint
	}

	s.Spec.KeepGoing = true
	report := a.Report("plan")
	s.Caller.Observer = report.Observer
	look := (*runner.Runner).Plan
	if o.destroy {
		noticeDependents(a, s, o.input.Targets)
		look, s.Spec.Remove, s.Caller.Absence = (*runner.Runner).PlanDestroy, s.Remove, held.Gone
	}
	plan, err := look(runner.New(s.Spec, s.Containers), s.Ctx, s.Caller)
	err = errors.Join(err, report.Close())
	if plan != nil {
		err = errors.Join(s.Reported(err), report.Show(
			func(lines *view.JSON) { lines.Plan(plan) },
			func() error { return view.Plan(a.Out, plan, a.PlanOptions(a.Out)) }))
	}
	switch {
	case o.saving && err != nil:
		fmt.Fprintf(a.Err, "The plan is not whole, so %s was not written.\n", o.out)
	case o.saving:
		if saved, err = o.save(s, plan, salt, a.Now(), place); err == nil {
			err = report.Show(
				func(lines *view.JSON) { lines.SavedPlan(saved.path, saved.Digest, saved.CreatedAt) },
				func() error { return a.Printf("Saved to %s. Apply it with: %s\n", saved.path, saved.applyCommand()) })
		}
	}
	if err == nil && o.detailed && plan.Changes() {
		return exit.Reported(exit.ErrChanges)
	}
	return s.Interrupted(err)
}

// showSaved shows a plan as it was made; nothing is run.
func showSaved(a *app.App, o planOptions, p *savedPlan) error {
	if o.saving || o.destroy || len(o.input.Variables) > 0 || len(o.input.Targets) > 0 {
		return exit.Usage("%s is a saved plan, which is shown as it was made: -o, --destroy, --var, --var-file and --target are not possible with it", p.path)
	}
	if err := p.show(a); err != nil {
		return err
	}
	if o.detailed && p.Plan().Changes() {
		return exit.Reported(exit.ErrChanges)
	}
	return nil
}

// savable refuses, before anything runs, a plan that could not be saved or not
// be applied.
func (o *planOptions) savable() error {
	if o.destroy {
		return exit.Usage("-o with --destroy: only what an apply would do can be saved; \"deployster destroy --confirm ONCE\" shows what it removes and asks")
	}
	if o.out == "" || o.out == "-" {
		return exit.Usage("-o %s: a plan is saved to a file; give its name", o.out)
	}
	inputs := slices.Clone(o.files)
	for _, v := range o.input.Variables {
		if v.File != "" {
			inputs = append(inputs, v.File)
		}
	}
	for _, path := range inputs {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			return exit.Usage("%s can be read only once, and an apply of the plan has to read it again: make it a file", path)
		}
	}
	return replaceable(o.out)
}

// replaceable refuses to write a plan over anything but a plan.
func replaceable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return exit.Usage("-o %s: there is no directory %s", path, filepath.Dir(path))
		}
		return nil
	case err != nil:
		return exit.Invalid(fmt.Errorf("looking where to save the plan: %w", err))
	case info.Mode().IsRegular() && (info.Size() == 0 || planfile.IsAt(path)):
		return nil
	default:
		return exit.Usage("-o %s: it is there and is no saved plan, so it is not overwritten; give another name, or remove it", path)
	}
}

// save writes a plan to a file, which is there only when it is whole.
func (o *planOptions) save(s *session.Started, plan *runner.Plan, salt planfile.Salt, made time.Time, place *replacement) (*savedPlan, error) {
	variables, err := variableHashes(s.Input, salt)
	if err != nil {
		return nil, fmt.Errorf("saving the plan: %w", err)
	}
	where, err := engineOf(s)
	if err != nil {
		return nil, err
	}
	f := &planfile.File{
		CreatedAt: made.UTC(), Deployster: version.Current(), Salt: salt, Run: plan.Run, Engine: where,
		ManifestHash: s.Manifest.Hash(), Definitions: map[string]string{}, Targets: o.input.Targets,
		Variables: variables, Resources: plan.Resources,
	}
	for _, path := range o.files {
		f.Manifests = append(f.Manifests, s.Below(path))
	}
	for _, r := range s.Manifest.Resources {
		if f.Definitions[r.Name], err = salt.Fingerprint(r.Hash()); err != nil {
			return nil, fmt.Errorf("saving what is said of %s: %w", r.Name, err)
		}
	}
	for _, v := range o.input.Variables {
		if v.File != "" {
			f.Given = append(f.Given, planfile.Variable{File: s.Below(v.File)})
		} else {
			f.Given = append(f.Given, planfile.Variable{Name: v.Name})
		}
	}
	data, err := f.Encode()
	if err != nil {
		return nil, err
	}
	if err := replaceable(o.out); err != nil {
		return nil, err
	}
	if err := place.fill(data); err != nil {
		return nil, fmt.Errorf("saving the plan: %w", err)
	}
	return &savedPlan{f, o.out}, nil
}

// replacement is a file, which only its owner can read, on its way into a place
// where it will be at once.
type replacement struct {
	path string
	file *os.File
}

// replace makes room for a file, and fails where there can be none.
func replace(path string) (*replacement, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".plan-*") // mode 0600
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("-o %s: nothing can be written there: %w", path, err))
	}
	return &replacement{path, f}, nil
}

// fill writes the file and puts it into its place.
func (r *replacement) fill(data []byte) error {
	_, err := r.file.Write(data)
	if err = errors.Join(err, r.file.Sync(), r.file.Close()); err != nil {
		return err
	}
	return os.Rename(r.file.Name(), r.path)
}

// discard removes what was not put into its place.
func (r *replacement) discard() {
	_ = r.file.Close()
	_ = os.Remove(r.file.Name())
}
