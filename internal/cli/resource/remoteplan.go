package resource

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// planRemote shows what a server would change.
func planRemote(ctx context.Context, a *app.App, o planOptions, remote *client.Client) error {
	if err := o.sent.check(); err != nil {
		return err
	}
	var into *saving
	if o.saving {
		var err error
		if into, err = o.prepare(a); err != nil {
			return err
		}
		defer into.place.Discard()
	}
	asked, in, err := collect(a, o.staticOptions, o.sent.public)
	if err != nil {
		return err
	}
	screen := a.Report("plan")
	plan, id, err := showPlanned(ctx, a, remote, asked, screen)
	switch {
	case o.saving && err != nil:
		into.notWritten(a)
	case o.saving:
		err = into.saveRemote(ctx, a, in, o, id, remote, screen)
	}
	if err == nil && o.detailed && plan.Changes() {
		return exit.Reported(exit.ErrChanges)
	}
	return err
}

// saveRemote saves what a server has planned.
func (s *saving) saveRemote(ctx context.Context, a *app.App, in *work.Input, o planOptions, run string, remote *client.Client, report *output.Screen) error {
	text, err := remote.SavedPlan(ctx, run)
	if err != nil {
		return err
	}
	sent, err := planfile.Sent(text)
	if err != nil {
		return err
	}
	s.Salt, s.Engine, s.Log, s.Server = sent.Salt, sent.Engine, sent.Log, remote.Name()
	return s.save(a, in, o, sent.Plan(), report)
}

// applySavedRemote has a server apply a saved plan that it made.
func applySavedRemote(ctx context.Context, a *app.App, o applyOptions, p *savedPlan, remote *client.Client) error {
	if !remote.Is(p.Server) {
		return p.elsewhere("through server " + remote.Name())
	}
	if err := o.sent.check(); err != nil {
		return err
	}
	flags, err := p.flags(o.input)
	if err != nil {
		return err
	}
	mode, err := confirmOpen(a, p, o.confirm.Whole())
	switch {
	case err != nil:
		return err
	case mode != runner.ConfirmNo && mode != runner.ConfirmOnce:
		return exit.Usage("the plan %s leaves %s open (%s), and a server does not ask about each: say --confirm ONCE to be asked for all of them, or --yes to apply them unseen",
			p.path, phrase.Count(len(p.Open()), "resource"), strings.Join(p.Open(), ", "))
	}
	o.files, o.input = p.Manifests, flags
	asked, _, err := collect(a, o.staticOptions, o.sent.public)
	if err != nil {
		return err
	}
	p.noteVersion(a)
	if mode == runner.ConfirmOnce {
		if err := askFor(ctx, a, p.Plan()); err != nil {
			return err
		}
	}
	asked.KeepGoing, asked.Again = o.keepGoing, o.again
	if asked.Saved, err = p.keep(a); err != nil {
		return err
	}
	return carryOut(ctx, a, o, "apply", remote, asked)
}

// keep keeps the plan at the server.
func (p *savedPlan) keep(a *app.App) (digest string, err error) {
	texts, err := a.Texts()
	if err != nil {
		return "", err
	}
	data, err := p.Encode()
	if err != nil {
		return "", err
	}
	return texts.Keep(data)
}

// planned has a server plan, and shows on a screen how that goes. Beside an error the plan is of
// what did not fail; nil is none.
func planned(ctx context.Context, a *app.App, remote *client.Client, asked proposal.Run, screen *output.Screen) (*report.Plan, string, error) {
	begun, err := remote.BeginPlan(ctx, asked)
	if err != nil {
		return nil, "", err
	}
	plan, err := looked(ctx, a, remote, begun, screen, remote.Plan, planfile.Shown)
	return plan, begun.Run, err
}

// showPlanned has a server plan, and shows the plan.
func showPlanned(ctx context.Context, a *app.App, remote *client.Client, asked proposal.Run, screen *output.Screen) (*report.Plan, string, error) {
	plan, id, err := planned(ctx, a, remote, asked, screen)
	err = errors.Join(err, screen.Close())
	if plan != nil {
		err = errors.Join(err, screen.Show(func(lines *view.JSON) { lines.Plan(plan) }, func() error { return view.Plan(a.Out, plan, a.PlanOptions(a.Out)) }))
	}
	return plan, id, err
}

// looked follows a run that only looks, and returns what it has seen.
func looked[Seen any](ctx context.Context, a *app.App, remote *client.Client, begun proposal.Begun, screen *output.Screen,
	get func(context.Context, string) (json.RawMessage, error), read func([]byte) (*Seen, error),
) (seen *Seen, err error) {
	f := following{remote: remote, begun: begun, screen: screen}
	err = f.untilEnded(ctx, a)
	if err != nil && exit.Text(err) != "" || errors.Is(err, runner.ErrInterrupted) {
		return nil, err
	}
	text, failed := get(ctx, begun.Run)
	if failed == nil {
		seen, failed = read(text)
	}
	return seen, errors.Join(err, failed)
}

// driftRemote has a server look whether resources are as the manifests here configure them.
func driftRemote(ctx context.Context, a *app.App, o driftOptions, remote *client.Client) error {
	if err := o.sent.check(); err != nil {
		return err
	}
	asked, _, err := collect(a, o.staticOptions, o.sent.public)
	if err != nil {
		return err
	}
	begun, err := remote.BeginDrift(ctx, asked)
	if err != nil {
		return err
	}
	screen := a.Report("drift")
	drift, err := looked(ctx, a, remote, begun, screen, remote.Drift, planfile.ShownDrift)
	err = errors.Join(err, screen.Close())
	if drift != nil {
		err = errors.Join(err, showDrift(a, screen, drift))
	}
	if err == nil && drift.Drifted() {
		return exit.Reported(exit.ErrChanges)
	}
	return err
}

func showDrift(a *app.App, on *output.Screen, drift *report.Drift) error {
	return on.Show(func(lines *view.JSON) { lines.Drift(drift) }, func() error {
		return view.Drift(a.Out, drift, view.DriftOptions{PlanOptions: a.PlanOptions(a.Out), Ignored: a.Verbose})
	})
}

// confirmRemote shows what a server would change and asks for it. The run is to be bound to the
// plan that it names.
func confirmRemote(ctx context.Context, a *app.App, remote *client.Client, asked proposal.Run) (id string, err error) {
	screen := a.OpenScreen("plan")
	plan, id, err := planned(ctx, a, remote, asked, screen)
	err = errors.Join(err, screen.Close())
	switch {
	case err != nil && plan != nil:
		return "", errors.Join(view.Plan(a.Err, plan, a.PlanOptions(a.Err)), err)
	case err != nil || !plan.Changes():
		return id, err
	}
	return id, askFor(ctx, a, plan)
}

// askFor asks whether a plan is to be applied, and fails unless it is.
func askFor(ctx context.Context, a *app.App, plan *report.Plan) error {
	questions := prompt.New(a)
	questions.Plan = plan
	yes := false
	err := interrupt.Within(ctx, func(ctx context.Context) (err error) {
		yes, err = questions.ConfirmPlan(ctx)
		return err
	})
	if err == nil && !yes {
		err = errors.New("declined: nothing was changed")
	}
	return err
}
