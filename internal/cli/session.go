package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/manifest"
)

// stateDir is what Deployster keeps below a workspace.
const stateDir = engine.StateDir

// inputFlags are the flags of commands that read manifests.
type inputFlags struct {
	variables []manifest.VariableFlag
	targets   []string
	removing  bool               // targets are to be removed: they take along what depends on them
	fits      func(*input) error // of a saved plan; may be nil: any input will do
	last      map[string]any     // variables that win over all those, taken as they are
	builtin   map[string]any     // variables that the program sets besides the usual ones
	strict    bool               // variables that nothing reads are an error
	usage     *manifest.Usage    // collects over several inputs; nil is one for each
}

func (f *inputFlags) register(c *cobra.Command) {
	f.registerVariables(c)
	c.Flags().StringArrayVar(&f.targets, "target", nil, "only this resource and what it depends on (repeatable)")
}

// registerVariables adds --var and --var-file, which together keep the order of
// the command line, and --strict, which is about them.
func (f *inputFlags) registerVariables(c *cobra.Command) {
	into := &f.variables
	c.Flags().BoolVar(&f.strict, "strict", false, "refuse variables of --var and --var-file that nothing reads")
	c.Flags().Var(&variableFlag{into, func(s string) (manifest.VariableFlag, error) {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return manifest.VariableFlag{}, fmt.Errorf("%q is not NAME=VALUE", s)
		}
		return manifest.VariableFlag{Name: name, Value: value}, nil
	}}, "var", "set a variable, as NAME=VALUE (repeatable)")
	c.Flags().Var(&variableFlag{into, func(s string) (manifest.VariableFlag, error) {
		if s == "" {
			return manifest.VariableFlag{}, errors.New("the path of a file is missing")
		}
		return manifest.VariableFlag{File: s}, nil
	}}, "var-file", "set the variables of a YAML file (repeatable; later ones win)")
}

type variableFlag struct {
	into  *[]manifest.VariableFlag
	parse func(string) (manifest.VariableFlag, error)
}

func (v *variableFlag) String() string { return "" }
func (v *variableFlag) Type() string   { return "value" }
func (v *variableFlag) Set(s string) error {
	flag, err := v.parse(s)
	if err == nil {
		*v.into = append(*v.into, flag)
	}
	return err
}

// input is what the manifests and variables of a command came to.
type input struct {
	workspace   string
	work        string // of the run, below the workspace
	run         string // ULID
	started     time.Time
	expressions *expression.Evaluator
	variables   map[string]any
	builtin     map[string]any // those of the variables that deployster sets itself, in every run
	manifest    *manifest.Manifest
	remove      []string // what a destroy removes; nil is everything
	usage       *manifest.Usage
}

// environment finds the workspace and loads the variables.
func (a *app) environment(flags inputFlags, confirm string) (*input, error) {
	workspace, err := a.workspace()
	if err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // without a home there is no configuration in it
	}
	in := &input{workspace: workspace, started: a.now(), expressions: expression.New(workspace), usage: flags.usage}
	if in.usage == nil && len(flags.variables)+len(flags.last) > 0 { // else nobody wants to know
		in.usage = &manifest.Usage{}
	}
	id, err := ulid.New(ulid.Timestamp(in.started), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making an id for the run: %w", err)
	}
	in.run = id.String()
	in.work = filepath.Join(workspace, stateDir, "work", in.run)
	conf := ""
	if home != "" {
		conf = filepath.Join(home, stateDir)
	}
	in.builtin = map[string]any{
		"_version": version(), "_verbose": a.global.verbose, "_conf": conf,
		"_workspace": workspace, "_work": in.work, "_confirm": confirm,
	}
	builtin := maps.Clone(in.builtin)
	maps.Copy(builtin, flags.builtin)
	in.variables, err = manifest.LoadVariables(manifest.VariableOptions{
		ConfDir: conf, Workspace: workspace, Flags: flags.variables, Last: flags.last, Evaluator: in.expressions, Builtin: builtin, Usage: in.usage,
	})
	if err != nil {
		return nil, &usageError{err}
	}
	for name, value := range in.variables {
		if _, ours := builtin[name]; !ours {
			a.crashes.hide(value)
		}
	}
	return in, nil
}

// load reads the manifests.
func (a *app) load(files []string, flags inputFlags, confirm string) (*input, error) {
	if err := refuseSavedPlans(files); err != nil {
		return nil, err
	}
	sources, err := manifest.ReadFiles(files)
	if err != nil {
		return nil, &usageError{err}
	}
	return a.loadSources(sources, flags, confirm)
}

// loadSources is load of manifests that have been read.
func (a *app) loadSources(sources []manifest.Source, flags inputFlags, confirm string) (*input, error) {
	in, err := a.environment(flags, confirm)
	if err != nil {
		return nil, err
	}
	if err := refuseSavedSources(sources); err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir()
	m, err := manifest.Load(sources, manifest.Options{
		Variables: in.variables, Evaluator: in.expressions, Workspace: in.workspace, Home: home, Usage: in.usage,
	})
	if err != nil {
		return nil, &usageError{err}
	}
	switch {
	case len(flags.targets) == 0:
	case flags.removing:
		in.remove, err = m.Dependents(flags.targets)
	default:
		m, err = m.Select(flags.targets)
	}
	if err != nil {
		return nil, &usageError{err}
	}
	in.manifest = m
	if flags.fits != nil {
		if err := flags.fits(in); err != nil {
			return nil, err
		}
	}
	return in, knownTypes(m)
}

// knownTypes refuses a type that reads like one that ships and is none.
func knownTypes(m *manifest.Manifest) error {
	var problems []manifest.Problem
	for _, r := range m.Resources {
		name, ships := strings.CutPrefix(r.Type, shippedPrefix)
		_, known := shipped.Lookup(name)
		if tag := strings.IndexAny(name, ":@"); ships && tag > 0 {
			if _, known := shipped.Lookup(name[:tag]); known {
				problems = append(problems, manifest.Problem{
					Position: r.Position, Path: "resources." + r.Name + ".type",
					Message: fmt.Sprintf("%q would be an image in a registry; the type that ships with Deployster is of its version and has no tag: write %s%s", r.Type, shippedPrefix, name[:tag]),
				})
			}
		}
		if !ships || known || strings.ContainsAny(name, ":@/") {
			continue
		}
		problems = append(problems, manifest.Problem{
			Position: r.Position, Path: "resources." + r.Name + ".type",
			Message: fmt.Sprintf("%q is not a type that ships with this version; those are %s", r.Type, strings.Join(shipped.Names(), ", ")),
			Hint:    suggest.Closest(name, shipped.Names()),
		})
	}
	if len(problems) > 0 {
		return &usageError{&manifest.Error{Problems: problems}}
	}
	return nil
}

// logger writes warnings; what the packages below say of their workings is for
// their tests.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// logPath is where the deployment log is.
func (a *app) logPath(workspace string) (string, error) {
	switch path := a.global.log; {
	case path == "":
		return filepath.Join(workspace, stateDir, "deployments.db"), nil
	case strings.Contains(path, "://"):
		return "", usage("--log %s: it must be the path of a file", path)
	default:
		return path, nil
	}
}

// openLog opens the deployment log, which is made when it is not there.
func (a *app) openLog(ctx context.Context, workspace string, news io.Writer) (deploylog.Log, error) {
	path, err := a.logPath(workspace)
	if err != nil {
		return nil, err
	}
	log, err := sqlite.Open(ctx, path, sqlite.Options{Logger: logger(news), Now: a.now})
	if err != nil {
		return nil, err
	}
	return log, nil
}
