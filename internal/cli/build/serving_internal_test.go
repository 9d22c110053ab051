package build

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

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
			names = append(names, w.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s is served by %v, not by %v", platform, names, want)
		}
	}
	is("linux/riscv64")
	is("linux/s390x", "told")
	if !slices.Contains(hostsOf(s, "linux/arm64"), "arm") || !slices.Contains(hostsOf(s, "linux/"+runtime.GOARCH), "here") {
		t.Error("who answers, or is this machine, does not serve its platform")
	}
	if got := fmt.Sprint(asked); got != "[arm silent]" {
		t.Errorf("%s were asked", got)
	}
	now, answers["silent"] = now.Add(2*askAgain), "linux/riscv64"
	is("linux/riscv64", "silent")
	if got := fmt.Sprint(asked); got != "[arm silent silent]" {
		t.Errorf("%s were asked", got)
	}
}

func hostsOf(s *serving, platform string) (names []string) {
	for _, w := range s.workers(record.Place{Platform: platform}) {
		names = append(names, w.Name)
	}
	return names
}
