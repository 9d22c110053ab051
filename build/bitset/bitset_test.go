package bitset_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/bitset"
)

// A set is what a map is, and its next member is that which looking at all of them finds.
func TestSetIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, bound := range []int{1, 63, 64, 65, 4096, 4097, 300_000} {
		set, naive := bitset.New(bound), map[int]bool{}
		require.True(t, set.Made())
		require.False(t, (&bitset.Set{}).Made(), "a set that was made is not told from one that was not")
		for range 300 {
			i := random.IntN(bound)
			if random.IntN(3) == 0 {
				set.Remove(i)
				delete(naive, i)
			} else {
				set.Add(i)
				naive[i] = true
			}
			require.Equal(t, naive[i], set.Has(i), "of %d: %d", bound, i)
			require.Equal(t, len(naive), set.Len(), "of %d: %d", bound, i)
		}
		next := -1
		for i := min(bound, 5000) - 1; i >= 0; i-- {
			if naive[i] {
				next = i
			}
			got := set.Next(i)
			require.False(t, got != next && (next >= 0 || bound <= 5000), "of %d: the next from %d is %d, not %d", bound, i, got, next)
		}
		require.Less(t, set.Next(bound), bound)
	}
}
