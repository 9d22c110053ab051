package runs

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pattern"
)

// revisionOf is what a place on a host has behind the name of an environment, if it is that
// of a task.
var revisionOf = pattern.Lazy(`(:.*)-[0-9]+-[0-9a-f]{8}$`)

// AnyRevision is a place, or the target of a run in one, without the revision of the task
// whose place it is: what all revisions of an environment on a host have in common.
// Otherwise each revision would be a place of its own, whose last runs are never old.
func AnyRevision[S ~string](place S) S {
	return S(revisionOf().ReplaceAllString(string(place), "$1"))
}

// Last are the last runs of each target, of which there are at most n, and the last of
// each that failed. Those of an environment on a host are of one target, whichever its
// revision is.
func Last(ctx context.Context, log deploylog.Log, n int) (map[string]bool, error) {
	last := map[string]bool{}
	for name, n := range map[string]int{deploylog.Target("run/").Started(): n, deploylog.Target("run/").Failed(): 1} {
		of := map[deploylog.Target][]string{}
		for e, err := range log.Read(ctx, deploylog.Filter{Name: name}) {
			if err != nil {
				return nil, fmt.Errorf("looking for the last runs: %w", err)
			}
			target := AnyRevision(e.Target)
			list := append(of[target], e.Deployment)
			of[target] = list[max(0, len(list)-n):]
		}
		for _, list := range of {
			for _, run := range list {
				last[run] = true
			}
		}
	}
	return last, nil
}

// Ended reports whether the log knows a run, and whether nothing of it is without an end.
func Ended(ctx context.Context, log deploylog.Log, run string) (known, ended bool, err error) {
	u, err := readRun(ctx, log, run)
	if err != nil {
		return false, false, err
	}
	return !u.Since.IsZero(), len(u.open) == 0, nil
}
