// Package cli is the command line. It assembles the tree of commands, of which
// there is a package for each noun, and turns what a command returns into an exit
// code.
//
// A command fills an options struct from its arguments and flags and hands it to a
// function that runs it. What nouns share has packages of its own, such as output,
// which decides between text and JSON, and session, which prepares a run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/complete"
	"github.com/deployster-go/deployster/internal/cli/console"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/env"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/explain"
	"github.com/deployster-go/deployster/internal/cli/format"
	"github.com/deployster-go/deployster/internal/cli/gc"
	"github.com/deployster-go/deployster/internal/cli/host"
	"github.com/deployster-go/deployster/internal/cli/image"
	"github.com/deployster-go/deployster/internal/cli/logs"
	"github.com/deployster-go/deployster/internal/cli/module"
	"github.com/deployster-go/deployster/internal/cli/notification"
	"github.com/deployster-go/deployster/internal/cli/output"
	pipelinecmd "github.com/deployster-go/deployster/internal/cli/pipeline"
	"github.com/deployster-go/deployster/internal/cli/resource"
	"github.com/deployster-go/deployster/internal/cli/schemas"
	"github.com/deployster-go/deployster/internal/cli/serve"
	"github.com/deployster-go/deployster/internal/cli/state"
	"github.com/deployster-go/deployster/internal/cli/token"
	"github.com/deployster-go/deployster/internal/cli/typecmd"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/suggest"
)

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	a := app.New()
	return run(a, newRoot(a), args)
}

// run runs a command line and returns the exit code.
func run(a *app.App, root *cobra.Command, args []string) int {
	if len(args) > 0 && args[0] != "type" { // a type ends as its engine is used to
		// What no guard can catch ends the process by SIGABRT: the 2 that the Go
		// runtime would exit with says that there are changes.
		debug.SetTraceback("crash")
	}
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // also without descriptions
		complete.Register(a, root) // looks at every flag of every command, which takes longer than all else of a start here
	}
	args = withVerb(root, args)
	root.SetArgs(args)
	a.Crashes = app.Crashes{Now: a.Now, About: func() string { return about(root, args) }}
	a.Crashes.Hide(given(args))
	err := crash.Do("running the command", func() error { return root.ExecuteContext(context.Background()) })
	a.CloseTunnels()
	a.CloseTraces()
	a.CloseDatabase()
	for _, c := range crash.All(err) {
		a.Crashes.Add(c)
	}
	err = invalidJSON(a, err)
	fmt.Fprint(a.Err, exit.Text(err))
	if a.Crashes.Print(a.Err) {
		return crash.ExitCode
	}
	return exit.Code(err)
}

func newRoot(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "deployster [command]",
		Short: "Deploy what manifests declare, through container images, and log every step",
		Long: `Deployster brings resources to the configuration that manifests declare.

Each resource type is a container image that speaks JSON: it discovers the
state of a resource, plans the actions that are needed, and carries them out.
Every step is recorded in one append-only deployment log.

"deployster MANIFEST…" without a command does "deployster apply MANIFEST…".`,
		Example: `  deployster plan web.yaml                       what would change
  deployster apply web.yaml --confirm NO         change it, without questions
  deployster log latest run/web.yaml             what was applied last
  deployster validate web.yaml --var tag=1.2     is the manifest sound`,
		Version:       a.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			return errors.Join(a.Check(c), a.FindWorkspace())
		},
		Args: noArguments,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetVersionTemplate("deployster {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exit.Usage("%s (see %q)", flagText(err), c.CommandPath()+" --help")
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.Global.Engine, "engine", "auto", "container engine: docker, oci (no daemon), kubernetes, or auto: docker where it answers, else oci")
	flags.StringVar(&a.Global.OciRuntime, "oci-runtime", "", "runtime of the oci engine: runc, crun, youki, runsc or a path (default runc)")
	flags.BoolVar(&a.Global.Unbounded, "allow-unbounded", false, "let the oci engine run where no control groups can be used, with neither memory nor processes bounded")
	engines.RegisterKubernetes(flags, &a.Global.Kubernetes)
	flags.StringVar(&a.Global.Log, "log", "", "deployment log: a file, or a database as postgres://USER@HOST/DATABASE?schema=NAME (default DEPLOYSTER_LOG, else .deployster/deployments.db below the workspace)")
	flags.StringVar(&a.Global.Server, "server", "", "server whose log to use: https://HOST, http://HOST of this machine, or unix:PATH (default DEPLOYSTER_SERVER)")
	flags.StringVar(&a.Format, "output", "text", "output format: text or json")
	flags.IntVar(&a.Global.Parallelism, "parallelism", 10, "how many resources, steps of hosts or jobs of build groups to process at once")
	flags.BoolVarP(&a.Verbose, "verbose", "v", false, "show every line that containers print, and ask resource types to be verbose")
	root.AddCommand(
		resource.NewApplyCommand(a), resource.NewPlanCommand(a), resource.NewDestroyCommand(a), resource.NewDriftCommand(a), resource.NewAdoptCommand(a), resource.NewLockCommand(a), resource.NewValidateCommand(a),
		resource.NewGraphCommand(a), resource.NewEvalCommand(a), console.NewCommand(a), resource.NewOutputCommand(a), format.NewCommand(a), pipelinecmd.NewCommand(a), env.NewCommand(a), build.NewCommand(a), serve.NewCommand(a), notification.NewCommand(a), explain.NewCommand(a), host.NewCommand(a),
		logs.NewCommand(a), token.NewCommand(a), typecmd.NewCommand(a), image.NewCommand(a), module.NewCommand(a), state.NewListCommand(a), state.NewCommand(a), gc.NewCommand(a), schemas.NewCommand(a), versionCommand(a),
	)
	amendHelp(root)
	root.InitDefaultCompletionCmd("completion")
	refuseArguments(root)
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			c.Args, c.RunE = noArguments, root.RunE
		}
		if c.Name() == "completion" {
			c.Short = "Write a completion script for bash, zsh, fish or powershell"
		}
	}
	return root
}

// noArguments refuses what is given to a command that only groups others.
func noArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasParent():
		return exit.Usage("%q is not a command of %q%s", args[0], c.CommandPath(), suggestion(c, args[0]))
	}
	return exit.Usage("%q is neither a command nor a manifest that exists%s", args[0], suggestion(c, args[0]))
}

// suggestion is the command that was meant, or where to look.
func suggestion(c *cobra.Command, typed string) string {
	var names, begun []string
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		names = append(append(names, below.Name()), below.Aliases...)
		if typed != "" && strings.HasPrefix(below.Name(), typed) {
			begun = append(begun, below.Name())
		}
	}
	meant := suggest.Closest(typed, names)
	if meant == "" && len(begun) == 1 {
		meant = begun[0]
	}
	if meant == "" {
		return fmt.Sprintf("; see %q", c.CommandPath()+" --help")
	}
	return fmt.Sprintf("; did you mean %q?", meant)
}

// refuseArguments makes what the commands say of wrong arguments wrong usage.
func refuseArguments(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil {
				return nil
			}
			if f := c.Flags().Lookup("file"); f != nil && f.Shorthand == "f" && !f.Changed {
				if i := slices.IndexFunc(args, looksLikeManifest); i >= 0 {
					return exit.Usage("%s takes its file with a flag: use -f %s", c.CommandPath(), output.ShellWord(output.Operand(args[i])))
				}
			}
			if exit.IsInvalid(err) {
				return err
			}
			return exit.Usage("%w (see %q)", err, c.CommandPath()+" --help")
		}
	}
	for _, below := range c.Commands() {
		refuseArguments(below)
	}
}

// withVerb inserts "apply" where a manifest stands in the place of a command.
func withVerb(root *cobra.Command, args []string) []string {
	if len(args) > 2 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		last := len(args) - 1 // what is being typed
		return append(append([]string{args[0]}, withVerb(root, args[1:last])...), args[last])
	}
	if c, _, err := root.Find(args); err == nil && c != root {
		return args
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") && !looksLikeManifest(args[0]) {
		return args // a mistyped command, whatever follows
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		if c, _, err := root.Find([]string{arg}); err == nil && c != root {
			return args
		}
		if looksLikeManifest(arg) {
			return append([]string{"apply"}, args...)
		}
	}
	return args
}

func looksLikeManifest(arg string) bool {
	switch filepath.Ext(arg) {
	case ".yaml", ".yml", ".json":
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}
