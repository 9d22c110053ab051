package query

import (
	"context"
	"iter"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// ending is a log in which a run ends right after it was read for the first time.
type ending struct {
	deploylog.Log
	end  []deploylog.Event
	read int
}

func (l *ending) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range l.Log.Read(ctx, f) {
			if !yield(e, err) {
				return
			}
		}
		if l.read++; l.read == 1 && len(l.end) > 0 {
			if _, err := l.Append(ctx, l.end...); err != nil {
				yield(deploylog.Event{}, err)
			}
		}
	}
}

// A run that ends while it is looked at has ended, and has not died. Nobody holds its lock in
// either case.
func TestARunThatEndsWhileItIsLookedAtHasNotDied(t *testing.T) {
	for name, c := range map[string]struct {
		end  []deploylog.Event
		want Outcome
	}{
		"it died":      {nil, RunDied},
		"it succeeded": {[]deploylog.Event{{Deployment: "1", Target: "run/m.yaml", Name: "run-finished-successfully", Attempt: 1}}, RunSucceeded},
		"it failed":    {[]deploylog.Event{{Deployment: "1", Target: "run/m.yaml", Name: "run-failed", Attempt: 1}}, RunFailed},
	} {
		t.Run(name, func(t *testing.T) {
			newLog := func() *ending { return &ending{Log: logOf(t, "1/1 run/m.yaml run-started"), end: c.end} }
			if one, err := RunOf(t.Context(), newLog(), "1", 0); err != nil || one.Outcome != c.want {
				t.Errorf("it is %+v, %v", one, err)
			}
			if all, err := Runs(t.Context(), newLog(), RunFilter{Target: "run/"}); err != nil || len(all) != 1 || all[0].Outcome != c.want {
				t.Errorf("it is listed as %+v, %v", all, err)
			}
		})
	}
}
