package heap_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/heap"
)

type number int

func (n number) Before(other number) bool { return n < other }

func TestTheFirstIsAlwaysTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap.Heap[number]
		var there []number
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				n := number(rapid.IntRange(0, 20).Draw(t, "n"))
				h.Push(n)
				there = append(there, n)
			},
			"pop": func(t *rapid.T) {
				if len(there) == 0 {
					t.Skip("empty")
				}
				least := slices.Min(there)
				there = slices.Delete(there, slices.Index(there, least), slices.Index(there, least)+1)
				require.Equal(t, least, h.Pop(), "popped")
			},
			"": func(t *rapid.T) {
				require.True(t, len(h) == len(there) && (len(h) == 0 || h[0] == slices.Min(there)), "%v, want %v", h, there)
			},
		})
	})
}
