package resource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/report"
)

// savedPlan is a plan in a file.
type savedPlan struct {
	*planfile.File
	path   string
	server string // that --server named; "" is none
}

// readSavedPlan reads the saved plan among the arguments of a command; nil when
// there is none.
func readSavedPlan(a *app.App, files []string) (*savedPlan, error) {
	i := slices.IndexFunc(files, planfile.IsAt)
	if i < 0 {
		return nil, nil
	}
	path := files[i]
	if len(files) > 1 {
		return nil, exit.Usage("%s is a saved plan: it stands alone, because it names its manifests itself", path)
	}
	plan, err := planfile.Read(path)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	return &savedPlan{plan, path, a.Global.Server}, nil
}

// showSaved shows a plan as it was made; nothing is run.
func showSaved(a *app.App, o planOptions, p *savedPlan) error {
	if o.saving || o.input.Removing || len(o.input.Variables) > 0 || len(o.input.Targets)+len(o.input.Replace) > 0 || o.input.Prune || o.input.Locked {
		return exit.Usage("%s is a saved plan, which is shown as it was made: -o, --destroy, --var, --var-file, --target, --replace, --prune and --locked are not possible with it", p.path)
	}
	plan := p.Plan()
	err := a.Report("plan").Show(
		func(lines *view.JSON) {
			lines.Plan(plan)
			lines.SavedPlan(p.path, p.Digest, p.CreatedAt)
		},
		func() error {
			origin := fmt.Sprintf("%s: plan of %s, made %s UTC by deployster %s",
				p.path, strings.Join(p.Manifests, " + "), p.CreatedAt.Format(time.DateTime), p.Deployster)
			return view.SavedPlan(a.Out, origin, plan, a.PlanOptions(a.Out))
		})
	if err == nil && o.detailed && plan.Changes() {
		return exit.Reported(exit.ErrChanges)
	}
	return err
}

// applySaved applies a saved plan.
func applySaved(ctx context.Context, a *app.App, o applyOptions, p *savedPlan) error {
	if p.Server != "" {
		return p.elsewhere("here")
	}
	flags, err := p.flags(o.input)
	if err != nil {
		return err
	}
	mode, err := confirmOpen(a, p, o.confirm)
	if err != nil {
		return err
	}
	// What a configuration sees of --confirm is what it saw for the plan.
	s, err := session.Start(ctx, a, "apply", p.Manifests, flags, o.engine, runner.ConfirmNo)
	if err != nil {
		return err
	}
	defer s.Close()
	p.noteVersion(a)
	if now := s.Place(); now != p.Engine {
		return exit.Usage("the plan %s was made on %s, and this is %s: apply it there, or plan again: %s", p.path, p.Engine, now, p.planCommand())
	}
	if log := s.Control.Log.ID(); p.Log.ID != "" && p.Log.ID != log {
		a.Notice(fmt.Sprintf("note: the plan was made with another log (%s): whether a run of that log applied it is not known here", output.InLine(p.Log.ID)))
	}
	s.Bind(p.File, o.again)
	err = p.refused(s.Execute(a, mode, o.keepGoing, p.Plan()))
	if refused := new(deviation.Error); errors.As(err, &refused) && !a.JSON() {
		fmt.Fprintf(a.Err, "What is not as planned was not touched. To plan again: %s\n", p.planCommand())
	}
	return err
}

// refused names the plan where the log says that it is not to be applied, and what to type.
func (p *savedPlan) refused(err error) error {
	applied, outdated := new(runs.AppliedError), new(runs.OutdatedError)
	switch {
	case errors.As(err, &applied) && applied.Since == nil:
		return exit.Usage("%s: %w:\n%s --again, or %s", p.path, applied, p.applyCommand(), p.planCommand())
	case errors.As(err, &applied), errors.As(err, &outdated):
		return exit.Usage("%s: %w: %s", p.path, err, p.planCommand())
	}
	return err
}

// elsewhere refuses a plan that was made through another server than where it is to be applied.
func (p *savedPlan) elsewhere(place string) error {
	made := "without a server"
	remedy := "without --server and DEPLOYSTER_SERVER"
	if p.Server != "" {
		made, remedy = "through server "+output.InLine(p.Server), "with --server "+output.ShellWord(p.Server)
	}
	return exit.Usage("the plan %s was made %s, and is not applied %s: apply it %s, or plan again: %s", p.path, made, place, remedy, p.planCommand())
}

// noteVersion says so where the plan was made by another version.
func (p *savedPlan) noteVersion(a *app.App) {
	if p.Deployster != a.Version {
		a.Notice(fmt.Sprintf("note: the plan was made by deployster %s, and this is %s: types that ship with it may differ", p.Deployster, a.Version))
	}
}

// confirmOpen is how often a person is asked about what the plan leaves open. What it
// does not leave open needs no answer: the plan was the question.
func confirmOpen(a *app.App, p *savedPlan, confirm prompt.ConfirmFlags) (runner.ConfirmMode, error) {
	mode, err := confirm.Parse()
	open := p.Open()
	if err != nil || len(open) == 0 || mode == runner.ConfirmNo {
		return runner.ConfirmNo, err
	}
	if _, err := prompt.ConfirmMode(a, confirm); err != nil {
		return "", exit.Usage("the plan %s leaves %s open (%s), and there is nobody to ask about them: say --yes (or --confirm NO) to apply them unseen, or apply it on a terminal",
			p.path, phrase.Count(len(open), "resource"), strings.Join(open, ", "))
	}
	return mode, nil
}

// flags are those of this command line, completed by those that the plan was
// made with.
func (p *savedPlan) flags(given session.Flags) (session.Flags, error) {
	if len(given.Targets) > 0 {
		return given, exit.Usage("--target is not possible with a saved plan: %s was made for what it is for; plan again with --target", p.path)
	}
	if len(given.Replace) > 0 || given.Prune {
		return given, exit.Usage("--replace and --prune are not possible with a saved plan: %s says what is removed; plan again with them", p.path)
	}
	for _, path := range p.Manifests {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return given, exit.Usage("the plan %s is of %s, which is not here: apply it in the directory in which it was made", p.path, path)
		}
	}
	variables, missing := p.Complete(given.Variables)
	if len(missing) > 0 {
		return given, exit.Usage("the plan %s was made with variables whose values it does not hold; give them again: --var %s=…", p.path, strings.Join(missing, "=… --var "))
	}
	return session.Flags{Targets: p.Targets, Replace: p.Replaced(), Prune: len(p.Pruned()) > 0, Variables: variables, Fits: p.fits, Strict: given.Strict, Locked: given.Locked}, nil
}

// fits refuses an input other than that of which the plan was made.
func (p *savedPlan) fits(in *work.Input) error {
	defined, valued, err := p.Changed(in.Manifest, in.Set())
	switch {
	case err != nil:
		return exit.Invalid(err)
	case len(defined) > 0:
		return exit.Usage("%s changed since the plan %s was made: %s; plan again: %s",
			strings.Join(p.Manifests, " + "), p.path, strings.Join(defined, ", "), p.planCommand())
	case len(valued) > 0:
		return exit.Usage("the variables are not those with which the plan %s was made: %s; give them as they were, or plan again: %s",
			p.path, strings.Join(valued, ", "), p.planCommand())
	}
	included, frozen, _, err := in.Included(p.Open()...)
	if err != nil {
		return exit.Invalid(err)
	}
	texts, err := p.ChangedIncluded(included)
	switch {
	case err != nil:
		return exit.Invalid(err)
	case len(texts) > 0:
		return exit.Usage("what %s includes changed since the plan %s was made: %s; plan again: %s",
			strings.Join(p.Open(), ", "), p.path, strings.Join(texts, ", "), p.planCommand())
	}
	in.Expressions = expression.OverAll(frozen) // or what is edited during the apply would be used unseen
	return nil
}

// planCommand is the command that makes the plan anew.
func (p *savedPlan) planCommand() string {
	words := []string{"deployster", "plan"}
	for _, path := range p.Manifests {
		words = append(words, output.Operand(path))
	}
	for _, t := range p.Targets {
		words = append(words, "--target", t)
	}
	for _, name := range p.Replaced() {
		words = append(words, "--replace", name)
	}
	if len(p.Pruned()) > 0 {
		words = append(words, "--prune")
	}
	return output.CommandLine(append(p.withFlags(words, true), "-o", output.Operand(p.path))...)
}

// applyCommand is the command that applies the plan.
func (p *savedPlan) applyCommand() string {
	return output.CommandLine(p.withFlags([]string{"deployster", "apply", output.Operand(p.path)}, false)...)
}

// withFlags adds the flags that the plan was made with, of which it holds the files.
func (p *savedPlan) withFlags(words []string, files bool) []string {
	for _, v := range p.Given {
		switch {
		case v.Name != "":
			words = append(words, "--var", v.Name+"=…")
		case files:
			words = append(words, "--var-file", output.Operand(v.File))
		}
	}
	if p.server != "" {
		words = append(words, "--server", p.server)
	}
	if p.Engine.Network != "" && p.Server == "" {
		words = append(words, "--network", p.Engine.Network)
	}
	return words
}

// saving is a plan on its way into a file.
type saving struct {
	savedPlan
	place *atomicfile.File
}

// prepare refuses, before anything runs, a plan that could not be saved or not
// be applied.
func (o *planOptions) prepare(a *app.App) (*saving, error) {
	if o.input.Removing {
		return nil, exit.Usage("-o with --destroy: only what an apply would do can be saved; \"deployster destroy --confirm ONCE\" shows what it removes and asks")
	}
	if o.out == "" || o.out == "-" {
		return nil, exit.Usage("-o %s: a plan is saved to a file; give its name", o.out)
	}
	inputs := slices.Clone(o.files)
	for _, v := range o.input.Variables {
		inputs = append(inputs, v.File)
	}
	for _, path := range inputs {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			return nil, exit.Usage("%s can be read only once, and an apply of the plan has to read it again: make it a file", path)
		}
	}
	if err := planfile.Replaceable(o.out); err != nil {
		return nil, exit.Usage("-o %s: %w", o.out, err)
	}
	salt, err := planfile.NewSalt(rand.Reader)
	if err != nil {
		return nil, err
	}
	place, err := atomicfile.Create(o.out)
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("-o %s: nothing can be written there: %w", o.out, err))
	}
	return &saving{savedPlan{&planfile.File{Salt: salt}, o.out, a.Global.Server}, place}, nil
}

// bindIncluded binds the plan to what the resources that it leaves open may include.
func (s *saving) bindIncluded(a *app.App, in *work.Input) error {
	open := s.Open()
	if len(open) == 0 {
		return nil
	}
	files, _, unbound, err := in.Included(open...)
	if err != nil {
		return exit.Invalid(err)
	}
	for _, name := range unbound {
		a.Notice(fmt.Sprintf("note: the plan is not bound to what %s includes: the name of a file is known only when it is applied", name))
	}
	if err := s.PinIncluded(files); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return nil
}

// notWritten says that there is no plan to save.
func (s *saving) notWritten(a *app.App) {
	fmt.Fprintf(a.Err, "The plan is not whole, so %s was not written.\n", s.path)
}

// save writes the plan of an input to its file, which is there only when it is whole. Where it was
// made is known by then.
func (s *saving) save(a *app.App, in *work.Input, o planOptions, plan *report.Plan, report *output.Screen) (err error) {
	s.CreatedAt, s.Deployster, s.Targets = a.Now().UTC(), a.Version, o.input.Targets
	s.Run, s.Resources = plan.Run, plan.Resources
	for _, path := range o.files {
		s.Manifests = append(s.Manifests, in.Below(path))
	}
	for _, v := range o.input.Variables {
		given := planfile.Variable{Name: v.Name}
		if v.File != "" {
			given.File = in.Below(v.File)
		}
		s.Given = append(s.Given, given)
	}
	if err := s.Pin(in.Manifest, in.Set()); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	if err := s.bindIncluded(a, in); err != nil {
		return err
	}
	data, err := s.Encode()
	if err != nil {
		return err
	}
	if err := planfile.Replaceable(s.path); err != nil {
		return exit.Usage("-o %s: %w", s.path, err)
	}
	if _, err = s.place.Write(data); err == nil {
		err = s.place.Commit()
	}
	if err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return report.Show(
		func(lines *view.JSON) { lines.SavedPlan(s.path, s.Digest, s.CreatedAt) },
		func() error { return a.Printf("Saved to %s. Apply it with: %s\n", s.path, s.applyCommand()) })
}
