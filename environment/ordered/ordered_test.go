package ordered

import (
	"slices"
	"strings"
	"testing"
)

func TestZonesAreOrderedAsPeopleDo(t *testing.T) {
	zones := []string{"", "b", "a10", "a2", "a02", "10", "9", "a", "a2b", "é", "eu-10-b", "eu-9-c"}
	slices.SortFunc(zones, Compare)
	if got, want := strings.Join(zones, " "), "9 10 a a02 a2 a2b a10 b eu-9-c eu-10-b é "; got != want {
		t.Errorf("the order is %q, not %q", got, want)
	}
}

// Each host is taken out again as it was put in, so that none is left behind.
func TestTheFirstZoneIsOfHostsThatAreNotDone(t *testing.T) {
	var z Zones
	first := func(want string, excepted bool) {
		t.Helper()
		if got, ok := z.First(excepted); got != want || ok != (want != "none") && want != "" {
			t.Errorf("the first zone is %q (%v), not %q", got, ok, want)
		}
	}
	if _, ok := z.First(true); ok {
		t.Error("there is a first of no zones")
	}
	z.Count("b", false, 2)
	z.Count("a", true, 1)
	z.Count("", false, 1)
	first("b", false)
	first("a", true)
	z.Count("b", false, -2)
	if zone, ok := z.First(false); zone != "" || !ok {
		t.Errorf("those without a zone are not last: %q, %v", zone, ok)
	}
	z.Clear()
	if _, ok := z.First(true); ok {
		t.Error("a zone is left")
	}
}

func TestASetHasItsIndexesInOrder(t *testing.T) {
	var s Set
	s.Remove(1000)
	for _, i := range []int{130, 0, 63, 64, 64} {
		s.Add(i)
	}
	if got := slices.Collect(s.All()); !slices.Equal(got, []int{0, 63, 64, 130}) {
		t.Errorf("it has %v", got)
	}
	for i := range s.All() {
		s.Remove(i)
	}
	if !s.Empty() || len(slices.Collect(s.All())) > 0 {
		t.Errorf("it still has %v", slices.Collect(s.All()))
	}
}
