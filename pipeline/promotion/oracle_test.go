package promotion_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// naive is the algorithm of the seed, line by line: the stage to which a revision is to be
// promoted, "" for none. A stage has several targets; each is healthy or not, and runs something.
func naive(stages []string, targets map[string][]target) (stage, revision string) {
	whole := func(stage, revision string) bool {
		for _, t := range targets[stage] {
			if !t.healthy || t.revision != revision {
				return false
			}
		}
		return len(targets[stage]) > 0
	}
	// start with the first environment: if all targets are healthy and run the same revision,
	// proceed with that revision as the "current revision"
	if len(targets[stages[0]]) == 0 {
		return "", ""
	}
	current := targets[stages[0]][0].revision
	if unread(targets[stages[0]]) || !whole(stages[0], current) {
		return "", ""
	}
	for _, next := range stages[1:] { // while there's a next environment
		if unread(targets[next]) { // of which the seed says nothing: it may run anything
			return "", ""
		}
		if whole(next, current) { // go to the next environment
			continue
		}
		for _, t := range targets[next] { // if any target is running it, healthy or otherwise, stop
			if t.revision == current {
				return "", ""
			}
		}
		return next, current // otherwise, trigger a promotion to the next environment
	}
	return "", ""
}

type target struct {
	revision string
	healthy  bool
	unread   bool // nobody knows the rest
}

func unread(targets []target) bool {
	return slices.ContainsFunc(targets, func(t target) bool { return t.unread })
}

// observed is how the targets of an environment are observed as a whole.
func observed(targets []target, came, event int64) promotion.Observation {
	o := promotion.Observation{Health: promotion.Whole, Came: came, Event: event}
	if len(targets) == 0 {
		o.Health = promotion.Partly
		return o
	}
	o.Revision = targets[0].revision
	if unread(targets) {
		o.Health, o.Why = promotion.Unknown, "one does not answer"
		return o
	}
	for _, t := range targets {
		if !t.healthy || t.revision != o.Revision {
			o.Health, o.Why = promotion.Partly, "some are not"
		}
		o.Runs = append(o.Runs, t.revision)
	}
	o.Active = promotion.Deployment{ID: fmt.Sprintf("d@%d", came), Revision: o.Revision, Status: promotion.Deployed}
	return o
}

// drawn are targets of an environment.
func drawn(t *rapid.T) (all []target) {
	for range rapid.IntRange(0, 3).Draw(t, "targets") {
		all = append(all, target{
			rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "revision"), rapid.IntRange(0, 4).Draw(t, "healthy") > 0, rapid.IntRange(0, 14).Draw(t, "unread") == 14,
		})
	}
	return all
}

// What Decide promotes is what the seed's algorithm does, whatever the environments run: with
// promotions that fail, that never come about, and that somebody undoes, with environments of
// which something cannot be read, and with processes that begin anew from the log.
func TestPromotesAsTheSeedDoes(t *testing.T) {
	promotions, refused, anew := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(2, 5).Draw(t, "stages"), definition.Promotion{Policy: definition.Single, RetryAfter: dur(time.Second)})
		targets := map[string][]target{}
		came := map[string]int64{}
		done := map[string]bool{}
		for _, stage := range w.stages {
			w.see(stage, observed(nil, 0, 0))
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			stage := rapid.SampledFrom(w.stages).Draw(t, "stage")
			now := drawn(t)
			if before := targets[stage]; len(before) == 0 || len(now) == 0 || before[0].revision != now[0].revision {
				came[stage] = w.tick()
			}
			targets[stage] = now
			w.see(stage, observed(now, came[stage], w.tick()))
			w.now = w.now.Add(2 * time.Hour) // no retry is waited for
			if rapid.IntRange(0, 4).Draw(t, "begins anew") == 4 {
				w.again()
				anew++
			}
			fails := rapid.Bool().Draw(t, "fails")
			promoted := w.settle(fails)
			want, revision := naive(w.stages, targets)
			of := fmt.Sprint(want, revision, came[w.stages[0]])
			switch {
			case promoted == nil && want == "":
			case promoted != nil && promoted.Stage == want && promoted.Revision == revision && !done[of]:
				promotions++
				done[of] = !fails
			case promoted == nil && done[of] && w.explain(want).Code == promotion.WasPromoted:
				refused++ // what succeeded is not done twice, the only way in which they may differ
			default:
				t.Fatalf("promoted %+v; the seed promotes %q to %q: %+v", promoted, revision, want, w.reasons())
			}
		}
	})
	if few := testing.Short(); promotions == 0 || !few && (min(refused, anew) == 0 || refused > promotions) { // of a few histories there may be any
		t.Errorf("the histories have %d promotions, %d that were done before, and %d processes", promotions, refused, anew)
	}
}
