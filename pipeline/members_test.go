package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/record"
)

var betaGroup = record.GroupTarget("ant-gateway", "ant-gateway/beta")

// inventory lets the query of the group beta select these hosts.
func (w *tale) inventory(hosts ...string) {
	w.Helper()
	w.do(SetMembers{Members: map[string][]string{"ant-gateway/beta": hosts}, ID: w.id()})
}

func newFleet(t *testing.T, hosts ...string) *tale {
	t.Helper()
	return newTale(t, antGateway(deployed), map[string][]string{"ant-gateway/beta": hosts, "ant-gateway/prod": {"antworker001"}})
}

func TestAnInventoryThatIsEmptyForASecondFinishesNoGroup(t *testing.T) {
	w := newFleet(t, "a", "b")
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", record.HostTarget("ant-gateway", "beta", "a"), record.HostStarted)
	w.inventory()
	w.mayDo()
	w.explains(beta, fmt.Sprintf("v1 host-group-finished-successfully: no-hosts ant-gateway/beta host-group-members-held host-group/ant-gateway/beta #%d", len(w.log)))
	n := len(w.log)
	w.inventory()
	assert.Len(t, w.log, n, "that it holds is recorded once")
	w.inventory("a", "b", "b") // which is listed twice
	assert.Empty(t, w.state.Holds())
	w.mayDo("v1 host-deployed host/beta/a", "v1 host-started host/beta/b")
}

func TestAQueryThatNeverSelectedAHostHoldsItsGroup(t *testing.T) {
	w := newFleet(t)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.explains(betaGroup, " host-group-members-changed: no-hosts ant-gateway/beta host-group-members-changed host-group/ant-gateway/beta #2\n"+
		"v1 stage-started: awaits-stage build stage/ant-gateway/build")
	w.idle()
	w.explains(betaGroup, "v1 host-group-finished-successfully: no-hosts ant-gateway/beta host-group-members-changed host-group/ant-gateway/beta #2")
	w.says(w.refused(Confirm{Group: "beta", ID: w.id()}, SelectsNoHost), "allow_empty: true")
}

func TestWhatAGroupWouldLoseIsConfirmedByAPerson(t *testing.T) {
	w := newFleet(t, "a", "b", "c", "d")
	w.refused(Confirm{Group: "ant-gateway/beta"}, NothingToConfirm)
	w.refused(Confirm{Group: "bta"}, UnknownGroup)
	w.refused(Confirm{Group: "prod"}, NothingToConfirm)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", betaGroup, record.GroupStarted)
	w.inventory("d")
	w.mayDo()
	w.explains(betaGroup, "v1 host-group-finished-successfully: awaits-confirmation ant-gateway/beta host-group-members-held host-group/ant-gateway/beta "+
		"3 of 4 hosts would leave it at once, and max_leaving lets 2 go: a, b, c #"+fmt.Sprint(len(w.log)))
	w.inventory("c", "d") // what is less wrong is taken over without a question
	w.inventory("x", "y")
	w.inventory("x", "z")
	w.mayDo()
	w.refused(Confirm{Group: "bta"}, UnknownGroup)
	w.do(Confirm{Group: "beta", ID: w.id(), By: "ann"})
	w.mayDo("v1 host-started host/beta/x", "v1 host-started host/beta/z")
	w.refused(Confirm{Group: "beta"}, NothingToConfirm)
	assert.Equal(t, "ann", record.Read(w.log[len(w.log)-1].Data).By, "it was confirmed by")
}

func TestAPreviewOfALossThatHoldsTakesNoStepAway(t *testing.T) {
	w := newFleet(t, "a", "b", "c")
	w.release("v1", "x86", "aarch64", "raspbian")
	assert.Empty(t, w.changes(nil, map[string][]string{"ant-gateway/beta": {"c"}}))
}

// What failed before a retry begins anew: no more of it at once than what begins at all.
func TestARetryLetsNoMoreHostsFlyThanTheFirstAttempt(t *testing.T) {
	w := newFleet(t, "a", "b", "c", "d", "e")
	group := &w.state.definition.Stages[1].Deploy.HostGroups[0]
	group.MaxInFlight, group.MaxFailed = &budget.Budget{Count: 1}, budget.Budget{Count: 3}
	at := func(host string) deploylog.Target { return record.HostTarget("ant-gateway", "beta", host) }
	for _, h := range []string{"a", "b", "c", "d"} {
		w.fails[string(at(h))+" "+deployed] = "disk full"
	}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Retry{Revision: "v1"})
	w.mayDo("v1 host-deployed host/beta/a")
	w.explains(at("b"), "v1 host-deployed: max-in-flight ant-gateway/beta 0 of 5, and max_in_flight lets 1")

	// Another one does not begin while it is at work, or rests before another try.
	w.append(w.state.Begun(w.id(), slices.Collect(w.state.Decide(noon, Can{}))))
	w.inventory("a", "b", "c", "d")
	w.mayDo("v1 host-deployed host/beta/a")
	w.explains(at("b"), fmt.Sprintf("v1 host-deployed: max-in-flight ant-gateway/beta host-started %s 1 of 4, and max_in_flight lets 1 #%d", at("a"), w.seq("v1", at("a"), record.HostStarted)))
}
