package promotion_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
	"github.com/deployster-go/deployster/pipeline/record"
)

// asking is a pipeline of two stages, of which the second wants so many approvals, and
// revision 1 is to come there.
func asking(t *testing.T, approvals int, expires time.Duration) *world {
	w := newWorld(t, 2, definition.Promotion{Policy: definition.Single}, func(d *definition.Definition) {
		d.Stages[1].Manual, d.Stages[1].Approvals, d.Stages[1].Expires = true, approvals, dur(expires)
	})
	w.runs("b", "0")
	w.runs("a", "1")
	require.Nil(t, w.settle(false), "without an approval it promotes")
	return w
}

func (w *world) approve(by string) { w.Helper(); w.command(approves(by)) }

func approves(by string) promotion.Approve {
	return promotion.Approve{Stage: "b", Revision: "1", By: by}
}

// refused proposes a command that is to be refused for a reason.
func (w *world) refused(c promotion.Command, code refusal.Code, says string) {
	w.Helper()
	events, err := w.state.Propose(c, w.seen, w.now)
	var r *refusal.Error
	if !errors.As(err, &r) || r.Code != code || !strings.Contains(err.Error(), says) || len(events) > 0 {
		w.Fatalf("%+v comes to %v, %v; want %s", c, events, err, code)
	}
}

// asked are the revisions for which the log says that they wait for approval.
func (w *world) asked() (revisions []string) {
	for _, e := range w.log {
		if e.Name == promotion.Waiting {
			revisions = append(revisions, e.Revision)
		}
	}
	return revisions
}

func (w *world) waits(says string) {
	w.Helper()
	if s := w.settle(false); s != nil {
		w.Fatalf("it promotes %+v", s)
	}
	if r := w.explain("b"); !strings.Contains(r.Message, says) {
		w.Fatalf("the stage says %q (%s), want %q", r.Message, r.Code, says)
	}
}

func (w *world) promotes(revision string) {
	w.Helper()
	if s := w.settle(false); s == nil || s.Revision != revision {
		w.Fatalf("it promotes %+v: %+v", s, w.explain("b"))
	}
}

func TestAsManyHaveToApproveAsTheStageSays(t *testing.T) {
	w := asking(t, 2, 0)
	w.waits("revision 1 waits for approval: approval missing: 2, by different people or keys")
	w.approve("ann")
	w.waits("approved by ann, 1 more of 2 by another")
	w.refused(approves("ann"), promotion.AlreadyApproved, "by ann, who counts once")
	w.approve("bob")
	w.promotes("1")
	assert.Equal(t, []string{"1"}, w.asked(), "it was told to wait")
}

// An approval is of one revision, since it came to the stage before.
func TestApprovalsOfAnotherTimeDoNotCount(t *testing.T) {
	w := asking(t, 2, 0)
	w.approve("ann")
	w.runs("a", "2")
	w.waits("revision 2 waits for approval: approval missing: 2")
	w.runs("a", "1")
	w.waits("revision 1 waits for approval: approval missing: 2")
	w.approve("bob")
	w.waits("approved by bob, 1 more of 2 by another")
	assert.Equal(t, []string{"1", "2", "1"}, w.asked(), "it was told to wait")
}

func TestApprovalsExpire(t *testing.T) {
	w := asking(t, 2, time.Hour)
	w.approve("ann")
	w.now = w.now.Add(59 * time.Minute)
	w.approve("bob")
	w.see("b", promotion.Observation{Health: promotion.Unknown, Why: "it does not answer", Event: w.tick()})
	w.now = w.now.Add(time.Minute)
	w.runs("b", "0")
	w.waits("approved by bob, 1 more of 2 by another; the approval by ann")
	w.approve("ann") // anew
	w.promotes("1")
}

// Where all that was approved is void, it is told again that a stage waits, once.
func TestItIsToldAgainThatAStageWaits(t *testing.T) {
	w := asking(t, 2, time.Hour)
	w.approve("ann")
	w.waits("1 more")
	w.now = w.now.Add(time.Hour)
	for range 3 {
		w.waits("approval missing: 2")
	}
	assert.Len(t, w.asked(), 2, "it was told")
}

func TestFewerApprovalsAreEnoughOnceTheDefinitionSaysSo(t *testing.T) {
	w := asking(t, 2, 0)
	w.approve("ann")
	w.redefines(func(d *definition.Definition) { d.Stages[1].Approvals = 1 })
	w.promotes("1")
}

func TestARejectedRevisionDoesNotCome(t *testing.T) {
	w := asking(t, 2, 0)
	w.approve("ann")
	reject := promotion.Reject{Stage: "b", Revision: "1", By: "eve", Reason: "drops sessions"}
	w.command(reject)
	w.waits("revision 1 was rejected by eve: drops sessions")
	w.refused(reject, promotion.AlreadyRejected, "already by eve")
	w.refused(approves("bob"), promotion.AlreadyRejected, "release-hold shop b asks for approval again")
	w.command(promotion.ReleaseHold{Stage: "b", By: "ann"})
	w.waits("approval missing: 2, by different people or keys; the approval by ann")
	w.approve("bob")
	w.waits("approved by bob, 1 more")
	w.approve("ann")
	w.promotes("1")
	assert.Len(t, w.asked(), 2, "it was told")
}

// What is rejected is one revision; another one waits for approval by itself, and so does the
// same once it comes back.
func TestARejectionIsOfOneRevision(t *testing.T) {
	w := asking(t, 1, 0)
	w.command(promotion.Reject{Stage: "b", Revision: "1", By: "eve"})
	w.waits("revision 1 was rejected by eve")
	w.runs("a", "2")
	w.waits("revision 2 waits for approval")
	w.runs("a", "1")
	w.waits("revision 1 waits for approval")
}

func TestOnlyWhatWaitsIsRejected(t *testing.T) {
	w := asking(t, 1, 0)
	w.refused(promotion.Reject{Stage: "b", Revision: "2"}, promotion.NotAwaited, "next is revision 1")
	w.refused(promotion.Reject{Stage: "a", Revision: "1"}, promotion.FirstStage, "")
	w.approve("ann")
	w.decide() // its promotion is under way
	w.refused(promotion.Reject{Stage: "b", Revision: "1"}, promotion.NotAwaited, "is being promoted")
}

// Who looked at something else does not approve this.
func TestAnApprovalIsBoundToWhatItIsOf(t *testing.T) {
	w := asking(t, 1, 0)
	hash := w.explain("b").Approval.Carries
	c := approves("ann")
	c.Carries = hash
	w.runs("a", "2")
	w.runs("a", "1") // the same text, at another time
	w.refused(c, promotion.CarriesOther, "look at it again")
	if now := w.explain("b").Approval.Carries; now == hash || !strings.HasPrefix(now, "sha256:") {
		t.Errorf("the hash is %q, and was %q", now, hash)
	}
	c.Carries = w.explain("b").Approval.Carries
	w.command(c)
	w.promotes("1")
}

// What the log says is approved counts by its hash alone, also where the log was written by another program.
func TestAnApprovalOfAnotherHashIsVoid(t *testing.T) {
	for name, of := range map[string]*record.ApprovalInfo{"of none": nil, "of another one": {Carries: "sha256:4a"}} {
		t.Run(name, func(t *testing.T) {
			w := asking(t, 1, 0)
			w.record(deploylog.Event{
				Deployment: "x", Target: promotion.StageTarget("shop", "b"), Revision: "1", Name: promotion.Approved, Attempt: 1, Data: promotion.Payload{By: "ann", Approval: of}.Data(),
			})
			w.waits("is void: what the revision carries has changed since")
			w.approve("ann")
			w.promotes("1")
		})
	}
}

// A stage that gets another environment asks for that, too.
func TestItIsToldOfAnotherEnvironmentThatAStageWaits(t *testing.T) {
	w := asking(t, 1, 0)
	w.waits("waits for approval")
	w.moves(1, "env/c")
	w.runs("c", "0")
	w.waits("waits for approval")
	assert.Equal(t, []string{"1", "1"}, w.asked(), "it was told to wait")
}

// An approval and a rejection are of one arrival at the stage before, with both policies.
func TestAnotherArrivalAtTheStageBeforeEndsWhatWasDecided(t *testing.T) {
	edits := map[string]func(*world){
		"the stage before is rolled back, and gets the revision again": func(w *world) {
			w.runs("b", "0")
			w.runs("b", "1")
		},
		"a stage is inserted": func(w *world) {
			d := *w.state.Definition()
			d.Stages = slices.Insert(slices.Clone(d.Stages), 2, definition.Stage{Name: "new", Environment: "env/new"})
			w.command(promotion.Define{Definition: &d, ID: "inserted"})
			w.see("new", running(w, "1"))
		},
		"a stage that ran the revision before the decision is inserted": func(w *world) {
			w.seen["env/new"] = w.seen["env/a"]
			d := *w.state.Definition()
			d.Stages = slices.Insert(slices.Clone(d.Stages), 2, definition.Stage{Name: "new", Environment: "env/new"})
			w.command(promotion.Define{Definition: &d, ID: "inserted"})
		},
		"the stage before gets another environment": func(w *world) {
			w.moves(1, "env/other")
			w.seen["env/other"] = w.seen["env/a"]
		},
	}
	// An edit voids approvals, but only a new arrival ends a rejection.
	arrives := map[string]bool{"the stage before is rolled back, and gets the revision again": true, "a stage is inserted": true}
	decisions := map[string]promotion.Command{
		"approved": promotion.Approve{Stage: "c", Revision: "1", By: "ann"},
		"rejected": promotion.Reject{Stage: "c", Revision: "1", By: "ann"},
	}
	for _, policy := range []definition.Policy{definition.Single, definition.Concurrent} {
		for decided, command := range decisions {
			for name, edit := range edits {
				t.Run(fmt.Sprintf("%s/%s/%s", policy, decided, name), func(t *testing.T) {
					w := newWorld(t, 3, definition.Promotion{Policy: policy}, func(d *definition.Definition) { d.Stages[2].Manual = true })
					w.runs("c", "0")
					w.runs("a", "1")
					w.runs("b", "1")
					w.settle(false)
					if decided == "approved" { // it would come at once
						w.command(promotion.HoldStage{Stage: "c", By: "ann", Reason: "later"})
					}
					w.command(command)
					edit(w)
					if decided == "approved" {
						w.command(promotion.ReleaseHold{Stage: "c", By: "ann"})
					}
					if s := w.settle(false); s != nil && s.Stage == "c" {
						t.Fatalf("it promotes %+v", s)
					}
					want := "waits for approval"
					if decided == "rejected" && !arrives[name] {
						want = "was rejected by ann"
					}
					assert.Contains(t, w.explain("c").Message, want)
				})
			}
		}
	}
}

// A stage of objects or hosts that goes to another revision in part, and comes back, has it anew: what was
// decided of it, and verified, is of another time.
func TestARevisionThatCameBackToObjectsOrHostsIsDecidedAnew(t *testing.T) {
	const east, west = "east/n/Kustomization/a", "west/n/Kustomization/a"
	stages := map[string]definition.Stage{
		"objects": {Name: "b", Environment: "objects:shop/b", Strategy: definition.WithWebhook, Webhook: &definition.Webhook{URL: "https://ci", Timeout: dur(time.Minute)}, Verify: "smoke.yaml", Objects: []object.Object{{Cluster: "east", Kind: "Kustomization", Namespace: "n", Name: "a"}, {Cluster: "west", Kind: "Kustomization", Namespace: "n", Name: "a"}}},
		"hosts":   {Name: "b", Environment: "hosts:shop/b", Strategy: definition.WithWebhook, Webhook: &definition.Webhook{URL: "https://ci", Timeout: dur(time.Minute)}, Verify: "smoke.yaml", Targets: &definition.Targets{Manifest: "m", Hosts: "all"}},
	}
	spells := map[string]struct {
		seen promotion.HostSighting
		anew bool
	}{
		"one runs the revision before":              {host(west, "0"), true},
		"one runs another one, and is not well":     {unwell(west, "0", "its Pods crash"), true},
		"one is not well":                           {unwell(west, "1", "its Pods crash"), false},
		"one does not answer":                       {promotion.HostSighting{Host: west, Unknown: true, Why: "no answer"}, false},
		"one may run either of two":                 {promotion.HostSighting{Host: west, Revision: "0", Unknown: true, Why: "or 1"}, false},
		"one lacks something of it":                 {host(west, ""), false},
		"one is suspended, and is to run something": {promotion.HostSighting{Host: west, Revision: "2", Suspended: true, Declared: true}, false},
	}
	for of, stage := range stages {
		for _, policy := range []definition.Policy{definition.Single, definition.Concurrent} {
			for name, spell := range spells {
				if of == "hosts" && spell.seen.Suspended {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", of, policy, name), func(t *testing.T) {
					w := newWorld(t, 3, definition.Promotion{Policy: policy}, func(d *definition.Definition) { d.Stages[1], d.Stages[2].Manual = stage, true })
					w.runs("c", "0")
					w.runs("a", "1")
					w.sees(host(east, "1"), host(west, "1"))
					verified := func() {
						for _, s := range w.decide() {
							if s.Verifies {
								w.record(w.state.Verified(s, nil)...)
							}
						}
					}
					verified()
					w.command(promotion.HoldStage{Stage: "c", By: "ann", Reason: "later"})
					w.command(promotion.Approve{Stage: "c", Revision: "1", By: "ann"})
					w.sees(host(east, "1"), spell.seen)
					w.decide()
					w.sees(host(east, "1"), host(west, "1"))
					w.again()
					w.command(promotion.ReleaseHold{Stage: "c", By: "ann"})
					if spell.anew {
						assert.Contains(t, w.explain("c").Message, "waits for stage b, which is to be verified", "what was verified is of another time")
						verified()
						w.decide()
						assert.Contains(t, w.explain("c").Message, "waits for approval")
						return
					}
					w.decide()
					assert.Contains(t, w.explain("c").Message, "is being promoted", "nothing else came there")
				})
			}
		}
	}
}

// A host that joins a stage comes with what its image has, and another one leaves: neither takes the revision
// from the hosts that ran it.
func TestHostsThatJoinOrLeaveEndNoApproval(t *testing.T) {
	hosts := func(all ...promotion.HostSighting) []promotion.HostSighting { return all }
	x, y := host("x", "1"), host("y", "1")
	for name, c := range map[string]struct {
		seen [][]promotion.HostSighting
		anew bool
	}{
		"one joins with the revision before":    {[][]promotion.HostSighting{hosts(x, y, host("z", "0")), hosts(x, y, host("z", "1"))}, false},
		"one joins with nothing":                {[][]promotion.HostSighting{hosts(x, y, host("z", "")), hosts(x, y, host("z", "1"))}, false},
		"one joins with the revision":           {[][]promotion.HostSighting{hosts(x, y, host("z", "1"))}, false},
		"one joins, and leaves again":           {[][]promotion.HostSighting{hosts(x, y, host("z", "0")), hosts(x, y)}, false},
		"one leaves":                            {[][]promotion.HostSighting{hosts(x)}, false},
		"one leaves, and comes back as it was":  {[][]promotion.HostSighting{hosts(x), hosts(x, y)}, false},
		"one leaves, and comes back as new":     {[][]promotion.HostSighting{hosts(x), hosts(x, host("y", "0")), hosts(x, y)}, false},
		"one is replaced":                       {[][]promotion.HostSighting{hosts(x, host("z", "0")), hosts(x, host("z", "1"))}, false},
		"one that joined is rolled back":        {[][]promotion.HostSighting{hosts(x, y, host("z", "1")), hosts(x, y, host("z", "0")), hosts(x, y, host("z", "1"))}, true},
		"one joins, and another is rolled back": {[][]promotion.HostSighting{hosts(x, y, host("z", "0")), hosts(x, host("y", "0"), host("z", "1")), hosts(x, y, host("z", "1"))}, true},
		"one is rolled back, and leaves":        {[][]promotion.HostSighting{hosts(x, host("y", "0")), hosts(x)}, true},
		"all are replaced":                      {[][]promotion.HostSighting{hosts(host("z", "0")), hosts(host("z", "1"))}, true},
	} {
		for _, policy := range policies {
			t.Run(fmt.Sprintf("%s/%s", name, policy), func(t *testing.T) {
				w := newWorld(t, 3, definition.Promotion{Policy: policy}, func(d *definition.Definition) {
					d.Stages[1] = onHosts(t).state.Definition().Stages[1]
					d.Stages[1].Targets.MaxLeaving = &budget.Budget{Count: 2}
					d.Stages[2].Manual, d.Stages[2].Approvals = true, 2
				})
				w.runs("c", "0")
				w.runs("a", "1")
				w.sees(x, y)
				w.decide()
				w.command(promotion.Approve{Stage: "c", Revision: "1", By: "ann"})
				for _, seen := range c.seen {
					w.sees(seen...)
					w.decide()
				}
				w.again()
				assert.Contains(t, w.explain("c").Message, map[bool]string{false: "approved by ann, 1 more of 2", true: "approval missing: 2"}[c.anew])
			})
		}
	}
}

func TestARejectionEndsWhenTheRevisionComesBackToObjects(t *testing.T) {
	const east = "east/n/Kustomization/a"
	w := newWorld(t, 3, definition.Promotion{Policy: definition.Concurrent}, func(d *definition.Definition) {
		d.Stages[1], d.Stages[2].Manual = inClusters(t).state.Definition().Stages[1], true
	})
	w.runs("c", "0")
	w.runs("a", "1")
	w.sees(host(east, "1"))
	w.settle(false)
	w.command(promotion.Reject{Stage: "c", Revision: "1", By: "ann"})
	w.sees(unwell(east, "0", "it was rolled back"))
	w.decide()
	w.sees(host(east, "1"))
	w.decide()
	assert.Contains(t, w.explain("c").Message, "waits for approval")
}

// running returns that an environment runs a revision as a whole, since now.
func running(w *world, revision string) promotion.Observation {
	return promotion.Observation{Health: promotion.Whole, Revision: revision, Runs: []string{revision}, Since: w.now, Came: w.tick(), Event: w.tick()}
}
