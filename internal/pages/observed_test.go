package pages_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

var regexpCarries = regexp.MustCompile(`name="carries" value="(sha256:[0-9a-f]{64})"`)

// What comes to a stage because it was observed in the one before is approved, and rejected, by
// the same page: as it was when the page was shown.
func TestWhatIsObservedIsApprovedByAForm(t *testing.T) {
	s := newSite(t)
	d := &definition.Definition{Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"}, Stages: []definition.Stage{
		{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod", Manual: true, Approvals: 2},
	}}
	s.must(promotions.New(s.log, s.now).Change(t.Context(), "shop", true, func(p *promotion.State) ([]deploylog.Event, error) {
		return p.Propose(promotion.Define{Definition: d, ID: s.id()}, promotion.Observed{}, s.now())
	}))
	deploy := func(stage, version string) {
		t.Helper()
		if err := querytest.Deploy(t.Context(), s.log, s.now, stage, version); err != nil {
			t.Fatal(err)
		}
	}
	deploy("prod", "old")
	deploy("dev", markup)
	viewer, approver := s.signedIn(identity.Viewer), s.signedIn(identity.Approver)
	form := func(b *browser, verdict, revision, carries string) url.Values {
		return url.Values{"form": {b.form("/approvals")}, "pipeline": {"shop"}, "stage": {"prod"}, "revision": {revision}, "carries": {carries}, "observed": {"true"}, "verdict": {verdict}, "reason": {"seen"}}
	}
	shown := func() string {
		t.Helper()
		_, body := approver.open("/approvals")
		m := regexpCarries.FindStringSubmatch(body)
		if m == nil || strings.Contains(body, markup) {
			t.Fatalf("the page is\n%s", body)
		}
		return m[1]
	}
	first := shown()
	if code, body := viewer.send("/approvals", form(viewer, "approve", markup, first)); code != http.StatusForbidden {
		t.Errorf("of a viewer it answers %d\n%s", code, body)
	}
	deploy("dev", "next")
	if code, body := approver.send("/approvals", form(approver, "approve", markup, first)); code != http.StatusConflict || !strings.Contains(body, "what comes to stage prod next is revision next") {
		t.Errorf("what was shown before answers %d\n%s", code, body)
	}
	deploy("dev", markup)
	if code, body := approver.send("/approvals", form(approver, "approve", markup, first)); code != http.StatusConflict || !strings.Contains(body, "look at it again") {
		t.Errorf("what came anew answers %d\n%s", code, body)
	}
	if code, body := approver.send("/approvals", form(approver, "approve", markup, shown())); code != http.StatusOK || !strings.Contains(body, "Approved.") || !strings.Contains(body, "1 more of 2") {
		t.Errorf("it answers %d\n%s", code, body)
	}
	if code, body := approver.send("/approvals", form(approver, "reject", markup, shown())); code != http.StatusOK || !strings.Contains(body, "Rejected.") || !strings.Contains(body, "Nothing waits") {
		t.Errorf("a rejection answers %d\n%s", code, body)
	}
	var names []string
	for e, err := range s.log.Read(t.Context(), deploylog.Filter{Target: promotion.StageTarget("shop", "prod")}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != promotion.Approved+" "+promotion.Rejected {
		t.Errorf("the log has %s", got)
	}
}
