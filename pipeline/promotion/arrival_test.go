package promotion_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

var policies = []definition.Policy{definition.Single, definition.Concurrent}

// twoObjects is a stage of one object in each of two clusters, which a webhook brings revisions to.
func twoObjects(name string) definition.Stage {
	return definition.Stage{
		Name: name, Environment: "objects:shop/" + name, Strategy: definition.WithWebhook, Webhook: &definition.Webhook{URL: "https://ci", Timeout: dur(time.Hour)},
		Objects: []object.Object{{Cluster: "east", Kind: "Kustomization", Namespace: "n", Name: "a"}, {Cluster: "west", Kind: "Kustomization", Namespace: "n", Name: "a"}},
	}
}

// run has the two objects of a stage seen to run revisions.
func (w *world) run(stage, east, west string) {
	w.Helper()
	w.sightsOf(stage, promotion.Sighting{Hosts: []promotion.HostSighting{host("east/n/Kustomization/a", east), host("west/n/Kustomization/a", west)}, Value: map[bool]any{true: east}[east == west]})
}

// asks has all asked for that is to be asked for.
func (w *world) asks() {
	w.Helper()
	for _, s := range w.decide() {
		if s.Promotes {
			w.record(w.state.Completed(s, promotion.Begun{Answer: "202 Accepted"}, nil)...)
		}
	}
}

// tries are how often a stage was to get a revision.
func (w *world) tries(stage, revision string) (n int) {
	for _, e := range w.log {
		if e.Name == promotion.StageStarted && e.Target == promotion.StageTarget("shop", stage) && e.Revision == revision {
			n++
		}
	}
	return n
}

// unmarked is the data of an event as it was recorded before sightings had a version.
func unmarked(t failer, data json.RawMessage) json.RawMessage {
	t.Helper()
	if promotion.PayloadOf(deploylog.Event{Data: data}).Observed == nil {
		return data
	}
	var all map[string]json.RawMessage
	var seen map[string]any
	if err := errors.Join(json.Unmarshal(data, &all), json.Unmarshal(all["observed"], &seen)); err != nil {
		t.Fatalf("%v", err)
	}
	delete(seen, "version")
	hosts, _ := seen["hosts"].([]any)
	for _, h := range hosts {
		if h, is := h.(map[string]any); is {
			delete(h, "declared")
		}
	}
	text, err := json.Marshal(map[string]any{"observed": seen})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return text
}

// A part of a stage that runs another revision for a while ends what was approved. It does not bring the
// revision to the next stage again, from which somebody took it.
func TestAPartThatRanAnotherRevisionBringsNothingAgain(t *testing.T) {
	for _, policy := range policies {
		for _, strays := range []string{"a", "b"} {
			t.Run(fmt.Sprint(policy, " ", strays), func(t *testing.T) {
				w := newWorld(t, 3, definition.Promotion{Policy: policy}, func(d *definition.Definition) {
					d.Stages[0], d.Stages[1] = twoObjects("a"), twoObjects("b")
					d.Stages[0].Strategy, d.Stages[0].Webhook = "", nil
					d.Stages[2].Strategy, d.Stages[2].Webhook = definition.WithWebhook, d.Stages[1].Webhook
				})
				w.dies = true
				w.run("b", "0", "0")
				w.runs("c", "0")
				w.run("a", "1", "1")
				w.asks()
				w.run("b", "1", "1")
				w.asks()
				w.runs("c", "1")
				w.asks()
				w.runs("c", "0") // somebody reverts it in git
				w.asks()
				require.Equal(t, promotion.WasPromoted, w.explain("c").Code)
				w.run(strays, "1", "0")
				w.asks()
				w.run(strays, "1", "1")
				w.asks()
				assert.Equal(t, promotion.WasPromoted, w.explain("c").Code)
				w.again()
				w.asks()
				assert.Equal(t, []int{1, 1}, []int{w.tries("b", "1"), w.tries("c", "1")})

				w.run("a", "2", "2") // another one was there as a whole
				w.asks()
				w.run("b", "2", "2")
				w.asks()
				w.runs("c", "2")
				w.asks()
				w.run("a", "1", "1")
				w.asks()
				w.run("b", "1", "1")
				w.asks()
				assert.Equal(t, []int{2, 2}, []int{w.tries("b", "1"), w.tries("c", "1")}, "it has come anew")
			})
		}
	}
}

// While a part of the stage before runs another revision for a while, what was asked for is under way.
func TestAPartThatRanAnotherRevisionGivesNothingUp(t *testing.T) {
	for _, policy := range policies {
		for _, strategy := range []definition.Strategy{definition.WithWebhook, definition.WithPullRequest} {
			t.Run(fmt.Sprint(policy, " ", strategy), func(t *testing.T) {
				w := newWorld(t, 2, definition.Promotion{Policy: policy}, func(d *definition.Definition) {
					d.Stages[1].Strategy, d.Stages[1].Webhook = definition.WithWebhook, &definition.Webhook{URL: "https://ci", Timeout: dur(time.Hour)}
					if strategy == definition.WithPullRequest {
						proposes(d)
					}
					d.Stages[0] = twoObjects("a")
					d.Stages[0].Strategy, d.Stages[0].Webhook = "", nil
				})
				w.runs("b", "0")
				w.run("a", "1", "1")
				w.asks()
				id := w.state.Promotions()[0].ID
				w.run("a", "1", "0")
				w.asks()
				w.run("a", "1", "1")
				w.asks()
				w.again()
				w.asks()
				require.Len(t, w.state.Promotions(), 1)
				assert.Equal(t, promotion.Running, w.state.Promotions()[0].Status)
				assert.Equal(t, 1, w.tries("b", "1"))
				if strategy == definition.WithPullRequest {
					w.unwanted(t)
				}
				w.runs("b", "1")
				w.asks()
				p := w.state.Promotions()[0]
				assert.Equal(t, []any{id, promotion.Finished}, []any{p.ID, p.Status})
			})
		}
	}
}

// A try whose process died goes on by an approval that was given after a part of the stage before had run
// another revision. It does not by one that was given before.
func TestATryWhoseProcessDiedGoesOnByAnApprovalOfTheLastArrival(t *testing.T) {
	for _, policy := range policies {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, 3, definition.Promotion{Policy: policy}, func(d *definition.Definition) {
				d.Stages[0], d.Stages[1], d.Stages[2].Manual = twoObjects("a"), twoObjects("b"), true
				d.Stages[0].Strategy, d.Stages[0].Webhook = "", nil
			})
			w.runs("c", "0")
			w.run("a", "1", "1")
			w.run("b", "1", "1")
			w.decide()
			stray := func() {
				w.run("b", "1", "0")
				w.decide()
				w.run("b", "1", "1")
			}
			stray()
			w.command(promotion.Approve{Stage: "c", Revision: "1", By: "ann"})
			require.Len(t, w.decide(), 1)
			w.again()
			steps := w.decide()
			require.Len(t, steps, 1)
			assert.True(t, steps[0].Promotes)
			stray()
			w.again()
			w.decide()
			assert.Contains(t, w.explain("c").Message, "waits for approval")
			assert.Equal(t, 1, w.tries("c", "1"))
		})
	}
}

// Versions by which only a stage that ran another revision as a whole had it come anew recorded no version
// of what they saw. What they decided stays: nothing is decided anew when another version reads their log.
func TestWhatAnOldLogSaysWasDecidedStays(t *testing.T) {
	approve := func(w *world, by ...string) {
		for _, name := range by {
			w.command(promotion.Approve{Stage: "c", Revision: "1", By: name})
		}
		w.asks()
	}
	for name, c := range map[string]struct {
		decide func(w *world)
		stays  string
		anew   string // once a part has run another revision since
	}{
		"approved":  {func(w *world) { approve(w, "ann") }, "approved by ann, 1 more of 2", "approval missing: 2"},
		"rejected":  {func(w *world) { w.command(promotion.Reject{Stage: "c", Revision: "1", By: "ann"}) }, "was rejected by ann", "approval missing: 2"},
		"under way": {func(w *world) { approve(w, "ann", "bob") }, "is being promoted, try 1", "is being promoted, try 1"},
		"promoted": {func(w *world) {
			approve(w, "ann", "bob")
			w.runs("c", "1")
			w.asks()
			w.runs("c", "0")
			w.asks()
		}, "was promoted, and somebody has deployed another one since", "was promoted, and somebody has deployed another one since"},
	} {
		for _, policy := range policies {
			for _, old := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/old %v", name, policy, old), func(t *testing.T) {
					w := newWorld(t, 3, definition.Promotion{Policy: policy}, func(d *definition.Definition) {
						d.Stages[1] = twoObjects("b")
						d.Stages[1].Verify = "smoke.yaml"
						d.Stages[2].Manual, d.Stages[2].Approvals, d.Stages[2].Strategy, d.Stages[2].Webhook = true, 2, definition.WithWebhook, d.Stages[1].Webhook
					})
					w.old = true
					w.runs("c", "0")
					w.runs("a", "1")
					w.run("b", "1", "1")
					w.verified()
					c.decide(w)
					w.old = old
					w.run("b", "1", "0")
					w.decide()
					w.run("b", "1", "1")
					w.old = false
					w.again()
					if old {
						events := len(w.log)
						assert.Empty(t, w.decide())
						assert.Len(t, w.log, events, "something is decided anew")
						assert.Contains(t, w.explain("c").Message, c.stays)
						return
					}
					w.verified()
					assert.Contains(t, w.explain("c").Message, c.anew)
				})
			}
		}
	}
}

// verified has all verified that is to be.
func (w *world) verified() {
	w.Helper()
	for _, s := range w.decide() {
		if s.Verifies {
			w.record(w.state.Verified(s, nil)...)
		}
	}
	w.asks()
}

// Versions that did not record which revisions are only declared say of no suspended object that it ran one.
func TestWhatAnOldLogSaysOfSuspendedObjectsIsNoProof(t *testing.T) {
	const east, west = "east/n/Kustomization/a", "west/n/Kustomization/a"
	report := func(w *world) promotion.ObjectReport { return w.state.Report(w.seen, w.now).Stages[1].Objects[1] }
	suspended := promotion.HostSighting{Host: west, Revision: "1", Suspended: true}
	declared := promotion.HostSighting{Host: west, Revision: "1", Suspended: true, Declared: true}
	for name, c := range map[string]struct {
		before []promotion.HostSighting // as an old version recorded them
		since  []promotion.HostSighting
		health promotion.Health
	}{
		"it was only declared":               {[]promotion.HostSighting{suspended}, nil, promotion.Partly},
		"it ran it before":                   {[]promotion.HostSighting{host(west, "1"), suspended}, nil, promotion.Whole},
		"it ran another one":                 {[]promotion.HostSighting{host(west, "0"), suspended}, nil, promotion.Partly},
		"it was seen to run it since":        {[]promotion.HostSighting{suspended}, []promotion.HostSighting{host(west, "1")}, promotion.Whole},
		"it runs it, and is suspended still": {[]promotion.HostSighting{suspended}, []promotion.HostSighting{suspended}, promotion.Whole},
	} {
		t.Run(name, func(t *testing.T) {
			w := inClusters(t)
			w.old = true
			for _, h := range c.before {
				w.sees(host(east, "1"), h)
			}
			w.old = false
			w.again()
			for _, h := range c.since {
				w.sees(host(east, "1"), h)
			}
			w.again()
			w.sees(host(east, "1"), declared)
			assert.Equal(t, c.health, report(w).Health)
			assert.Equal(t, 0, w.sees(host(east, "1"), declared), "as it was")
			w.again()
			assert.Equal(t, 0, w.sees(host(east, "1"), declared), "as it was, to another process")
		})
	}
}
