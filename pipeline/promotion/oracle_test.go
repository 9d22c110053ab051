package promotion_test

import (
	"fmt"
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
	if !whole(stages[0], current) {
		return "", ""
	}
	for _, next := range stages[1:] { // while there's a next environment
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
}

// observed is how the targets of an environment are observed as a whole.
func observed(targets []target, came, event int64) promotion.Observation {
	o := promotion.Observation{Health: promotion.Whole, Came: came, Event: event}
	if len(targets) == 0 {
		o.Health = promotion.Partly
		return o
	}
	o.Revision = targets[0].revision
	for _, t := range targets {
		if !t.healthy || t.revision != o.Revision {
			o.Health, o.Why = promotion.Partly, "some are not"
		}
		o.Runs = append(o.Runs, t.revision)
	}
	o.Active = promotion.Deployment{ID: fmt.Sprintf("d@%d", came), Revision: o.Revision, Status: promotion.Deployed}
	return o
}

// What Decide promotes is what the seed's algorithm does, whatever the environments run: with
// promotions that fail, that never come about, and that somebody undoes.
func TestPromotesAsTheSeedDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(2, 5).Draw(t, "stages"), definition.Promotion{Policy: definition.Single, RetryAfter: dur(time.Second)})
		targets := map[string][]target{}
		came := map[string]int64{}
		for _, stage := range w.stages {
			w.see(stage, observed(nil, 0, 0))
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			stage := rapid.SampledFrom(w.stages).Draw(t, "stage")
			var now []target
			for range rapid.IntRange(0, 3).Draw(t, "targets") {
				now = append(now, target{rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "revision"), rapid.IntRange(0, 4).Draw(t, "healthy") > 0})
			}
			if before := targets[stage]; len(before) == 0 || len(now) == 0 || before[0].revision != now[0].revision {
				came[stage] = w.tick()
			}
			targets[stage] = now
			w.see(stage, observed(now, came[stage], w.tick()))
			w.now = w.now.Add(2 * time.Hour) // no retry is waited for
			promoted := w.settle(rapid.Bool().Draw(t, "fails"))
			want, revision := naive(w.stages, targets)
			got, of := "", ""
			if promoted != nil {
				got, of = promoted.Stage, promoted.Revision
			}
			if got == want && of == revision {
				continue
			}
			// What succeeded is not done twice: the only way in which they may differ.
			if why := w.explain(want); got == "" && want != "" && why.Code == promotion.WasPromoted && why.Revision == revision {
				continue
			}
			t.Fatalf("promoted %q to %q; the seed promotes %q to %q: %+v", of, got, revision, want, w.reasons())
		}
	})
}
