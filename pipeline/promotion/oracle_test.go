package promotion_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	if min(promotions, refused, anew) == 0 || refused > promotions {
		t.Errorf("the histories have %d promotions, %d that were done before, and %d processes", promotions, refused, anew)
	}
}

// pairs is the other algorithm of the seed, line by line: "examine each successive pair of
// environments (N and N+1), and trigger a promotion if N is running a different revision to N+1".
// What the seed leaves open is decided as for the single one: N runs a revision that all its
// targets run and are healthy with, and nothing is triggered where any target of N+1 runs it, or
// cannot be read. "There would need to be additional thought on what to do when environment N+1
// already has a promotion outstanding": it is let finish first.
func pairs(stages []string, targets map[string][]target, outstanding map[string]promotion.Step) map[string]string {
	wanted := map[string]string{}
	for n := range stages[1:] {
		source, next := targets[stages[n]], targets[stages[n+1]]
		_, busy := outstanding[stages[n+1]]
		_, moving := outstanding[stages[n]]
		if len(source) == 0 || unread(source) || unread(next) || busy || moving {
			continue
		}
		revision := source[0].revision
		whole := !slices.ContainsFunc(source, func(t target) bool { return !t.healthy || t.revision != revision })
		there := slices.ContainsFunc(next, func(t target) bool { return t.revision == revision })
		if whole && !there {
			wanted[stages[n+1]] = revision
		}
	}
	return wanted
}

// With the policy concurrent Decide promotes what the seed's other algorithm does, whatever the
// environments run: with promotions that fail, that are under way for long, that somebody undoes,
// and with processes that begin anew from the log.
func TestPromotesPairsAsTheSeedDoes(t *testing.T) {
	promotions, refused, waited, atOnce := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(2, 5).Draw(t, "stages"), definition.Promotion{Policy: definition.Concurrent, RetryAfter: dur(time.Second)})
		targets, came, done := map[string][]target{}, map[string]int64{}, map[string]bool{}
		outstanding := map[string]promotion.Step{}
		for _, stage := range w.stages {
			w.see(stage, observed(nil, 0, 0))
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			stage := rapid.SampledFrom(w.stages).Draw(t, "stage")
			if s, under := outstanding[stage]; under { // it comes to its end
				came[stage] = w.tick()
				targets[stage] = []target{{revision: s.Revision, healthy: true}}
				o := observed(targets[stage], came[stage], w.tick())
				o.Active.ID = s.Key()
				w.see(stage, o)
				delete(outstanding, stage)
			} else {
				now := drawn(t)
				if before := targets[stage]; len(before) == 0 || len(now) == 0 || before[0].revision != now[0].revision {
					came[stage] = w.tick()
				}
				targets[stage] = now
				w.see(stage, observed(now, came[stage], w.tick()))
			}
			w.now = w.now.Add(2 * time.Hour) // no retry is waited for
			if rapid.IntRange(0, 4).Draw(t, "begins anew") == 4 {
				w.again()
			}
			wanted, before := pairs(w.stages, targets, outstanding), maps.Clone(outstanding)
			for next, revision := range wanted {
				of := fmt.Sprint(next, revision, came[w.stages[slices.Index(w.stages, next)-1]])
				if done[of] { // what succeeded is not done twice
					delete(wanted, next)
					refused++
				}
			}
			steps := w.decide()
			atOnce = max(atOnce, len(steps))
			for _, s := range steps {
				require.Equal(t, s.Revision, wanted[s.Stage], "revision %s is promoted to %s; the seed promotes %v", s.Revision, s.Stage, wanted)
				delete(wanted, s.Stage)
				promotions++
				if rapid.Bool().Draw(t, "fails") {
					w.done(s, errRefused)
					continue
				}
				w.done(s, nil)
				outstanding[s.Stage] = s
				done[fmt.Sprint(s.Stage, s.Revision, came[w.stages[slices.Index(w.stages, s.Stage)-1]])] = true
				o := w.seen["env/"+s.Stage]
				o.Health, o.Runs, o.Event = promotion.Partly, append(slices.Clone(o.Runs), s.Revision), w.tick()
				o.Revision, o.Active = s.Revision, promotion.Deployment{ID: s.Key(), Revision: s.Revision, Status: promotion.Deploying}
				w.see(s.Stage, o)
			}
			require.Empty(t, wanted, "the seed also promotes")
			for stage := range before {
				if w.explain(stage).Code == promotion.AwaitsPromotion {
					waited++
				}
			}
		}
	})
	if min(promotions, refused, waited) == 0 || atOnce < 2 {
		t.Errorf("the histories have %d promotions, %d that were done before, %d that wait for others, %d at once", promotions, refused, waited, atOnce)
	}
}
