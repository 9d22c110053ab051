package explain

import (
	"context"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/view"
)

// explainRuns prints the runs of a target that did not end.
func explainRuns(ctx context.Context, a *app.App, t deploylog.Target) error {
	return a.WithLog(ctx, func(log deploylog.Log, path string) error {
		unfinished, err := runs.UnfinishedRuns(ctx, log, t)
		if err != nil {
			return err
		}
		if len(unfinished) == 0 {
			known := false
			for _, err := range log.Read(ctx, deploylog.Filter{Target: t, Last: 1}) {
				if known = true; err != nil {
					return err
				}
			}
			if !known {
				return exit.Usage("%q: the log at %s knows nothing of it; what can be explained begins with %s", t, path, explainable)
			}
		}
		reasons := []environment.Reason{}
		for _, u := range unfinished {
			r := environment.Reason{Target: string(u.Target), Code: "run-unfinished", Message: engines.UnfinishedText(u), Change: "its end"}
			switch {
			case u.Alive:
			case len(u.Acting) > 0:
				r.Change = "the next apply or destroy asks that engine, and waits for what is at work there; where it cannot be asked, --abandon " + u.Run
			default:
				r.Change = "the next apply or destroy"
			}
			reasons = append(reasons, r)
		}
		return a.Show(map[string]any{"target": t, "reasons": reasons}, func() error {
			if len(reasons) == 0 {
				return a.Printf("No run of %s is unfinished.\n", view.Clean(string(t)))
			}
			return view.EnvironmentReasons(a.Out, t, reasons, a.PlanOptions(a.Out))
		})
	})
}
