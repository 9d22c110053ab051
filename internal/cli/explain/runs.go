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

// explainRuns tells of the runs that did not end, at a target.
func explainRuns(ctx context.Context, a *app.App, t deploylog.Target) error {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	log, path, err := a.ExistingLog(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
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
			r.Change = "the next apply or destroy asks that engine, and waits for what is at work there; where it can not be asked, --abandon " + u.Run
		default:
			r.Change = "the next apply or destroy"
		}
		reasons = append(reasons, r)
	}
	if asJSON {
		return a.Document(map[string]any{"target": t, "reasons": reasons})
	}
	if len(reasons) == 0 {
		return a.Printf("No run of %s is unfinished.\n", view.Clean(string(t)))
	}
	return view.EnvironmentReasons(a.Out, t, reasons, a.PlanOptions(a.Out))
}
