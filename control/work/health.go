package work

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// applied is how a task is of which all resources are VALID.
func applied(m *manifest.Manifest, state func(resource string) map[string]any) environment.ProbeResult {
	var ill []string
	for _, r := range m.Resources {
		if why := ailment(state(r.Name)); why != "" {
			ill = append(ill, r.Name+" "+why)
		}
	}
	if len(ill) > 0 {
		return environment.ProbeResult{Health: environment.Unhealthy, Detail: strings.Join(ill, "; ")}
	}
	return environment.ProbeResult{Health: environment.Healthy}
}

// seen is how a task is, going by its drift and the states of its resources.
func seen(report *runner.DriftReport, state func(resource string) map[string]any) environment.ProbeResult {
	var ill, unseen, differs []string
	for _, r := range report.Resources {
		why := ailment(state(r.Name))
		switch {
		case r.Missing:
			ill = append(ill, r.Name+" does not exist")
		case why != "":
			ill = append(ill, r.Name+" "+why)
		case r.Status == runner.Unknown:
			unseen = append(unseen, r.Name+": it can not be asked for without the state of "+strings.Join(r.Because, ", "))
		case r.Error != "":
			unseen = append(unseen, r.Name+": "+r.Error)
		case r.Status == runner.Stale && len(r.Diff) == 0:
			differs = append(differs, r.Name+" is not as configured; its type does not tell in what")
		case r.Status == runner.Stale:
			for line := range strings.Lines(runner.DiffText(r.Diff)) {
				differs = append(differs, r.Name+" "+strings.TrimSpace(line))
			}
		}
	}
	switch {
	case len(ill) > 0:
		return environment.ProbeResult{Health: environment.Unhealthy, Detail: strings.Join(ill, "; ")}
	case len(unseen) > 0:
		return environment.ProbeResult{Health: environment.Unknown, Detail: strings.Join(unseen, "; ")}
	case len(differs) > 0:
		return environment.ProbeResult{Health: environment.Drifted, Detail: few(differs)}
	default:
		return environment.ProbeResult{Health: environment.Healthy}
	}
}

// ailment is why a resource in this state is not healthy, "" when it is or does
// not say.
func ailment(state map[string]any) string {
	switch {
	case state["running"] == false:
		return "does not run"
	case state["healthy"] == false:
		return "is not healthy"
	default:
		return ""
	}
}

// few is as many lines as people read.
func few(lines []string) string {
	const most = 5
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}
