package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

func newRunCommand(a *app.App) *cobra.Command {
	var untilIdle bool
	var flags environmentWork
	c := &cobra.Command{
		Use:   "run [NAME…]",
		Short: "Bring to hosts what environments say, and keep it so, until interrupted",
		Long: `Bring to hosts what environments say, and keep it so: all of them unless some are
named. Deployments are carried out; hosts that join the query of an environment
get a task, those that leave it are cleaned; a task that died is started again,
and one that is not as its manifest says is repaired or reported.

One controller of all environments works on a log at a time. Another one stands
by, and takes over at once when the first has ended, however it ended. Controllers
of named environments stand by, too, while one of all is at work; without one they
work beside each other, and never two at once on an environment.

Interrupt once to let finish what was begun and begin nothing new; twice to kill
it.`,
		Example: `  deployster env run
  deployster env run shop/prod --until-idle     # in CI: ends when all is deployed, or stuck
  deployster env run --check-every 5m --parallelism 50`,
		RunE: func(c *cobra.Command, names []string) error {
			return runEnvironments(c.Context(), a, names, untilIdle, flags)
		},
	}
	c.Flags().BoolVar(&untilIdle, "until-idle", false, "end when nothing moves any more: all is deployed, stuck or paused; with 1 when something is stuck or not healthy")
	flags.registerWatch(c)
	return c
}

func runEnvironments(ctx context.Context, a *app.App, names []string, untilIdle bool, flags environmentWork) (err error) {
	asJSON, err := a.AsJSON()
	if err := errors.Join(err, a.Parallel(), flags.check()); err != nil {
		return err
	}
	e, err := environmentsAt(ctx, a, names, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	if err := engines.Abandon(ctx, a, e.log, flags.engine.Abandon); err != nil {
		return err
	}
	screen, _ := openScreen(a, asJSON, false)
	ctx, signals := interrupt.Interruptible(ctx, screen.Notice)
	defer signals.Done()
	workers, err := session.OpenWorkers(a, e.log, work.NewHosts(flags.inventory), flags.input, flags.engine, noticed{screen})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	if _, err := workers.Hosts.Inventory(); len(e.names) > 0 && err != nil {
		return exit.Invalid(err)
	}
	if err := heedTasks(a, workers, e, e.names, flags.input.Strict); err != nil {
		return err
	}
	screen.begin("env run", map[string]any{})
	err = exit.Refused(environments.NewController(environments.ControllerOptions{
		Log: e.log, Environments: names, Tasks: workers.Tasks, Inventory: workers.Hosts, Audience: screen,
		Parallelism: a.Global.Parallelism, UntilIdle: untilIdle, Stop: signals.Stop, CheckEvery: flags.checkEvery, Now: a.Now,
	}).Run(ctx))
	switch {
	case signals.Count.Load() > 0 && (err == nil || errors.Is(err, context.Canceled)):
		return exit.Told(runner.ErrInterrupted)
	case err != nil:
		return err
	}
	wrong, err := e.wrong(ctx, names)
	switch {
	case err != nil:
		return err
	case len(wrong) > 0:
		return fmt.Errorf("%s; deployster env status tells why", strings.Join(wrong, "; "))
	case asJSON:
		return nil
	}
	return a.Printf("nothing moves any more: deployster env status tells how it is\n")
}

// wrong tells which environments are not as they are to be, without anybody having
// paused them; no names are all.
func (e *environmentSet) wrong(ctx context.Context, names []string) (wrong []string, err error) {
	if err := e.Follow(ctx, 0); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = e.present()
	}
	for _, name := range names {
		if text := ailing(e.report(name)); text != "" {
			wrong = append(wrong, text)
		}
	}
	return wrong, nil
}

// ailing tells what is wrong with an environment, "" when nothing is.
func ailing(r environment.Report) string {
	d := r.Deployment
	switch {
	case d == nil || r.Deleted:
		return ""
	case d.Status == environment.DeploymentStuck:
		return "stuck: " + r.Environment
	case r.Pause != nil:
		return ""
	}
	for _, row := range r.Rows {
		if row.Revision == d.Revision && row.Current < row.Desired {
			return fmt.Sprintf("only %d of %s healthy: %s", row.Current, output.Count(row.Desired, "host"), r.Environment)
		}
	}
	return ""
}

// environmentScreen shows what happens to environments: a line an event, or the
// live table of one. It is an environments.Audience.
type environmentScreen struct {
	app  *app.App
	json bool
	live *view.EnvironmentLive // may be nil

	mu   sync.Mutex
	told view.SeenReasons
}

// openScreen opens a screen. A table is drawn only on a terminal, and goes
// on until the screen is closed.
func openScreen(a *app.App, asJSON, table bool) (s *environmentScreen, close func() error) {
	s = &environmentScreen{app: a, json: asJSON}
	if asJSON || !table || !a.Terminal(a.Out) {
		return s, func() error { return nil }
	}
	o, tick := a.Live(a.Out)
	s.live = view.NewEnvironmentLive(a.Out, o)
	return s, func() error { defer tick.Stop(); return s.live.Close() }
}

// begin writes the first line of machine-readable output.
func (s *environmentScreen) begin(command string, more map[string]any) {
	if !s.json {
		return
	}
	line := map[string]any{"version": 1, "deployster": version.Current(), "command": command}
	maps.Copy(line, more)
	s.line(line)
}

// Recorded implements environments.Audience.
func (s *environmentScreen) Recorded(e deploylog.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.json:
		s.line(map[string]any{"type": "recorded", "event": e})
	case s.live == nil:
		o := s.app.PlanOptions(s.app.Out)
		o.Seen = &s.told
		_ = view.EnvironmentEvent(s.app.Out, e, o)
	}
}

// Notice implements environments.Audience.
func (s *environmentScreen) Notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.json:
		s.line(map[string]any{"type": "notice", "text": text})
	case s.live != nil:
		s.live.Note(text)
	default:
		_ = output.Write(s.app.Err, "note: %s\n", view.Clean(text))
	}
}

func (s *environmentScreen) line(document map[string]any) {
	if text, err := json.Marshal(document); err == nil {
		_ = output.Write(s.app.Out, "%s\n", text)
	}
}

// unrecorded is a screen that is not told what is recorded: who uses it reads
// that in the log.
type unrecorded struct{ *environmentScreen }

// Recorded implements environments.Audience.
func (unrecorded) Recorded(deploylog.Event) {}

// noticed makes notices of what is written.
type noticed struct{ *environmentScreen }

// Write implements io.Writer.
func (n noticed) Write(p []byte) (int, error) {
	n.Notice(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
