package resource

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/inits"
)

type validateOptions struct {
	staticOptions
	types  bool
	engine engines.Flags
}

// NewValidateCommand returns the command validate.
func NewValidateCommand(a *app.App) *cobra.Command {
	var o validateOptions
	c := &cobra.Command{
		Use:   "validate MANIFEST…",
		Short: "Check manifests without running anything",
		Long: `Check manifests without running anything: their form, names, dependencies,
plugs, and the syntax and names of expressions; of resources whose type ships
with Deployster also their configuration, their plugs, and that no two manage
one thing. What other types accept, only they know: their configurations and
plugs are checked by what they answered when they were last asked, and with
--types they are asked now. A path of "ignore_changes" or "ignore_drift" that a
type cannot have is warned of. Commands that print values of variables are run
only with --types. All problems are reported at once.`,
		Example: `  deployster validate base.yaml prod.yaml --var tag=1.2
  deployster validate web.yaml --types`,
	}
	o.register(c, func(ctx context.Context) error { return runValidate(ctx, a, o) })
	c.Flags().BoolVar(&o.types, "types", false, "ask the types what they accept; their images are pulled and run")
	o.engine.Register(c)
	o.engine.RegisterCache(c)
	return c
}

func runValidate(ctx context.Context, a *app.App, o validateOptions) error {
	if _, err := o.engine.Policy(); err != nil {
		return err
	}
	o.input.Static = !o.types
	in, err := session.LoadAndWarn(a, o.files, o.input, runner.ConfirmAction)
	if err == nil {
		err = in.Check(answered(a, o))
	}
	if err == nil && o.types {
		err = askTypes(ctx, a, in, o)
	}
	if err == nil && !o.types {
		var unmatched []diff.Unmatched
		unmatched, err = in.Unmatched(answered(a, o))
		session.WarnUnmatched(a, unmatched)
	}
	if err != nil {
		return err
	}
	resources, plugs := len(in.Manifest.Resources), len(in.Manifest.Plugs)
	return a.Say(map[string]any{"valid": true, "resources": resources, "plugs": plugs, "hash": in.Manifest.Hash()},
		"%s: valid, %s, %s", strings.Join(o.files, " + "), phrase.Count(resources, "resource"), phrase.Count(plugs, "plug"))
}

// answered is what types are remembered to accept; nil where they are asked, or nothing is
// remembered.
func answered(a *app.App, o validateOptions) func(ref string) (inits.Type, bool) {
	cache := engines.InitCache(a, o.engine)
	if o.types || cache == nil {
		return nil
	}
	return func(ref string) (inits.Type, bool) { return inits.Last(cache, a.Version, ref) }
}

// askTypes asks all types of a manifest whether they accept it.
func askTypes(ctx context.Context, a *app.App, in *work.Input, o validateOptions) (err error) {
	ctx, signals := interrupt.Handle(ctx, a.Notice)
	defer signals.Done()
	on, err := engines.Connect(ctx, a, a.Notices(), o.engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Engine.Close()) }()
	err = session.Accepted(ctx, a, session.WorkerFlags{Input: o.input, Engine: o.engine}, on, in, nil)
	if signals.Interrupted() {
		return errors.Join(runner.ErrInterrupted, err)
	}
	return err
}
