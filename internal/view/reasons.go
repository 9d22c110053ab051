package view

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// foldedReason is why something does not move, and what else does not for the same reason.
type foldedReason struct {
	reason.Reason
	hosts []string // of the same group, and the first of them is the reason's
	below bool     // the whole revision has failed for it, which is said of the pipeline
}

// name is what does not move.
func (f foldedReason) name() string {
	text := clean(string(f.Target))
	if len(f.hosts) > 1 {
		text += fmt.Sprintf(" and %d more", len(f.hosts)-1)
	}
	return text
}

// foldReasons has one reason for the hosts of a group that do not move for the same one. What
// is particular about a host, such as the output of its run, is that of the first. All keeps
// each.
func foldReasons(reasons []reason.Reason, all bool) (folded []foldedReason) {
	type key struct {
		code            reason.Code
		deployment      string
		event, group    string
		holder, byEvent string
	}
	at, failed := map[key]int{}, map[string]bool{}
	for _, r := range reasons {
		failed[r.Deployment] = failed[r.Deployment] || r.Code == reason.HasFailed && r.Target.Kind() == "pipeline"
	}
	for _, r := range reasons {
		group, host, isHost := hostOf(r.Target)
		k := key{r.Code, r.Deployment, r.Event, group, r.Holder, r.ByEvent}
		if i, known := at[k]; isHost && known && !all {
			folded[i].hosts = append(folded[i].hosts, host)
			continue
		}
		f := foldedReason{Reason: r, below: r.Code == reason.HasFailed && r.Target.Kind() != "pipeline" && failed[r.Deployment]}
		if isHost {
			at[k], f.hosts = len(folded), []string{host}
		}
		folded = append(folded, f)
	}
	return folded
}

// hostOf takes the target of a host of a pipeline apart.
func hostOf(t deploylog.Target) (group, host string, ok bool) {
	path, ok := strings.CutPrefix(string(t), "host/")
	i := strings.LastIndexByte(path, '/')
	if !ok || i < 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}
