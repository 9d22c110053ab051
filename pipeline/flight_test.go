package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/record"
)

// A budget of 0 breaks one host and not ten, where one at a time is in flight.
func TestOneInFlightBreaksOneHost(t *testing.T) {
	var hosts []string
	for i := range 10 {
		hosts = append(hosts, fmt.Sprint("h", i))
	}
	for _, test := range []struct {
		flight        *budget.Budget
		failed, broke int
	}{
		{nil, 0, 10}, {&budget.Budget{Count: 1}, 0, 1}, {&budget.Budget{Count: 1}, 2, 3}, {&budget.Budget{Percent: 10}, 0, 1},
		{&budget.Budget{Percent: 1}, 0, 1}, {&budget.Budget{Percent: 35}, 0, 3}, {&budget.Budget{Count: 99}, 0, 10}, {&budget.Budget{Count: 4}, 2, 6},
	} {
		w := newFleet(t, hosts...)
		group := &w.state.definition.Stages[1].Deploy.HostGroups[0]
		group.MaxInFlight, group.MaxFailed = test.flight, budget.Budget{Count: test.failed}
		w.release("v1", "x86", "aarch64", "raspbian")
		w.until("v1", betaGroup, record.GroupStarted)
		broke := map[string]bool{}
		for range 1000 { // each round begins all that it may, and then all of it fails
			steps := slices.Collect(w.state.Decide(noon, Can{}))
			if len(steps) == 0 {
				break
			}
			for _, s := range steps {
				if s.Work() {
					broke[s.Host] = true
					w.append(s.Failed("exit code 3", ""))
					continue
				}
				events, err := s.Completed(nil)
				if err != nil {
					t.Fatal(err)
				}
				w.append(events...)
			}
		}
		if len(broke) > test.broke || test.failed == 0 && len(broke) != test.broke || !w.happened("v1", beta, record.StageFailed) {
			t.Errorf("with max_in_flight %v and max_failed %d, %d hosts broke, want %d", test.flight, test.failed, len(broke), test.broke)
		}
	}
}

func TestTheNextHostBeginsWhenOneInFlightHasEnded(t *testing.T) {
	w := newFleet(t, "a", "b", "c", "d")
	w.state.definition.Stages[1].Deploy.HostGroups[0].MaxInFlight = &budget.Budget{Percent: 50}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", betaGroup, record.GroupStarted)
	w.mayDo("v1 host-started host/beta/a", "v1 host-started host/beta/b")
	on := func(host string) string { return string(record.HostTarget("ant-gateway", "beta", host)) }
	w.complete("v1", record.HostTarget("ant-gateway", "beta", "b"), record.HostStarted)
	w.complete("v1", record.HostTarget("ant-gateway", "beta", "a"), record.HostStarted)
	w.mayDo("v1 host-deployed host/beta/a", "v1 host-deployed host/beta/b")
	n := fmt.Sprint(len(w.log))
	w.explains(record.HostTarget("ant-gateway", "beta", "c"), "v1 host-started: max-in-flight ant-gateway/beta host-started "+on("a")+" 2 of 4, and max_in_flight lets 2 #"+n)
	w.complete("v1", record.HostTarget("ant-gateway", "beta", "b"), deployed)
	w.mayDo("v1 host-deployed host/beta/a", "v1 host-finished-successfully host/beta/b")
	w.complete("v1", record.HostTarget("ant-gateway", "beta", "b"), record.HostFinished)
	w.mayDo("v1 host-deployed host/beta/a", "v1 host-started host/beta/c")

	// The share is of the hosts that there are: in a group that shrinks fewer may begin.
	w.inventory("a", "c")
	w.mayDo("v1 host-deployed host/beta/a")
	w.inventory("a", "c", "e", "f", "g", "h")
	w.mayDo("v1 host-deployed host/beta/a", "v1 host-started host/beta/c", "v1 host-started host/beta/e")
	w.idle()
	if !w.happened("v1", w.state.target, record.PipelineFinished) {
		t.Errorf("it is not finished:\n%s", strings.Join(w.story(), "\n"))
	}
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
	w.explains(at("b"), "v1 host-deployed: max-in-flight ant-gateway/beta host-started "+string(at("a"))+" 1 of 4, and max_in_flight lets 1 #"+fmt.Sprint(w.seq("v1", at("a"), record.HostStarted)))
	w.complete("v1", at("a"), deployed)
	w.mayDo("v1 host-finished-successfully host/beta/a")
	w.complete("v1", at("a"), record.HostFinished)
	w.mayDo("v1 host-deployed host/beta/b")
	w.fails = nil
	w.idle()
	if !w.happened("v1", w.state.target, record.PipelineFinished) {
		t.Errorf("it is not finished:\n%s", strings.Join(w.story(), "\n"))
	}
}
