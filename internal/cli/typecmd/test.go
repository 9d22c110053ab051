package typecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/engine/kubernetes"
	"github.com/deployster-go/deployster/internal/authoring"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/internal/view/checks"
	"github.com/deployster-go/deployster/runner/invoke"
)

type testOptions struct {
	timeout time.Duration
	image   string
	config  string
	second  string
	plugs   []string
	engine  engines.Flags
}

func newTestCommand(a *app.App) *cobra.Command {
	var o testOptions
	c := &cobra.Command{
		Use:   "test IMAGE",
		Short: "Check that an image keeps to the resource protocol",
		Long: `Check that an image keeps to the resource protocol: that init and state answer
what they must and nothing else, that the schema refuses bad configurations,
that actions work and can be run again, that applying twice changes nothing, and
that what init offers (keeps, accepts_unknown, adoptable, removable, serve_action) is so.
With --second-config two resources are made at the same time.

The configuration is applied for real, and removed again where the type can
remove: give plugs that were made for tests. Without a configuration only init
is checked.

Exit codes: 0 all is well, 1 a check failed, 3 wrong usage.`,
		Example: `  deployster type test motd
  deployster type test motd --config example.json --plug root=out
  deployster type test motd --config example.json --second-config other.json --plug root=out
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
	c.Flags().StringVar(&o.second, "second-config", "", "file with a good configuration of another resource, which is made at the same time")
	c.Flags().DurationVar(&o.timeout, "timeout", authoring.DefaultTimeout, "how long each container and each answer may take; a type that is slower fails")
	c.Flags().StringArrayVar(&o.plugs, "plug", nil, "give the type a plug, as NAME=PATH (repeatable)")
	o.engine.Register(c)
	return c
}

func runTest(ctx context.Context, a *app.App, o testOptions) (err error) {
	if o.timeout <= 0 {
		return exit.Usage("--timeout %s: it must be more than nothing, such as 30s", o.timeout)
	}
	check := authoring.Options{Image: o.image, Timeout: o.timeout, Network: o.engine.Network, Version: a.Version, Verbose: a.Verbose}
	if check.Pull, err = o.engine.Policy(); err != nil {
		return err
	}
	if o.config != "" {
		if check.Config, err = authoring.ReadConfig(o.config); err != nil {
			return exit.Invalid(err)
		}
	}
	if o.second != "" {
		if o.config == "" {
			return exit.Usage("--second-config %s: it needs --config, the configuration of the first resource", o.second)
		}
		if check.Second, err = authoring.ReadConfig(o.second); err != nil {
			return exit.Invalid(err)
		}
	}
	if check.Plugs, err = testPlugs(o.plugs); err != nil {
		return err
	}
	return interrupt.Within(ctx, func(ctx context.Context) error { return checkType(ctx, a, check, o.engine) })
}

// checkType opens the engine, and makes the checks in it.
func checkType(ctx context.Context, a *app.App, check authoring.Options, f engines.Flags) (err error) {
	on, err := engines.Connect(ctx, a, a.Err, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Engine.Close()) }()
	check.Engine = struct {
		invoke.Engine
		invoke.Images
	}{on.Engine, on.Images}
	if on.Info.Copies {
		check.Workspace = a.Workspace
	}
	check.OwnWork = on.Info.Works
	if on.Info.Remote {
		return reportChecks(ctx, a, check)
	}
	for name, path := range check.Plugs {
		if _, err := os.Stat(path); err != nil {
			return exit.Usage("--plug %s: %w (make it first)", name, err)
		}
	}
	check.Workspace = a.Workspace
	var remove func() error
	if check.Work, remove, err = authoring.MakeWork(a.Workspace); err != nil {
		return err
	}
	defer func() {
		if err := remove(); err != nil {
			fmt.Fprintf(a.Err, "note: what containers left at %s was not removed: %v\n", check.Work, err)
		}
	}()
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
		if !strings.HasPrefix(path, kubernetes.Claim) {
			abs, err := filepath.Abs(path)
			if err != nil {
				return nil, fmt.Errorf("--plug %s: %w", flag, err)
			}
			path = abs
		}
		plugs[name] = path
	}
	return plugs, nil
}

// reportChecks makes the checks and prints one line for each.
func reportChecks(ctx context.Context, a *app.App, check authoring.Options) error {
	color := a.Color(a.Out)
	show := func(r authoring.Result) error { return a.Printf("%s", checks.Text(r, color)) }
	if a.JSON() {
		lines := view.NewJSON(a.Out, "type test", a.Version)
		if err := lines.Close(); err != nil {
			return err
		}
		show = func(r authoring.Result) error {
			lines.Check(r)
			return lines.Close()
		}
	}
	counts := map[authoring.Outcome]int{}
	var printing error
	err := authoring.Check(ctx, check, func(r authoring.Result) {
		counts[r.Outcome]++
		if printing == nil {
			printing = show(r)
		}
	})
	if err != nil && !errors.Is(err, authoring.ErrFailed) {
		return errors.Join(err, printing)
	}
	if printing == nil && !a.JSON() {
		printing = a.Printf("%s", checks.Verdict(check.Image, counts, check.Config != nil, color))
	}
	if printing != nil {
		return printing
	}
	return exit.Reported(err)
}
