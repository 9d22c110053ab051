package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

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
		if err := w.state.MayApply(s, c.hosts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("on %q: %v; want %q", c.hosts, err, c.want)
		}
	}
	assert.NoError(t, w.state.MayApply(s, []string{"x", "y", "new"}))
	w.command(promotion.HoldStage{Stage: "b", ID: "hold", By: "ada"})
	if err := w.state.MayApply(s, []string{"x", "y", "z", "u"}); err == nil || !strings.Contains(err.Error(), "held by ada") {
		t.Errorf("held: %v", err)
	}
}

// A host to which something else comes while it is to be verified makes that void.
func TestOnlyWhatAllHostsRunIsVerified(t *testing.T) {
	w := onHosts(t, func(d *definition.Definition) { d.Stages[1].Verify = "smoke.yaml" })
	w.runs("a", "1")
	w.decide()
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
