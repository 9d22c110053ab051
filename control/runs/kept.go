package runs

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// Last are the last runs of each target, of which there are at most n, and the last of
// each that failed.
func Last(ctx context.Context, log deploylog.Log, n int) (map[string]bool, error) {
	last := map[string]bool{}
	for name, n := range map[string]int{deploylog.Target("run/").Started(): n, deploylog.Target("run/").Failed(): 1} {
		of := map[deploylog.Target][]string{}
		for e, err := range log.Read(ctx, deploylog.Filter{Name: name}) {
			if err != nil {
				return nil, fmt.Errorf("looking for the last runs: %w", err)
			}
			list := append(of[e.Target], e.Deployment)
			of[e.Target] = list[max(0, len(list)-n):]
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
