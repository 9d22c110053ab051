package typecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/authoring"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

type testOptions struct {
	image  string
	config string
	plugs  []string
	engine engines.Flags
}

func newTestCommand(a *app.App) *cobra.Command {
	var o testOptions
	c := &cobra.Command{
		Use:   "test IMAGE",
		Short: "Check that an image keeps to the resource protocol",
		Long: `Check that an image keeps to the resource protocol: that init and state answer
what they must and nothing else, that the schema refuses bad configurations,
that actions work, and that applying twice changes nothing.

The configuration is applied for real, and removed again where the type can
remove: give plugs that were made for tests. Without a configuration only init
is checked.

Exit codes: 0 all is well, 1 a check failed, 3 wrong usage.`,
		Example: `  deployster type test motd
  deployster type test motd --config example.json --plug root=out
  deployster type test deployster/file --config file.yaml --plug root=/tmp/out --output json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return exit.Usage("test takes one image, such as motd or deployster/file; it got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.image = args[0]
			return runTest(c.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.config, "config", "", "file with a good configuration (YAML or JSON)")
	c.Flags().StringArrayVar(&o.plugs, "plug", nil, "give the type a plug, as NAME=PATH (repeatable)")
	o.engine.Register(c)
	return c
}

// testEngine runs containers in one engine, with the images of the shipped
// types at hand.
type testEngine struct {
	engine.Engine
	images *shipped.Images
}

func (e testEngine) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	return e.images.Image(ctx, ref, policy, progress)
}

func runTest(ctx context.Context, a *app.App, o testOptions) (err error) {
	check := authoring.Options{Image: o.image, Network: o.engine.Network, Version: version.Current(), Verbose: a.Verbose}
	if check.Pull, err = o.engine.Policy(); err != nil {
		return err
	}
	if o.config != "" {
		if check.Config, err = authoring.ReadConfig(o.config); err != nil {
			return exit.Invalid(err)
		}
	}
	if check.Plugs, err = testPlugs(o.plugs); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", runner.ErrInterrupted, err)
		}
	}()
	e, info, err := engines.Open(ctx, a, a.Err, o.engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	images, err := engines.Images(a, e, info, o.engine)
	if err != nil {
		return err
	}
	check.Engine = testEngine{e, images}
	if !info.Remote {
		if err := plugsExist(check.Plugs); err != nil {
			return err
		}
		var clean func()
		check.Workspace = a.Workspace
		if check.Work, clean, err = workDirectory(a); err != nil {
			return err
		}
		defer clean()
	}
	return reportChecks(ctx, a, check)
}

// testPlugs reads NAME=PATH.
func testPlugs(flags []string) (map[string]string, error) {
	plugs := map[string]string{}
	for _, flag := range flags {
		name, path, ok := strings.Cut(flag, "=")
		if !ok || name == "" || path == "" {
			return nil, exit.Usage("--plug %s: it must be NAME=PATH", flag)
		}
		if _, twice := plugs[name]; twice {
			return nil, exit.Usage("--plug %s: the plug %q is given twice", flag, name)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("--plug %s: %w", flag, err)
		}
		plugs[name] = path
	}
	return plugs, nil
}

func plugsExist(plugs map[string]string) error {
	for name, path := range plugs {
		if _, err := os.Stat(path); err != nil {
			return exit.Usage("--plug %s: %w (make it first)", name, err)
		}
	}
	return nil
}

// workDirectory is where containers get their work directories. clean removes it.
func workDirectory(a *app.App) (work string, clean func(), err error) {
	parent := filepath.Join(a.Workspace, app.StateDir, "work")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, fmt.Errorf("making a work directory: %w", err)
	}
	if work, err = os.MkdirTemp(parent, "type-test-"); err != nil {
		return "", nil, fmt.Errorf("making a work directory: %w", err)
	}
	return work, func() {
		if err := os.RemoveAll(work); err != nil {
			_ = output.Write(a.Err, "note: what containers left at %s was not removed: %v\n", work, err)
		}
		// In a directory without deployments nothing is left; what is not empty stays.
		_ = os.Remove(parent)
		_ = os.Remove(filepath.Dir(parent))
	}, nil
}

// reportChecks makes the checks and prints one line for each.
func reportChecks(ctx context.Context, a *app.App, check authoring.Options) error {
	counts := map[authoring.Outcome]int{}
	var printing error
	if a.JSON() {
		if err := view.NewJSON(a.Out, "type test", version.Current()).Close(); err != nil {
			return err
		}
	}
	color := a.Color(a.Out)
	err := authoring.Check(ctx, check, func(r authoring.Result) {
		counts[r.Outcome]++
		if printing != nil {
			return
		}
		if !a.JSON() {
			printing = a.Printf("%s", checkLine(r, color))
			return
		}
		printing = a.Line(struct {
			Type string `json:"type"`
			authoring.Result
		}{"check", r})
	})
	switch {
	case err != nil && !errors.Is(err, authoring.ErrFailed):
		return errors.Join(err, printing)
	case printing != nil:
		return printing
	case !a.JSON():
		printing = a.Printf("%s", testVerdict(check.Image, counts, check.Config != nil, color))
	}
	return errors.Join(exit.Reported(err), printing)
}

// mark is a symbol before a line, in a colour.
func mark(o authoring.Outcome, color bool) string {
	symbol, code := "–", "2"
	switch o {
	case authoring.Passed:
		symbol, code = "✔", "32"
	case authoring.Failed:
		symbol, code = "✘", "31"
	case authoring.Warning:
		symbol, code = "!", "33"
	case authoring.Skipped:
	}
	if color {
		return "\x1b[" + code + "m" + symbol + "\x1b[m"
	}
	return symbol
}

func checkLine(r authoring.Result, color bool) string {
	line := mark(r.Outcome, color) + " " + r.Name
	switch {
	case r.Detail == "":
	case r.Outcome == authoring.Skipped:
		line += ": skipped, " + r.Detail
	case r.Outcome == authoring.Passed:
		line += ": " + r.Detail
	default:
		line += "\n    " + output.PlainText(r.Detail)
	}
	return line + "\n"
}

// testVerdict sums the checks up. configured is that a configuration was given,
// without which most checks are skipped.
func testVerdict(image string, counts map[authoring.Outcome]int, configured, color bool) string {
	outcome, text := authoring.Passed, "keeps to the protocol"
	if counts[authoring.Skipped] > 0 && !configured {
		text += ", as far as it was asked (--config asks for more)"
	}
	if counts[authoring.Failed] > 0 {
		outcome, text = authoring.Failed, "does not keep to the protocol"
	}
	var parts []string
	for _, o := range []authoring.Outcome{authoring.Passed, authoring.Failed, authoring.Warning, authoring.Skipped} {
		if n := counts[o]; n > 0 {
			word := string(o)
			if o == authoring.Warning && n > 1 {
				word += "s"
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return fmt.Sprintf("%s %s %s: %s\n", mark(outcome, color), image, text, strings.Join(parts, ", "))
}
