// Package typecmd is the commands of resource types. It is not called after its noun,
// because that is a keyword of Go.
package typecmd

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/authoring"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/resources/terraform"
)

// NewCommand returns the commands of resource types.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "type",
		Short: "List, write and test resource types",
		Long: `List, write and test resource types. A resource type is a container image that
speaks JSON: it discovers the state of a resource and says which actions bring
it to its configuration.`,
		Example: `  deployster type list
  deployster type new motd --lang python
  deployster type test motd --config example.json --plug root=out`,
	}
	c.AddCommand(newListCommand(a), newNewCommand(a), newTestCommand(a), newTerraformCommand(a), newRunCommand(a), newBinaryCommand(a))
	return c
}

func newListCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the resource types that ship with Deployster",
		Example: "  deployster type list\n  deployster type list --output json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runList(a) },
	}
}

func runList(a *app.App) error {
	type listed struct {
		Name    string          `json:"name"`
		Summary string          `json:"summary"`
		Schema  json.RawMessage `json:"config_schema,omitempty"`
	}
	var all []listed
	width := 0
	for _, name := range shipped.Names() {
		t, _ := shipped.Lookup(name)
		all = append(all, listed{shipped.Prefix + name, t.Summary, t.Schema})
		width = max(width, len(shipped.Prefix+name))
	}
	var lines []string
	for _, t := range all {
		lines = append(lines, fmt.Sprintf("%-*s  %s", width, t.Name, t.Summary))
	}
	return a.Say(map[string]any{"types": all}, "%s", strings.Join(lines, "\n"))
}

// newRunCommand is what the images of the shipped types run. What follows the
// name belongs to the type.
func newRunCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "run NAME [ARGUMENT…]",
		Short: "Run a resource type that ships with Deployster, as its container does",
		Long: `Run a resource type that ships with Deployster, as its container does: read JSON
from stdin and answer on stdout. Without arguments that is init, with "state"
the state, with the name of an action that action; with "serve" it answers one
request per line until stdin ends.

The types that manage things of a Docker Engine are one image, which runs the
program "docker": what is asked says, by its "type", which of them is meant.`,
		Example: `  deployster type run file < /dev/null
  deployster type run http state < request.json`,
		DisableFlagParsing: true,
		ValidArgs:          shipped.Names(),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return exit.Usage("run takes the name of a type; there are %s", strings.Join(shipped.Names(), ", "))
			}
			if args[0] == "--help" || args[0] == "-h" {
				return c.Help()
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if args[0] == terraform.TypeName {
				return exitWith(terraform.Run(ctx, terraform.Dir, args[1:], a.In, a.Out, a.Err))
			}
			run, ok := shipped.RunOf(strings.TrimPrefix(args[0], shipped.Prefix))
			if !ok {
				return exit.Usage("%q is not a resource type that ships with Deployster; there are %s", args[0], strings.Join(shipped.Names(), ", "))
			}
			return exitWith(run(ctx, args[1:], a.In, a.Out, a.Err))
		},
	}
}

// exitWith is how a command ends that has said what is wrong.
func exitWith(code int) error {
	if code != 0 {
		return exit.Reported(exit.Status(code))
	}
	return nil
}

// newBinaryCommand is how an image of Deployster hands out its binary
// (--types-image).
func newBinaryCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:    "binary",
		Short:  "Write this program to stdout",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return shipped.WriteBinary(a.Out) },
	}
}

type newOptions struct{ name, lang, dir string }

func newNewCommand(a *app.App) *cobra.Command {
	var o newOptions
	c := &cobra.Command{
		Use:   "new NAME --lang LANGUAGE",
		Short: "Create a resource type from a template",
		Long: `Create a resource type from a template: its source, a Dockerfile, a README,
an example configuration and an example manifest. Nothing is overwritten.`,
		Example: `  deployster type new motd --lang go
  deployster type new motd --lang sh --dir types/motd`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("new takes one name for the resource type, such as motd; it got %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.name = args[0]
			return runNew(a, o)
		},
	}
	c.Flags().StringVar(&o.lang, "lang", "", "language: "+strings.Join(authoring.Languages(), ", "))
	c.Flags().StringVar(&o.dir, "dir", "", "directory to write to (default: the name)")
	_ = c.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(authoring.Languages(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.MarkFlagDirname("dir")
	return c
}

func runNew(a *app.App, o newOptions) error {
	if o.lang == "" {
		return exit.Usage("which language? say --lang %s", strings.Join(authoring.Languages(), ", or --lang "))
	}
	if !slices.Contains(authoring.Languages(), o.lang) {
		return exit.Usage("--lang %s: it must be one of %s", o.lang, strings.Join(authoring.Languages(), ", "))
	}
	if o.dir == "" {
		o.dir = o.name
	}
	files, err := authoring.New(o.dir, o.name, o.lang)
	if err != nil {
		return exit.Invalid(err)
	}
	return a.Say(map[string]any{"name": o.name, "files": files}, `wrote %s

Next:
  cd %s
  docker build --tag %[3]s .
  mkdir -p out
  deployster type test %[3]s --config example.json --plug root=out
  deployster plan example.yaml`, strings.Join(files, "\nwrote "), o.dir, o.name)
}
