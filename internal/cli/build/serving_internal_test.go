package build

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/inventory"
)

func TestWorkersServeWhatTheirEnginesSay(t *testing.T) {
	now, answers, asked := time.Unix(0, 0), map[string]string{"silent": ""}, []string{}
	answers["arm"] = "linux/arm64"
	s := &serving{now: func() time.Time { return now }, ask: func(names []string) (platforms []string) {
		for _, name := range names {
			asked = append(asked, name)
			platforms = append(platforms, answers[name])
		}
		return platforms
	}, hosts: []inventory.Host{
		{Name: "arm", Slots: 1}, {Name: "silent", Slots: 1},
		{Name: "told", Slots: 1, Platforms: []string{"linux/s390x"}},
		{Name: "here", Slots: 1, Engine: inventory.OCI},
	}}
	is := func(platform string, want ...string) {
		t.Helper()
		names := []string{}
		for _, w := range s.workers(record.Place{Platform: platform}) {
			if !w.Silent {
				names = append(names, w.Name)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s is served by %v, not by %v", platform, names, want)
		}
	}
	is("linux/riscv64")
	if got := s.workers(record.Place{Platform: "linux/riscv64"}); len(got) != 1 || got[0] != (build.Worker{Name: "silent", Silent: true}) {
		t.Errorf("who does not answer is shown as %+v", got)
	}
	is("linux/s390x", "told")
	if !slices.Contains(hostsOf(s, "linux/arm64"), "arm") || !slices.Contains(hostsOf(s, "linux/"+runtime.GOARCH), "here") {
		t.Error("who answers, or is this machine, does not serve its platform")
	}
	assert.Equal(t, "[arm silent]", fmt.Sprint(asked), "were asked")
	now, answers["silent"] = now.Add(2*askAgain), "linux/riscv64"
	is("linux/riscv64", "silent")
	assert.Equal(t, "[arm silent silent]", fmt.Sprint(asked), "were asked")
}

// As long as a server runs, those that answered are asked again, and nobody waits for that.
func TestAWorkerThatGoesAwayIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, hang := map[string]string{"a": "linux/amd64", "told": "linux/amd64"}, make(chan bool, 1)
		s := &serving{follows: true, now: time.Now, ask: func(names []string) (platforms []string) {
			<-hang
			for _, name := range names {
				platforms = append(platforms, answers[name])
			}
			return platforms
		}, hosts: []inventory.Host{{Name: "a", Slots: 1}, {Name: "told", Slots: 2, Platforms: []string{"linux/amd64"}}}}
		is := func(want ...build.Worker) {
			t.Helper()
			if got := s.workers(record.Place{Platform: "linux/amd64"}); !slices.Equal(got, want) {
				t.Errorf("there are %+v, not %+v", got, want)
			}
		}
		a, told := build.Worker{Name: "a", Slots: 1}, build.Worker{Name: "told", Slots: 2}
		hang <- true
		is(a, told)
		<-time.After(askAgain)
		answers = map[string]string{"a": "linux/amd64"}
		is(a, told) // while they are asked
		hang <- true
		synctest.Wait()
		is(a, build.Worker{Name: "told", Silent: true})
		<-time.After(askAgain)
		answers = map[string]string{"told": "linux/amd64"}
		hang <- true
		is(a, build.Worker{Name: "told", Silent: true})
		synctest.Wait()
		is(build.Worker{Name: "a", Silent: true}, told)
	})
}

func hostsOf(s *serving, platform string) (names []string) {
	for _, w := range s.workers(record.Place{Platform: platform}) {
		if !w.Silent {
			names = append(names, w.Name)
		}
	}
	return names
}
