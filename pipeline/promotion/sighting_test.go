package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// onHosts has the last stage of a pipeline of two be a manifest on hosts, for which a webhook is
// asked.
func onHosts(t *testing.T, change ...func(*definition.Definition)) *world {
	t.Helper()
	return newWorld(t, 2, definition.Promotion{Policy: definition.Single, Variable: "version", RetryAfter: dur(10 * time.Second)}, append([]func(*definition.Definition){func(d *definition.Definition) {
		d.Stages[1] = definition.Stage{
			Name: "b", Environment: "hosts:shop/b", Targets: &definition.Targets{Manifest: "m", Hosts: "all"},
			Strategy: definition.WithWebhook, Webhook: &definition.Webhook{URL: "https://ci", Timeout: dur(time.Minute)},
		}
	}}, change...)...)
}

// awaited is such a pipeline whose first stage runs revision 1.
func awaited(w *world) *world {
	w.runs("a", "1")
	w.decide()
	return w
}

// sees has it seen what the hosts run, and returns how many events that is.
func (w *world) sees(seen ...promotion.HostSighting) int {
	w.Helper()
	return w.sights(promotion.Sighting{Hosts: seen})
}

func (w *world) sights(seen promotion.Sighting) int {
	w.Helper()
	return w.sightsOf("b", seen)
}

func (w *world) sightsOf(stage string, seen promotion.Sighting) int {
	w.Helper()
	events := w.state.Sighted(stage, seen)
	w.record(events...)
	w.state.AddSightings(w.seen)
	return len(events)
}

func host(name, revision string) promotion.HostSighting {
	return promotion.HostSighting{Host: name, Revision: revision, Why: map[bool]string{true: "app is missing"}[revision == ""]}
}

func (w *world) reads(code promotion.Code, words string) {
	w.Helper()
	for _, r := range w.state.Explain(promotion.StageTarget("shop", "b"), w.seen, w.now) {
		if r.Code != code || !strings.Contains(r.Message, words) {
			w.Fatalf("it is %s: %s; want %s: %s", r.Code, r.Message, code, words)
		}
	}
}

func TestWhatHostsRunIsWhatWasSeenOfThem(t *testing.T) {
	w := awaited(onHosts(t))
	w.reads(promotion.Unobserved, "what host group shop/b runs is not known: it was not observed yet")
	require.Equal(t, 1, w.sees(host("x", ""), host("y", "")), "what was seen")
	w.reads(promotion.Ready, "")
	w.sees(host("x", "1"), host("y", ""))
	w.reads(promotion.Arriving, "some of host group shop/b runs revision 1: y runs no revision: app is missing")
	w.sees(host("x", "1"), host("y", "0"))
	w.reads(promotion.Arriving, "x runs revision 1, y runs revision 0")
	w.sees(host("x", "1"), promotion.HostSighting{Host: "y", Unknown: true, Why: "no answer"})
	w.reads(promotion.Unobserved, "y: no answer")
	w.sights(promotion.Sighting{Why: "all selects no host"})
	w.reads(promotion.Unobserved, "all selects no host")
	w.sees()
	w.reads(promotion.Unobserved, "no host is selected")
	w.sees(host("x", "1"), host("y", "1"))
	w.reads(promotion.There, "runs revision 1")
}

func TestWhatIsAsItWasIsNotRecordedAgain(t *testing.T) {
	w := onHosts(t)
	slow := func(took string) promotion.HostSighting {
		return promotion.HostSighting{Host: "x", Unknown: true, Why: "no answer within " + took}
	}
	require.Equal(t, 1, w.sees(slow("3s")))
	assert.Equal(t, 0, w.sees(slow("17s")), "it is recorded again that took another time only")
	assert.Equal(t, 1, w.sees(promotion.HostSighting{Host: "x", Unknown: true, Why: "refused"}), "it is not recorded that there is another reason")
	for range 2 {
		w.sees(host("x", "1"))
	}
	assert.Equal(t, 0, w.sees(host("x", "1")), "it is recorded again that nothing has changed")
}

func TestHostsThatLeaveAllAtOnceAreNotTheOnesThatRunTheRevision(t *testing.T) {
	w := awaited(onHosts(t, func(d *definition.Definition) { d.Stages[1].Targets.MaxLeaving = &budget.Budget{Count: 1} }))
	w.sees(host("x", "1"), host("y", "0"), host("z", "0"))
	w.sees(host("x", "1"), host("y", "0")) // one may
	w.reads(promotion.Arriving, "y runs revision 0")
	w.sees(host("x", "1"), host("y", "0"), host("z", "0"))
	w.sees(host("x", "1"))
	w.reads(promotion.Unobserved, "2 of 3 hosts would leave it at once, and max_leaving lets 1 go: y, z")
	w.sights(promotion.Sighting{Why: "all selects no host"}) // which does not make it better
	w.sees(host("x", "1"))
	w.reads(promotion.Unobserved, "2 of 3 hosts would leave it at once")

	// Whoever applies another definition wants it like that.
	w.redefines(func(d *definition.Definition) { d.Stages[1].Targets.MaxLeaving = &budget.Budget{Count: 2} })
	w.sees(host("x", "1"))
	w.reads(promotion.There, "runs revision 1")
}

func TestHowLongHostsRunARevisionBeginsAnewWhenOneDidNotOrOneJoins(t *testing.T) {
	w := onHosts(t)
	since := func() time.Time { return w.seen["hosts:shop/b"].Since }
	w.sees(host("x", "1"))
	began, came := since(), w.seen["hosts:shop/b"].Came
	w.now = w.now.Add(time.Minute)
	w.sees(host("x", ""))
	w.now = w.now.Add(time.Minute)
	w.sees(host("x", "1"))
	require.True(t, since().After(began))
	assert.Equal(t, came, w.seen["hosts:shop/b"].Came)
	began = since()
	w.now = w.now.Add(time.Minute)
	w.sees(host("x", "1"), host("y", "1"))
	assert.True(t, since().After(began), "a host that has joined has run it as long as the others")
	began = since()
	w.now = w.now.Add(time.Minute)
	w.sees(host("y", "1"))
	assert.WithinDuration(t, began, since(), 0, "by a host that leaves it begins anew")
	w.sees(host("y", "2"))
	assert.NotEqual(t, came, w.seen["hosts:shop/b"].Came, "another revision came with the event of the former")
}

// Another manifest, or other hosts, are another place: what was seen and approved there is void.
func TestAnotherManifestIsAnotherPlace(t *testing.T) {
	w := awaited(onHosts(t, func(d *definition.Definition) { d.Stages[1].Manual = true }))
	w.sees(host("x", "0"))
	w.command(promotion.Approve{Stage: "b", Revision: "1", ID: "yes", By: "ada"})
	w.reads(promotion.Ready, "")
	w.redefines(func(d *definition.Definition) { d.Stages[1].Targets.Files = map[string]string{"m": "2"} })
	delete(w.seen, "hosts:shop/b")
	w.state.AddSightings(w.seen)
	w.reads(promotion.Unobserved, "it was not observed yet")
	w.sees(host("x", "0"))
	w.reads(promotion.AwaitsApproval, "waits for approval")
}

// A promotion to hosts ends well by what is seen, and the numbers of revisions stay numbers.
func TestAPromotionToHostsEndsByWhatIsSeen(t *testing.T) {
	w := onHosts(t)
	w.sees(host("x", "0"))
	w.runs("a", "1")
	w.decide()
	if p := w.state.Promotions(); len(p) != 1 || p[0].Status != promotion.Running {
		t.Fatalf("promotions: %+v", p)
	}
	candidates := w.state.Candidates(1, w.seen)
	if len(candidates) != 2 || candidates[0].Revision != "1" || candidates[1].Revision != "0" {
		t.Errorf("it is looked for %+v", candidates)
	}
	w.sights(promotion.Sighting{Hosts: []promotion.HostSighting{host("x", "1")}, Value: 1})
	w.decide()
	assert.Equal(t, promotion.Finished, w.state.Promotions()[0].Status)
	if v := w.seen["hosts:shop/b"].Value; v != int64(1) {
		t.Errorf("its value is %T", v)
	}
	candidates = w.state.Candidates(1, w.seen)
	if len(candidates) != 2 || candidates[1].Revision != "0" || !candidates[1].Former || candidates[0].Former {
		t.Errorf("it is looked for %+v, and somebody may roll it back", candidates)
	}
	w.sees(host("x", ""))
	w.reads(promotion.WasPromoted, "revision 1 was promoted, and does not run there any more: x runs no revision: app is missing")
}

func TestNothingComesToHostsThatWereNotAskedAboutIt(t *testing.T) {
	w := onHosts(t)
	w.runs("a", "2")
	w.decide()
	sees := func(asked ...string) int {
		return w.sights(promotion.Sighting{Asked: asked, Hosts: []promotion.HostSighting{host("x", "1")}})
	}
	sees("0", "1")
	w.reads(promotion.Unobserved, "have not answered yet whether they run revision 2")
	assert.Equal(t, 1, sees("1", "2"), "that they were asked about another revision")
	w.reads(promotion.Ready, "")
	assert.Equal(t, 0, sees("2"), "that they were asked about fewer revisions")
	w.reads(promotion.Ready, "")
}

func TestSinceWhenHostsAreUnknownIsKept(t *testing.T) {
	w := awaited(onHosts(t))
	since := func() time.Time { return w.state.Report(w.seen, w.now).Stages[1].Since }
	silent := func(why string) promotion.HostSighting {
		return promotion.HostSighting{Host: "x", Unknown: true, Why: why}
	}
	w.sees(silent("no answer"))
	began := since()
	w.now = w.now.Add(time.Minute)
	w.sees(silent("refused"))
	require.False(t, began.IsZero())
	assert.WithinDuration(t, began, since(), 0, "it is unknown")
	w.reads(promotion.Unobserved, "x: refused; that is so since ")
	w.sees(host("x", "0"))
	w.now = w.now.Add(time.Minute)
	w.sees(silent("refused"))
	assert.True(t, since().After(began), "it is unknown")
}

// inClusters has the last stage of a pipeline of two be objects in two clusters.
func inClusters(t *testing.T) *world {
	t.Helper()
	return newWorld(t, 2, definition.Promotion{Policy: definition.Single, Variable: "version", RetryAfter: dur(10 * time.Second)}, func(d *definition.Definition) {
		d.Stages[1] = definition.Stage{
			Name: "b", Environment: "objects:shop/b", Strategy: definition.WithWebhook, Webhook: &definition.Webhook{URL: "https://ci", Timeout: dur(time.Minute)},
			Objects: []object.Object{{Cluster: "east", Kind: "Kustomization", Namespace: "n", Name: "a"}, {Cluster: "west", Kind: "Kustomization", Namespace: "n", Name: "a"}},
		}
	})
}

func unwell(name, revision, why string) promotion.HostSighting {
	return promotion.HostSighting{Host: name, Revision: revision, Unhealthy: true, Why: why}
}

func TestWhatObjectsRunIsWhatWasSeenOfThem(t *testing.T) {
	const east, west = "east/n/Kustomization/a", "west/n/Kustomization/a"
	w := awaited(inClusters(t))
	w.reads(promotion.Unobserved, "what object group shop/b runs is not known: it was not observed yet")
	w.sees(host(east, "0"), promotion.HostSighting{Host: west, Unknown: true, Why: "cluster west does not answer"})
	w.reads(promotion.Unobserved, west+": cluster west does not answer")
	w.sees(host(east, "0"), host(west, "0"))
	w.reads(promotion.Ready, "")

	// One that has the revision and is not well ends the search as one that is well does.
	w.sees(unwell(east, "1", "it is at work"), host(west, "0"))
	w.reads(promotion.Arriving, "some of object group shop/b runs revision 1: "+east+" is not well: it is at work, "+west+" runs revision 0")
	w.sees(unwell(east, "1", "it is at work"), unwell(west, "1", "it is at work"))
	w.reads(promotion.Arriving, east+" is not well: it is at work")
	assert.Equal(t, 1, w.sees(host(east, "1"), unwell(west, "1", "it is at work")), "that one is well now")
	w.sees(host(east, "1"), host(west, "1"))
	w.reads(promotion.There, "runs revision 1")

	r := w.state.Report(w.seen, w.now).Stages[1]
	if len(r.Hosts) != 0 || len(r.Objects) != 2 || r.Objects[0] != (promotion.ObjectReport{Object: east, Revision: "1", Health: promotion.Whole}) {
		t.Errorf("the report has %+v", r)
	}
}

// A soak begins anew only where something says that the revision was not well, or another one was there.
func TestWhatEndsASoakAndWhatDoesNot(t *testing.T) {
	const shop = "east/n/Kustomization/a"
	changing := promotion.HostSighting{Host: shop, Revision: "1", Unhealthy: true, Changing: true, Why: "its controller has not looked at it since it was changed"}
	for name, c := range map[string]struct {
		spell []promotion.HostSighting
		ends  bool
	}{
		"an unknown spell":              {spell: []promotion.HostSighting{{Host: shop, Unknown: true, Why: "cluster east does not answer"}}},
		"a change of its interval":      {spell: []promotion.HostSighting{changing}},
		"suspended, and resumed":        {spell: []promotion.HostSighting{{Host: shop, Revision: "1", Suspended: true}, changing}},
		"it was not well":               {spell: []promotion.HostSighting{unwell(shop, "1", "its condition Ready is False")}, ends: true},
		"it was not well when changed":  {spell: []promotion.HostSighting{changing, unwell(shop, "1", "its condition Ready is False"), changing}, ends: true},
		"unknown, and then another one": {spell: []promotion.HostSighting{{Host: shop, Unknown: true, Why: "no answer"}, host(shop, "0")}, ends: true},
		"it was not there":              {spell: []promotion.HostSighting{{Host: shop, Why: "it does not exist"}}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := inClusters(t)
			w.sees(host(shop, "1"))
			began := w.now
			for _, seen := range c.spell {
				w.now = w.now.Add(time.Minute)
				require.Equal(t, 1, w.sees(seen))
			}
			w.now = w.now.Add(time.Minute)
			w.sees(host(shop, "1"))
			since := w.state.Report(w.seen, w.now).Stages[1].Since
			assert.Equal(t, c.ends, since.After(began), "it runs since %s", since)
		})
	}
}

func TestWhatIsSuspendedIsSaid(t *testing.T) {
	const east, west = "east/n/Kustomization/a", "west/n/Kustomization/a"
	w := inClusters(t)
	w.sees(host(east, "0"), promotion.HostSighting{Host: west, Revision: "0", Suspended: true})
	w.runs("a", "1")
	assert.Contains(t, w.explain("b").Message, "; "+west+" is suspended, and stays as it is until somebody resumes or syncs it")
	report := func() promotion.ObjectReport { return w.state.Report(w.seen, w.now).Stages[1].Objects[1] }
	assert.Equal(t, promotion.ObjectReport{Object: west, Revision: "0", Health: promotion.Whole, Suspended: true, Why: "it is suspended"}, report())

	// What is only declared is no new revision, whether its status follows or not.
	declared := promotion.HostSighting{Host: west, Revision: "1", Unhealthy: true, Suspended: true, Declared: true, Why: "it is paused: 0 of 2 Pods are of its newest template"}
	for _, unwell := range []bool{true, false} {
		declared.Unhealthy = unwell
		w.sees(host(east, "0"), declared)
		assert.Equal(t, promotion.ObjectReport{Object: west, Revision: "0", Health: promotion.Whole, Suspended: true, Why: "it is suspended, and is to run 1 when somebody resumes it"}, report())
		assert.Equal(t, promotion.Whole, w.state.Report(w.seen, w.now).Stages[1].Health)
	}
	w.sees(host(east, "0"), unwell(west, "1", "1 of 2 Pods are of its newest template"))
	assert.Equal(t, promotion.Partly, report().Health)
}

// Which revision an object runs is known through a time in which nothing of it can be seen: what is written
// into a suspended object meanwhile is only declared.
func TestASuspendedObjectKeepsItsRevisionThroughAnUnknownSpell(t *testing.T) {
	const east, west = "east/n/Kustomization/a", "west/n/Kustomization/a"
	runs := func(w *world) string { return w.state.Report(w.seen, w.now).Stages[1].Objects[1].Revision }
	silent := func(name string) promotion.HostSighting {
		return promotion.HostSighting{Host: name, Unknown: true, Why: "no answer"}
	}
	hosts := func(all ...promotion.HostSighting) promotion.Sighting { return promotion.Sighting{Hosts: all} }
	declared := promotion.HostSighting{Host: west, Revision: "1", Suspended: true, Declared: true}
	for name, spell := range map[string][]promotion.Sighting{
		"it does not answer":          {hosts(host(east, "0"), silent(west))},
		"it may be either of two":     {hosts(host(east, "0"), promotion.HostSighting{Host: west, Revision: "1", Unknown: true, Why: "or 0"})},
		"nothing is known of any":     {{Why: "the inventory cannot be read"}},
		"both, one after the other":   {{Why: "the inventory cannot be read"}, hosts(silent(east), silent(west))},
		"it was suspended before":     {hosts(host(east, "0"), promotion.HostSighting{Host: west, Revision: "0", Suspended: true}), hosts(host(east, "0"), silent(west))},
		"it was declared before that": {hosts(host(east, "0"), declared), hosts(host(east, "0"), silent(west))},
	} {
		t.Run(name, func(t *testing.T) {
			w := inClusters(t)
			w.sees(host(east, "0"), host(west, "0"))
			for _, seen := range spell {
				w.sights(seen)
			}
			w.sees(host(east, "0"), declared)
			assert.Equal(t, "0", runs(w))
			assert.Equal(t, promotion.Whole, w.state.Report(w.seen, w.now).Stages[1].Health)
			w.sees(host(east, "0"), silent(west))
			w.again()
			w.sees(host(east, "0"), promotion.HostSighting{Host: west, Revision: "2", Suspended: true, Declared: true})
			assert.Equal(t, "0", runs(w), "as another process knows it")
		})
	}
	w := inClusters(t)
	w.sees(host(east, "0"), host(west, "0"))
	w.sees(host(east, "0"), promotion.HostSighting{Host: west, Why: "it does not exist"})
	w.sees(host(east, "0"), declared)
	assert.Equal(t, "1", runs(w), "it was made anew, and there is nothing that it ran before")
	assert.Equal(t, promotion.Partly, w.state.Report(w.seen, w.now).Stages[1].Health)
}

// Of an object that was suspended before anybody looked at it, nobody knows whether it ever ran what is declared.
func TestWhatIsDeclaredInAnObjectThatNobodySawRunningIsNotWell(t *testing.T) {
	const east = "east/n/Kustomization/a"
	w := inClusters(t)
	declared := promotion.HostSighting{Host: east, Revision: "1", Suspended: true, Declared: true}
	report := func() promotion.ObjectReport { return w.state.Report(w.seen, w.now).Stages[1].Objects[0] }
	require.Equal(t, 1, w.sees(declared))
	assert.Equal(t, promotion.ObjectReport{Object: east, Revision: "1", Health: promotion.Partly, Suspended: true, Why: "it is suspended, and nobody has seen it run 1, which is declared; resume it"}, report())
	assert.Equal(t, 0, w.sees(declared), "as it was")
	w.sees(host(east, "1"))
	w.sees(declared)
	assert.Equal(t, promotion.Whole, report().Health, "it ran it")
}

// Pods of a paused workload fail as others do: it is as well as those are that it has.
func TestAPausedWorkloadIsAsWellAsItsPodsAre(t *testing.T) {
	const web = "east/n/Kustomization/a" // of the definition; what kind it is of makes no difference here
	paused := func(fewer string) promotion.HostSighting {
		return promotion.HostSighting{Host: web, Revision: "1", Unhealthy: true, Suspended: true, Declared: true, Fewer: &fewer, Why: "it is paused: 0 of 2 Pods are of its newest template"}
	}
	w := inClusters(t)
	report := func() promotion.ObjectReport { return w.state.Report(w.seen, w.now).Stages[1].Objects[0] }
	w.sees(host(web, "0"))
	w.sees(paused(""))
	assert.Equal(t, promotion.Whole, report().Health)
	w.sees(paused("1 of 2 Pods are available"))
	assert.Equal(t, promotion.ObjectReport{Object: web, Revision: "0", Health: promotion.Partly, Suspended: true, Why: "it is suspended, and is to run 1 when somebody resumes it: 1 of 2 Pods are available"}, report())
	w.sees(paused(""))
	assert.Equal(t, promotion.Whole, report().Health, "its Pods are there again")

	// It was paused before it ever ran the revision well, so Pods of others may be the ones that are available.
	w = inClusters(t)
	w.sees(host(web, "9"))
	w.sees(unwell(web, "0", "1 of 2 Pods are of its newest template"))
	w.sees(paused(""))
	assert.Equal(t, promotion.Partly, report().Health)
}

// deploysOnHosts has the last stage of a pipeline of two be a manifest that is applied on hosts.
func deploysOnHosts(t *testing.T) *world {
	t.Helper()
	w := onHosts(t, func(d *definition.Definition) {
		d.Stages[1].Strategy, d.Stages[1].Webhook, d.Stages[1].Targets.CheckEvery = "", nil, dur(time.Minute)
	})
	w.sees(host("x", "0"), host("y", "0"))
	w.runs("a", "1")
	return w
}

// one is the only step that may begin.
func (w *world) one() promotion.Step {
	w.Helper()
	steps := w.decide()
	if len(steps) != 1 || !steps[0].Promotes {
		w.Fatalf("what may begin: %+v", steps)
	}
	return steps[0]
}

// Hosts may be as they are to be before the last of them is done with.
func TestWhatIsBeingAppliedHasNotComeBeforeThatHasEnded(t *testing.T) {
	w := deploysOnHosts(t)
	s := w.one()
	w.sees(host("x", "1"), host("y", "1"))
	w.reads(promotion.Promoting, "revision 1 is being promoted, try 1")

	// A process that dies now leaves it to another one, which applies it again under the same key.
	w.again()
	if again := w.one(); again.Key() != s.Key() || len(again.Events) != 0 {
		t.Errorf("another process has %+v to do, not %s", again, s.Key())
	}
	w.record(w.state.Completed(s, promotion.Begun{Answer: "done"}, nil)...)
	w.decide()
	w.reads(promotion.There, "runs revision 1")
	if p := w.state.Promotions(); len(p) != 1 || p[0].Status != promotion.Finished || p[0].Attempt != 1 {
		t.Errorf("promotions: %+v", p)
	}
}

// Who has brought it to some of the hosts brings it to the others, and nobody else does.
func TestAStageOfWhichSomeHostsRunWhatWasAppliedGetsItAgain(t *testing.T) {
	w := deploysOnHosts(t)
	s := w.one()
	w.sees(host("x", "1"), host("y", "0"))
	w.record(w.state.Completed(s, promotion.Begun{}, errRefused)...)
	w.reads(promotion.AwaitsRetry, "try 1 of promoting revision 1 failed")
	w.now = w.now.Add(time.Minute)
	if again := w.one(); again.ID != s.ID || again.Attempt != 2 {
		t.Errorf("another try is %+v", again)
	}
	w = deploysOnHosts(t)
	w.sees(host("x", "1"), host("y", "0"))
	assert.Len(t, w.decide(), 0, "somebody else brings it there, and to be done")
	w.reads(promotion.Arriving, "y runs revision 0")
}

// What has come is not brought again by itself, also to a host that has joined since.
func TestWhatWasAppliedOnceIsAppliedAgainByWhoAsksForThat(t *testing.T) {
	w := deploysOnHosts(t)
	s := w.one()
	w.record(w.state.Completed(s, promotion.Begun{}, nil)...)
	w.sees(host("x", "1"), host("y", "1"))
	w.decide()
	w.sees(host("x", "1"), host("y", "1"), host("z", "0"))
	require.Len(t, w.decide(), 0, "it is to be done again")
	w.reads(promotion.WasPromoted, "z runs revision 0")
	w.command(promotion.ReleaseHold{Stage: "b", ID: "release"})
	if again := w.one(); again.ID == s.ID || again.Revision != "1" {
		t.Errorf("released it is %+v", again)
	}
}

func TestNothingIsAppliedOnHostsThatAreNotThoseThatWereSeen(t *testing.T) {
	w := deploysOnHosts(t)
	w.sees(host("x", "0"), host("y", "0"), host("z", "0"), host("u", "0"))
	s := w.one()
	for _, c := range []struct {
		hosts []string
		want  string
	}{
		{nil, "all selects no host"},
		{[]string{"x"}, "3 of 4 hosts would leave it at once"},
		{[]string{"a", "b", "c", "d"}, "4 of 4 hosts would leave it at once"},
	} {
		assert.ErrorContains(t, w.state.MayApply(s, c.hosts), c.want)
	}
	assert.NoError(t, w.state.MayApply(s, []string{"x", "y", "new"}))
	w.command(promotion.HoldStage{Stage: "b", ID: "hold", By: "ada"})
	assert.ErrorContains(t, w.state.MayApply(s, []string{"x", "y", "z", "u"}), "held by ada")
}

// A host to which something else comes while it is to be verified makes that void.
func TestOnlyWhatAllHostsRunIsVerified(t *testing.T) {
	w := awaited(onHosts(t, func(d *definition.Definition) { d.Stages[1].Verify = "smoke.yaml" }))
	w.sees(host("x", "1"), host("y", "1"))
	steps := w.decide()
	require.Len(t, steps, 1, "to be done")
	require.True(t, steps[0].Verifies, "to be done is %+v", steps)
	if hosts, _, ok := w.state.MayVerify(steps[0]); !ok || strings.Join(hosts, " ") != "x y" {
		t.Errorf("it is verified on %q, %v", hosts, ok)
	}
	w.sees(host("x", "1"), host("y", "0"))
	if _, _, ok := w.state.MayVerify(steps[0]); ok {
		t.Error("it is verified though not all hosts run it")
	}
}
