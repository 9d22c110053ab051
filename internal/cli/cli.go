// Package cli is the command line: flags, wiring, output and exit codes.
//
// One file per command. A command parses its flags into an options struct,
// wires the packages that do the work, and hands them over; what it returns
// becomes the exit code in one place (exitCode). It is the only package that
// knows which engine and which store there are.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/suggest"
)

// app is the process as the commands see it.
type app struct {
	in     *os.File
	out    *os.File
	err    *os.File
	getenv func(string) string
	now    func() time.Time
	global globalFlags
	full   bool // see registerFull
	all    bool // see registerAll

	crashes crashes
}

type globalFlags struct {
	engine      string
	ociRuntime  string
	unbounded   bool // --allow-unbounded
	log         string
	output      string
	parallelism int
	verbose     bool
}

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now}
	return a.run(a.root(), args)
}

// run runs a command line and returns the exit code.
func (a *app) run(root *cobra.Command, args []string) int {
	if len(args) > 0 && args[0] != "type" { // a type ends as its engine is used to
		// What no guard can catch ends the process by SIGABRT: the 2 that the Go
		// runtime would exit with says that there are changes.
		debug.SetTraceback("crash")
	}
	args = withVerb(root, args)
	root.SetArgs(args)
	a.crashes = crashes{now: a.now, about: func() string { return about(root, args) }}
	a.crashes.hide(given(args))
	err := crash.Do("running the command", func() error { return root.ExecuteContext(context.Background()) })
	for _, c := range crash.All(err) {
		a.crashes.add(c)
	}
	err = a.invalidJSON(err)
	a.complain(err)
	if a.crashes.tell(a.err) {
		return crash.ExitCode
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
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
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage("%q is neither a command nor a manifest that exists%s", args[0], suggestion(c, args[0]))
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetVersionTemplate("deployster {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%s (see %q)", flagText(err), c.CommandPath()+" --help")
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.global.engine, "engine", "auto", "container engine: docker, oci (no daemon), or auto: docker where it answers, else oci")
	flags.StringVar(&a.global.ociRuntime, "oci-runtime", "", "runtime of the oci engine: runc, crun, youki, runsc or a path (default runc)")
	flags.BoolVar(&a.global.unbounded, "allow-unbounded", false, "let the oci engine run where no control groups can be used, with neither memory nor processes bounded")
	flags.StringVar(&a.global.log, "log", "", "deployment log (default .deployster/deployments.db below the workspace)")
	flags.StringVar(&a.global.output, "output", "text", "output format: text or json")
	flags.IntVar(&a.global.parallelism, "parallelism", 10, "how many resources are worked on at once")
	flags.BoolVarP(&a.global.verbose, "verbose", "v", false, "show every line that containers print, and tell resource types to say more")
	root.AddCommand(
		a.applyCommand(), a.planCommand(), a.destroyCommand(), a.driftCommand(), a.validateCommand(), a.graphCommand(), a.evalCommand(),
		a.pipelineCommand(), a.environmentCommand(), a.explainCommand(), a.hostCommand(), a.logCommand(), a.typeCommand(), a.imageCommand(), a.schemaCommand(), a.versionCommand(),
	)
	root.SetHelpCommand(a.helpCommand(root))
	root.InitDefaultCompletionCmd("completion")
	a.complete(root)
	refuseArguments(root)
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Write a completion script for bash, zsh, fish or powershell"
			c.Args = noSuchSubcommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	return root
}

// refuseArguments makes what the commands say of wrong arguments wrong usage.
func refuseArguments(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var wrong *usageError
			if err == nil {
				return nil
			}
			if file := fileAmong(c, args); file != "" {
				return usage("%s takes its file with a flag: use -f %s", c.CommandPath(), shellWord(operand(file)))
			}
			if errors.As(err, &wrong) {
				return err
			}
			return usage("%w (see %q)", err, c.CommandPath()+" --help")
		}
	}
	for _, below := range c.Commands() {
		refuseArguments(below)
	}
}

// fileAmong is what stands among the arguments as a file that the command takes
// with -f; "" when there is none.
func fileAmong(c *cobra.Command, args []string) string {
	if f := c.Flags().Lookup("file"); f == nil || f.Shorthand != "f" || f.Changed {
		return ""
	}
	for _, arg := range args {
		if looksLikeManifest(arg) {
			return arg
		}
	}
	return ""
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

// version is the module's version as it was built, or "dev".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return releaseVersion
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// workspace is the directory the command was started in.
func (a *app) workspace() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the workspace: %w", err)
	}
	return dir, nil
}

// json tells whether machine-readable output was asked for.
func (a *app) json() (bool, error) {
	switch a.global.output {
	case "text":
		return false, nil
	case "json":
		return true, nil
	default:
		return false, usage("--output %s: it must be text or json", a.global.output)
	}
}

// complain prints an error for people, unless the output has told it already.
func (a *app) complain(err error) {
	var told *toldError
	if err == nil || errors.As(err, &told) {
		return
	}
	fmt.Fprint(a.err, errorText(err))
}

// write is for output whose failure ends the command.
func write(w io.Writer, format string, args ...any) error {
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
