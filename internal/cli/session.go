package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// stateDir is what Deployster keeps below a workspace.
const stateDir = engine.StateDir

// inputFlags are the flags of commands that read manifests.
type inputFlags struct {
	variables []manifest.VariableFlag
	targets   []string
	removing  bool                    // targets are to be removed: they take along what depends on them
	fits      func(*work.Input) error // of a saved plan; may be nil: any input will do
	strict    bool                    // variables that nothing reads are an error
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

// inputs loads manifests with the variables of these flags.
func (a *app) inputs(flags inputFlags) (work.Inputs, error) {
	workspace, err := a.workspace()
	if err != nil {
		return work.Inputs{}, err
	}
	home, _ := os.UserHomeDir() // without a home there is no configuration in it
	return work.Inputs{
		Workspace: workspace, Home: home, Version: version(), Verbose: a.global.verbose,
		Variables: flags.variables, Now: a.now, Hide: a.crashes.hide,
	}, nil
}

// variables loads the variables, without any manifest.
func (a *app) variables(flags inputFlags, confirm runner.ConfirmMode) (*work.Input, error) {
	inputs, err := a.inputs(flags)
	if err != nil {
		return nil, err
	}
	return inputs.Evaluate(work.LoadOptions{Confirm: confirm})
}

// load reads the manifests.
func (a *app) load(files []string, flags inputFlags, confirm runner.ConfirmMode) (*work.Input, error) {
	if err := refuseSavedPlans(files); err != nil {
		return nil, err
	}
	sources, err := manifest.ReadFiles(files)
	if err != nil {
		return nil, &usageError{err}
	}
	if err := refuseSavedSources(sources); err != nil {
		return nil, err
	}
	inputs, err := a.inputs(flags)
	if err != nil {
		return nil, err
	}
	return inputs.Load(sources, work.LoadOptions{Confirm: confirm, Targets: flags.targets, Removing: flags.removing, Accept: flags.fits})
}

// config is what all runs of a command have in common.
func (a *app) config(log deploylog.Log, input inputFlags, f engineFlags) (work.Config, error) {
	policy, err := f.policy()
	if err != nil {
		return work.Config{}, err
	}
	inputs, err := a.inputs(input)
	if err != nil {
		return work.Config{}, err
	}
	return work.Config{
		Inputs: inputs, Log: log, InitCache: a.initCache(f), Parallelism: a.global.parallelism, Pull: policy,
		Network: f.network, Memory: int64(f.memory), Pids: f.pids, Notice: func(string) {}, Crashed: a.crashes.add,
	}, nil
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
