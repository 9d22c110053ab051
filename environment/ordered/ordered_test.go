package ordered

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestZonesAreOrderedAsPeopleDo(t *testing.T) {
	zones := []string{"", "b", "a10", "a2", "a02", "10", "9", "a", "a2b", "é", "eu-10-b", "eu-9-c"}
	slices.SortFunc(zones, Compare)
	assert.Equal(t, "9 10 a a02 a2 a2b a10 b eu-9-c eu-10-b é ", strings.Join(zones, " "))
}

// Each host is taken out again as it was put in, so that none is left behind.
func TestTheFirstZoneIsOfHostsThatAreNotDone(t *testing.T) {
	var z Zones
	first := func(excepted bool, want string, there bool) {
		zone, ok := z.First(excepted)
		assert.Equal(t, want, zone)
		assert.Equal(t, there, ok)
	}
	first(true, "", false)
	z.Count("b", false, 2)
	z.Count("a", true, 1)
	z.Count("", false, 1)
	first(false, "b", true)
	first(true, "a", true)
	z.Count("b", false, -2)
	first(false, "", true) // those without a zone are last
	z.Clear()
	first(true, "", false)
}

func TestASetHasItsIndexesInOrder(t *testing.T) {
	var s Set
	s.Remove(1000)
	for _, i := range []int{130, 0, 63, 64, 64} {
		s.Add(i)
	}
	assert.Equal(t, []int{0, 63, 64, 130}, slices.Collect(s.All()))
	for i := range s.All() {
		s.Remove(i)
	}
	assert.True(t, s.Empty())
	assert.Empty(t, slices.Collect(s.All()))
}
