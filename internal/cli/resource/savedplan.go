package resource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// savedPlan is a plan that was read from a file.
type savedPlan struct {
	*planfile.File
	path string
}

// readSavedPlan reads the saved plan among the arguments of a command; nil when
// there is none.
func readSavedPlan(files []string) (*savedPlan, error) {
	i := slices.IndexFunc(files, planfile.IsAt)
	if i < 0 {
		return nil, nil
	}
	path := files[i]
	if len(files) > 1 {
		return nil, exit.Usage("%s is a saved plan: it stands alone, because it names its manifests itself", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("reading the saved plan: %w", err))
	}
	data, err := io.ReadAll(io.LimitReader(f, planfile.MaxSize+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, exit.Invalid(fmt.Errorf("reading the saved plan: %w", err))
	}
	plan, err := planfile.Decode(data)
	if err != nil {
		return nil, exit.Usage("the plan %s %w", path, err)
	}
	return &savedPlan{plan, path}, nil
}

// applySaved applies a saved plan.
func applySaved(ctx context.Context, a *app.App, o applyOptions, p *savedPlan) error {
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
	if p.Deployster != version.Current() {
		s.News.Notice(fmt.Sprintf("note: the plan was made by deployster %s, and this is %s: types that ship with it may differ", p.Deployster, version.Current()))
	}
	if err := p.sameEngine(s); err != nil {
		return err
	}
	s.Spec.Fingerprint, s.Spec.Bound = p.Salt.Fingerprint, p.Bound()
	s.Caller.Details["plan"] = p.Digest
	err = session.Execute(a, s, (*runner.Runner).Apply, mode, o.keepGoing, func(*runner.Runner, context.Context, runner.Caller) (*runner.Plan, error) {
		return p.Plan(), nil
	})
	if refused := new(runner.DeviationError); errors.As(err, &refused) && !a.JSON() {
		fmt.Fprintf(a.Err, "What is not as planned was not touched. To plan again: %s\n", p.planCommand())
	}
	return err
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
	for _, path := range p.Manifests {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return given, exit.Usage("the plan %s is of %s, which is not here: apply it in the directory in which it was made", p.path, path)
		}
	}
	values := map[string][]manifest.VariableFlag{}
	files := false
	for _, v := range given.Variables {
		if files = files || v.File != ""; v.File == "" {
			values[v.Name] = append(values[v.Name], v)
		}
	}
	var missing []string
	for _, v := range p.Given {
		if text := "--var " + v.Name + "=…"; v.Name != "" && values[v.Name] == nil && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	if len(missing) > 0 {
		return given, exit.Usage("the plan %s was made with variables whose values it does not hold; give them again: %s", p.path, strings.Join(missing, " "))
	}
	flags := session.Flags{Targets: p.Targets, Variables: given.Variables, Fits: p.fits, Strict: given.Strict}
	if files {
		return flags, nil
	}
	// In the order that the plan was made with, since later ones win.
	flags.Variables = nil
	for _, v := range p.Given {
		switch again := values[v.Name]; {
		case v.File != "":
			flags.Variables = append(flags.Variables, manifest.VariableFlag{File: v.File})
		case len(again) > 0:
			flags.Variables = append(flags.Variables, again[0])
			values[v.Name] = again[1:]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		flags.Variables = append(flags.Variables, values[name]...)
	}
	return flags, nil
}

// fits refuses an input other than that of which the plan was made.
func (p *savedPlan) fits(in *work.Input) error {
	if in.Manifest.Hash() != p.ManifestHash {
		return exit.Usage("%s changed since the plan %s was made: %s; plan again: %s",
			strings.Join(p.Manifests, " + "), p.path, strings.Join(p.redefined(in.Manifest), ", "), p.planCommand())
	}
	now, err := variableHashes(in, p.Salt)
	if err != nil {
		return exit.Invalid(err)
	}
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch was, ok := p.Variables[name]; {
		case !ok:
			differ = append(differ, name+" is new")
		case was != now[name]:
			differ = append(differ, name+" has another value")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Variables)) {
		if _, ok := now[name]; !ok {
			differ = append(differ, name+" was removed")
		}
	}
	if len(differ) > 0 {
		return exit.Usage("the variables are not those with which the plan %s was made: %s; give them as they were, or plan again: %s",
			p.path, strings.Join(differ, ", "), p.planCommand())
	}
	return nil
}

// redefined says where a manifest differs from that of the plan.
func (p *savedPlan) redefined(m *manifest.Manifest) []string {
	var said []string
	for _, r := range m.Resources {
		switch was, ok := p.Definitions[r.Name]; {
		case !ok:
			said = append(said, fmt.Sprintf("%s (%s) is new", r.Name, r.Position))
		case !p.isHashOf(was, r.Hash()):
			said = append(said, fmt.Sprintf("%s (%s) is another", r.Name, r.Position))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Definitions)) {
		if m.Resource(name) == nil {
			said = append(said, name+" was removed")
		}
	}
	if len(said) == 0 {
		said = []string{"its plugs are others"}
	}
	return said
}

// isHashOf reports whether a hash of the plan is that of a text.
func (p *savedPlan) isHashOf(hash, text string) bool {
	now, err := p.Salt.Fingerprint(text)
	return err == nil && now == hash
}

// variableHashes identifies the values of the variables, but for those that
// deployster sets itself: they describe the run, not the desired state.
func variableHashes(in *work.Input, salt planfile.Salt) (map[string]string, error) {
	hashes := map[string]string{}
	for name, value := range in.Variables {
		if _, own := in.Builtin[name]; own {
			continue
		}
		hash, err := salt.Fingerprint(value)
		if err != nil {
			return nil, fmt.Errorf("taking the hash of the variable %s: %w", name, err)
		}
		hashes[name] = hash
	}
	return hashes, nil
}

// engineOf is where the containers of a command run.
func engineOf(s *session.Started) (planfile.Engine, error) {
	info, err := s.Engine.Info(s.Ctx)
	if err != nil {
		return planfile.Engine{}, fmt.Errorf("asking the engine what it is: %w", err)
	}
	return planfile.Engine{Name: info.Name, Address: info.Address, Network: s.Containers.Network, Remote: info.Remote}, nil
}

// sameEngine refuses to apply a plan elsewhere than where it was made.
func (p *savedPlan) sameEngine(s *session.Started) error {
	now, err := engineOf(s)
	if err != nil || now == p.Engine {
		return err
	}
	return exit.Usage("the plan %s was made on %s, and this is %s: apply it there, or plan again: %s", p.path, placeText(p.Engine), placeText(now), p.planCommand())
}

func placeText(e planfile.Engine) string {
	text := fmt.Sprintf("%s at %s", e.Name, e.Address)
	if e.Remote {
		text += " (remote)"
	}
	if e.Network != "" {
		text += " with --network " + e.Network
	}
	return text
}

// again is the command that makes the plan anew.
func (p *savedPlan) planCommand() string {
	words := []string{"deployster", "plan"}
	for _, path := range p.Manifests {
		words = append(words, output.Operand(path))
	}
	for _, t := range p.Targets {
		words = append(words, "--target", t)
	}
	for _, v := range p.Given {
		if v.File != "" {
			words = append(words, "--var-file", output.Operand(v.File))
		} else {
			words = append(words, "--var", v.Name+"=…")
		}
	}
	words = append(words, p.network()...)
	return output.CommandLine(append(words, "-o", output.Operand(p.path))...)
}

// apply is the command that applies the plan.
func (p *savedPlan) applyCommand() string {
	words := []string{"deployster", "apply", output.Operand(p.path)}
	for _, v := range p.Given {
		if v.Name != "" {
			words = append(words, "--var", v.Name+"=…")
		}
	}
	return output.CommandLine(append(words, p.network()...)...)
}

// network is the flag that the plan was made with.
func (p *savedPlan) network() []string {
	if p.Engine.Network == "" {
		return nil
	}
	return []string{"--network", p.Engine.Network}
}

// show writes the plan as "plan FILE" does, without running anything.
func (p *savedPlan) show(a *app.App) error {
	plan := p.Plan()
	return a.Report("plan").Show(
		func(lines *view.JSON) {
			lines.Plan(plan)
			lines.SavedPlan(p.path, p.Digest, p.CreatedAt)
		},
		func() error {
			origin := fmt.Sprintf("%s: plan of %s, made %s UTC by deployster %s",
				p.path, strings.Join(p.Manifests, " + "), p.CreatedAt.Format(time.DateTime), p.Deployster)
			return view.SavedPlan(a.Out, origin, plan, a.PlanOptions(a.Out))
		})
}
