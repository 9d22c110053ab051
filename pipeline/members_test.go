package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/reason"
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
	for _, hosts := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c", "d"}} {
		w := newFleet(t, hosts...)
		w.release("v1", "x86", "aarch64", "raspbian")
		w.until("v1", record.HostTarget("ant-gateway", "beta", "a"), record.HostStarted)
		w.inventory()
		w.mayDo()
		w.explains(beta, fmt.Sprintf("v1 host-group-finished-successfully: no-hosts ant-gateway/beta host-group-members-held host-group/ant-gateway/beta #%d", len(w.log)))
		if got, _ := w.state.Members("ant-gateway/beta"); !slices.Equal(got, hosts) {
			t.Errorf("of the hosts %v are left %v", hosts, got)
		}
		w.inventory()
		if n := len(w.log); w.log[n-1].Name != record.MembersHeld || w.log[n-2].Name == record.MembersHeld {
			t.Errorf("that it holds is not recorded once:\n%s", strings.Join(w.story(), "\n"))
		}
		w.inventory(hosts...)
		w.idle()
		for _, host := range hosts {
			if !w.happened("v1", record.HostTarget("ant-gateway", "beta", host), deployed) {
				t.Errorf("%s of %v has not got v1", host, hosts)
			}
		}
		if len(w.state.Holds()) > 0 || !w.happened("v1", w.state.target, record.PipelineFinished) {
			t.Errorf("it holds although the hosts are back: %q", texts(w.state.Holds()))
		}
	}
}

func TestAQueryThatNeverSelectedAHostHoldsItsGroup(t *testing.T) {
	w := newFleet(t)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.explains(betaGroup, " host-group-members-changed: no-hosts ant-gateway/beta host-group-members-changed host-group/ant-gateway/beta #2\n"+
		"v1 stage-started: awaits-stage build stage/ant-gateway/build")
	w.idle()
	w.explains(betaGroup, "v1 host-group-finished-successfully: no-hosts ant-gateway/beta host-group-members-changed host-group/ant-gateway/beta #2")
	err := w.refused(Confirm{Group: "beta", ID: w.id()}, SelectsNoHost)
	w.says(err, "allow_empty: true")
	w.inventory("a")
	w.idle()
	if !w.happened("v1", record.HostTarget("ant-gateway", "beta", "a"), deployed) {
		t.Error("v1 is not deployed to the host that the corrected query selects")
	}
}

func TestAGroupThatMayBeEmptyFinishesWithoutAHost(t *testing.T) {
	for _, hosts := range [][]string{{"a", "b", "c"}, {}} {
		d := antGateway(deployed)
		d.Stages[1].Deploy.HostGroups[0].AllowEmpty = true
		w := newTale(t, d, map[string][]string{"ant-gateway/beta": hosts, "ant-gateway/prod": {"antworker001"}})
		w.release("v1", "x86", "aarch64", "raspbian")
		w.until("v1", betaGroup, record.GroupStarted)
		w.inventory()
		w.mayDo("v1 host-group-finished-successfully host-group/beta")
		w.idle()
		if !w.happened("v1", w.state.target, record.PipelineFinished) {
			t.Errorf("it is not finished: %q", texts(w.state.Explain(w.state.target)))
		}
	}
}

func TestAGroupHoldsThatWouldLoseMoreHostsAtOnceThanMayLeave(t *testing.T) {
	for _, test := range []struct {
		may      *budget.Budget
		selected string
		holds    bool
	}{
		{nil, "a b", false}, {nil, "a", true}, {nil, "a x y z", true}, {nil, "d c x", false},
		{&budget.Budget{}, "a b c", true}, {&budget.Budget{}, "d c b a", false}, {&budget.Budget{}, "a b c d e", false},
		{&budget.Budget{Count: 3}, "a", false}, {&budget.Budget{Count: 9}, "", true},
		{&budget.Budget{Percent: 1}, "a b c", false}, {&budget.Budget{Percent: 1}, "a b", true}, {&budget.Budget{Percent: 100}, "x", false},
	} {
		w := newFleet(t, "a", "b", "c", "d")
		w.state.definition.Stages[1].Deploy.HostGroups[0].MaxLeaving = test.may
		w.inventory(strings.Fields(test.selected)...)
		if got := len(w.state.Holds()) > 0; got != test.holds {
			t.Errorf("with max_leaving %v it holds when %q are selected of a b c d: %t", test.may, test.selected, got)
		}
	}
	w := newFleet(t, "a", "b")
	w.inventory("b")
	w.inventory("x") // a group that only one host is in may be moved to another
	if got, _ := w.state.Members("ant-gateway/beta"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the group has %v", got)
	}
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
	w.mayDo("v1 host-started host/beta/c", "v1 host-started host/beta/d")
	w.inventory("x", "y")
	w.inventory("x", "z")
	w.mayDo()
	w.refused(Confirm{Group: "bta"}, UnknownGroup)
	w.do(Confirm{Group: "beta", ID: w.id(), By: "ann"})
	w.mayDo("v1 host-started host/beta/x", "v1 host-started host/beta/z")
	w.refused(Confirm{Group: "beta"}, NothingToConfirm)
	if p := record.Read(w.log[len(w.log)-1].Data); p.By != "ann" {
		t.Errorf("it was confirmed by %q", p.By)
	}
	w.idle()
	if !w.happened("v1", w.state.target, record.PipelineFinished) {
		t.Errorf("it is not finished: %q", texts(w.state.Explain(w.state.target)))
	}
}

func TestWhatRunsWhenAGroupBeginsToHoldIsRecordedAndNothingFollows(t *testing.T) {
	w := newFleet(t, "a", "b", "c", "d")
	w.release("v1", "x86", "aarch64", "raspbian")
	on := func(host string) string { return string(record.HostTarget("ant-gateway", "beta", host)) }
	w.until("v1", betaGroup, record.GroupStarted)
	for _, host := range []string{"a", "b", "c", "d"} {
		w.complete("v1", record.HostTarget("ant-gateway", "beta", host), record.HostStarted)
	}
	busy := slices.Collect(w.state.Decide(noon, Can{}))
	if len(busy) != 4 {
		t.Fatalf("%d hosts are being deployed to", len(busy))
	}
	w.inventory("a")
	events, err := busy[0].Completed(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.append(events...)
	w.append(busy[1].Failed("disk full", ""))
	w.mayDo()
	w.inventory("a", "b", "c", "d")
	var may []string
	for _, s := range slices.Collect(w.state.Decide(noon, Can{})) {
		may = append(may, s.Event+" "+string(s.Target))
	}
	want := []string{record.HostFinished + " " + on("a"), record.HostFailed + " " + on("b"), deployed + " " + on("c"), deployed + " " + on("d")}
	if !slices.Equal(may, want) {
		t.Errorf("when the hosts are back, it may do\n%s, not\n%s", strings.Join(may, "\n"), strings.Join(want, "\n"))
	}
}

func TestAHoldLastsAsLongAsItsGroup(t *testing.T) {
	w := newFleet(t, "a", "b", "c")
	w.inventory("c")
	w.do(Define{Definition: antGateway(deployed, tested), ID: w.id()})
	if holds := w.state.Holds(); len(holds) != 1 || holds[0].Code != reason.AwaitsConfirmation || holds[0].Target != betaGroup {
		t.Errorf("after a change of the steps these hold: %q", texts(holds))
	}
	allowed := antGateway(deployed)
	allowed.Stages[1].Deploy.HostGroups[0].MaxLeaving = &budget.Budget{Percent: 90}
	w.do(Define{Definition: allowed, ID: w.id()})
	w.inventory("c")
	if holds := w.state.Holds(); len(holds) > 0 {
		t.Errorf("with another max_leaving these hold: %q", texts(holds))
	}
	w.inventory()
	without := antGateway(deployed)
	without.Stages = slices.Delete(without.Stages, 1, 2)
	without.Stages[1].After = []string{"build"}
	w.do(Define{Definition: without, ID: w.id()})
	w.do(Define{Definition: antGateway(deployed), ID: w.id()})
	if holds := w.state.Holds(); len(holds) > 0 {
		t.Errorf("of a group that came back these hold: %q", texts(holds))
	}
	if got := fold("ant-gateway", w.log).Holds(); len(got) > 0 {
		t.Errorf("folded anew these hold: %q", texts(got))
	}
}

func TestAPreviewOfALossThatHoldsTakesNoStepAway(t *testing.T) {
	w := newFleet(t, "a", "b", "c")
	w.release("v1", "x86", "aarch64", "raspbian")
	if got := w.changes(nil, map[string][]string{"ant-gateway/beta": {"c"}}); len(got) > 0 {
		t.Errorf("it tells\n%s", strings.Join(got, "\n"))
	}
}
