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

// sees has it seen what the hosts run, and returns how many events that is.
func (w *world) sees(seen ...promotion.HostSighting) int {
	w.Helper()
	return w.sights(promotion.Sighting{Hosts: seen})
}

func (w *world) sights(seen promotion.Sighting) int {
	w.Helper()
	events := w.state.Sighted("b", seen)
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
	w := onHosts(t)
	w.runs("a", "1")
	w.decide()
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
	w := onHosts(t, func(d *definition.Definition) { d.Stages[1].Targets.MaxLeaving = &budget.Budget{Count: 1} })
	w.runs("a", "1")
	w.decide()
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
	d := *w.state.Definition()
	d.Stages = append([]definition.Stage{}, d.Stages...)
	targets := *d.Stages[1].Targets
	targets.MaxLeaving, d.Stages[1].Targets = &budget.Budget{Count: 2}, &targets
	w.command(promotion.Define{Definition: &d, ID: "again"})
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
	w := onHosts(t, func(d *definition.Definition) { d.Stages[1].Manual = true })
	w.runs("a", "1")
	w.decide()
	w.sees(host("x", "0"))
	w.command(promotion.Approve{Stage: "b", Revision: "1", ID: "yes", By: "ada"})
	w.reads(promotion.Ready, "")
	d := *w.state.Definition()
	d.Stages = append([]definition.Stage{}, d.Stages...)
	targets := *d.Stages[1].Targets
	targets.Files, d.Stages[1].Targets = map[string]string{"m": "2"}, &targets
	w.command(promotion.Define{Definition: &d, ID: "again"})
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
	w := onHosts(t)
	w.runs("a", "1")
	w.decide()
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
