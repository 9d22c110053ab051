package bitset_test

import (
	"math/rand/v2"
	"testing"

	"github.com/deployster-go/deployster/build/bitset"
)

// A set is what a map is, and its next member is that which looking at all of them finds.
func TestSetIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, bound := range []int{1, 63, 64, 65, 4096, 4097, 300_000} {
		set, naive := bitset.New(bound), map[int]bool{}
		if !set.Made() || (&bitset.Set{}).Made() {
			t.Fatal("a set that was made is not told from one that was not")
		}
		for range 300 {
			i := random.IntN(bound)
			if random.IntN(3) == 0 {
				set.Remove(i)
				delete(naive, i)
			} else {
				set.Add(i)
				naive[i] = true
			}
			if set.Has(i) != naive[i] || set.Len() != len(naive) {
				t.Fatalf("of %d: %d is in it: %t, of %d; not %t, of %d", bound, i, set.Has(i), set.Len(), naive[i], len(naive))
			}
		}
		next := -1
		for i := min(bound, 5000) - 1; i >= 0; i-- {
			if naive[i] {
				next = i
			}
			if got := set.Next(i); got != next && (next >= 0 || bound <= 5000) {
				t.Fatalf("of %d: the next from %d is %d, not %d", bound, i, got, next)
			}
		}
		if got := set.Next(bound); got >= bound {
			t.Fatalf("of %d: the next beyond it is %d", bound, got)
		}
	}
}
