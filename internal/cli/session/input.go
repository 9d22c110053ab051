package session

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// Flags are the flags of commands that read manifests.
type Flags struct {
	Variables []manifest.VariableFlag
	Targets   []string
	Removing  bool                    // targets are to be removed: they take along what depends on them
	Fits      func(*work.Input) error // of a saved plan; may be nil: any input will do
	Strict    bool                    // variables that nothing reads are an error
}

// Register adds the flags of commands that read whole manifests.
func (f *Flags) Register(c *cobra.Command) {
	f.RegisterVariables(c)
	c.Flags().StringArrayVar(&f.Targets, "target", nil, "only this resource and what it depends on (repeatable)")
}

// RegisterVariables adds --var and --var-file, which together keep the order of
// the command line, and --strict, which is about them.
func (f *Flags) RegisterVariables(c *cobra.Command) {
	into := &f.Variables
	c.Flags().BoolVar(&f.Strict, "strict", false, "refuse variables of --var and --var-file that nothing reads")
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

func (v *variableFlag) Type() string { return "value" }

func (v *variableFlag) Set(s string) error {
	flag, err := v.parse(s)
	if err == nil {
		*v.into = append(*v.into, flag)
	}
	return err
}

// inputs loads manifests with the variables of these flags.
func inputs(a *app.App, flags Flags) work.Inputs {
	home, _ := os.UserHomeDir() // without a home there is no configuration in it
	return work.Inputs{
		Workspace: a.Workspace, Home: home, Version: version.Current(), Verbose: a.Verbose,
		Variables: flags.Variables, Now: a.Now, Hide: a.Crashes.Hide,
	}
}

// Variables loads the variables, without any manifest.
func Variables(a *app.App, flags Flags, confirm runner.ConfirmMode) (*work.Input, error) {
	inputs := inputs(a, flags)
	return inputs.Evaluate(work.LoadOptions{Confirm: confirm})
}

// Load reads the manifests.
func Load(a *app.App, files []string, flags Flags, confirm runner.ConfirmMode) (*work.Input, error) {
	if err := refuseSavedPlans(files); err != nil {
		return nil, err
	}
	sources, err := manifest.ReadFiles(files)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	if err := refuseSavedSources(sources); err != nil {
		return nil, err
	}
	inputs := inputs(a, flags)
	return inputs.Load(sources, work.LoadOptions{Confirm: confirm, Targets: flags.Targets, Removing: flags.Removing, Accept: flags.Fits})
}

// config is what all runs of a command have in common.
func config(a *app.App, log deploylog.Log, input Flags, f engines.Flags) (work.Config, error) {
	policy, err := f.Policy()
	if err != nil {
		return work.Config{}, err
	}
	inputs := inputs(a, input)
	return work.Config{
		Inputs: inputs, Log: log, InitCache: engines.InitCache(a, f), Parallelism: a.Global.Parallelism, Pull: policy,
		Network: f.Network, Memory: int64(f.Memory), Pids: f.Pids, Notice: func(string) {}, Crashed: a.Crashes.Add,
	}, nil
}
