package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/view"
)

func (a *app) explainCommand() *cobra.Command {
	var at int64
	var path string
	c := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Tell why something is not as it is to be, and what would change that",
		Long: `Tell of everything at or below a target that does not move, or is not as it is to
be, why that is, with the event that is responsible, and what would change it.

TARGET is as the log has it:
  environment/shop/prod, task/shop/prod/2/antworker001
  pipeline/gateway, stage/gateway/prod, host-group/gateway/beta,
  host/gateway/beta/antworker001,
  run/web.yaml, resource/db`,
		Example: "  deployster explain environment/shop/prod\n  deployster explain task/shop/prod/2/antworker001\n  deployster explain stage/gateway/prod",
		Args:    named("a target"),
		RunE: func(c *cobra.Command, args []string) error {
			t := deploylog.Target(args[0])
			if _, ok := environment.NameOf(t); ok {
				return a.explainEnvironment(c.Context(), t, at)
			}
			if _, ok := pipelines.PipelineOf(t); ok {
				return a.explainPipeline(c.Context(), t, at, path)
			}
			if kind := t.Kind(); kind != args[0] && (kind == "run" || kind == "resource") {
				if at != 0 {
					return usage("--at is for environments and pipelines: of %s it is told how it is now", t)
				}
				return a.explainRuns(c.Context(), t)
			}
			return noSuchTarget(args[0])
		},
	}
	registerAt(c, &at)
	registerInventory(c, &path)
	return c
}

// explainable is how targets begin that can be explained.
const explainable = "environment/, task/, pipeline/, stage/, host-group/, host/, run/, resource/"

// noSuchTarget tells what may be explained.
func noSuchTarget(text string) error {
	kinds := []string{"environment", "task", "pipeline", "stage", "host-group", "host", "run", "resource"}
	kind, path, _ := strings.Cut(text, "/")
	hint := ""
	if near := suggest.Closest(kind, kinds); near != "" && path != "" {
		hint = ", did you mean " + near + "/" + path
	}
	return usage("%q can not be explained: what can begins with %s%s", text, explainable, hint)
}

func (a *app) explainEnvironment(ctx context.Context, t deploylog.Target, at int64) (err error) {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	name, _ := environment.NameOf(t)
	e, err := a.environmentsAt(ctx, []string{name}, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	var reasons []environment.Reason
	err = e.Ask(name, func(s *environment.State) error {
		if !concerns(s, t) {
			return usage("there is no %s: deployster env status %s --hosts shows what there is", t, name)
		}
		if at == 0 && !s.Idle() && !environments.ControllerAtWork(e.log) && !environments.WorksOn(e.log, name) {
			reasons = append(reasons, environment.Reason{
				Target: string(environment.Target(name)), Message: "no controller is at work, so nothing begins", Change: "deployster env run " + name,
			})
		}
		reasons = append(reasons, s.Explain(t, e.when)...)
		return nil
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(map[string]any{"target": t, "event": e.Head(), "reasons": append([]environment.Reason{}, reasons...)})
	}
	return view.EnvironmentReasons(a.out, t, reasons, a.planOptions(a.out))
}

// concerns tells whether a target is the environment or one of its tasks, which
// may be still to come.
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
