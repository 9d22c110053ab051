package env

import (
	"context"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/view"
)

// Explain prints why an environment or a task is not as it is to be, as it was
// right after an event; 0 is now.
func Explain(ctx context.Context, a *app.App, t deploylog.Target, at int64) error {
	name, _ := environment.NameOf(t)
	return withEnvironments(ctx, a, []string{name}, at, func(e *environmentSet) error {
		var reasons []environment.Reason
		err := e.Ask(name, func(s *environment.State) error {
			if !concerns(s, t) {
				return exit.Usage("there is no %s: deployster env status %s --hosts shows what there is", t, name)
			}
			if at == 0 && !s.Idle() && !environments.Controlled(e.log, name) {
				reasons = append(reasons, s.NoController())
			}
			reasons = append(reasons, s.Explain(t, e.when)...)
			return nil
		})
		if err != nil {
			return err
		}
		return a.Show(map[string]any{"target": t, "event": e.Head(), "reasons": append([]environment.Reason{}, reasons...)},
			func() error { return view.EnvironmentReasons(a.Out, t, reasons, a.PlanOptions(a.Out)) })
	})
}

// concerns reports whether a target is the environment or one of its tasks, which
// may not have started yet.
func concerns(s *environment.State, t deploylog.Target) bool {
	if t == environment.Target(s.Name()) {
		return true
	}
	d, _ := s.ActiveDeployment()
	for _, h := range s.Report().Hosts {
		if h.Desired && t == environment.TaskTarget(s.Name(), d.Revision, h.Host) {
			return true
		}
		for _, task := range h.Tasks {
			if t == environment.TaskTarget(s.Name(), task.Revision, h.Host) {
				return true
			}
		}
	}
	return false
}
