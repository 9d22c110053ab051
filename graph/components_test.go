package graph

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestComponents(t *testing.T) {
	g := New[string]()
	g.Add("app", "lib", "cc")
	g.Add("cc", "make", "libc")
	g.Add("make", "cc")
	g.Add("self", "self")
	got, want := fmt.Sprint(g.Components()), "[[lib] [libc] [cc make] [app] [self]]"
	assert.True(t, got == want, "the components are %s, not %s", got, want)
}

// Nodes are together where each reaches the other, and what a group depends on stands before it.
func TestComponentsAreNodesThatReachEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := New[int](), rapid.IntRange(1, 9).Draw(t, "nodes")
		for i := range n {
			g.Add(i)
		}
		for range rapid.IntRange(0, 2*n).Draw(t, "edges") {
			g.Add(rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to"))
		}
		groups := g.Components()
		at, all := map[int]int{}, 0
		for i, group := range groups {
			for _, k := range group {
				at[k], all = i, all+1
			}
		}
		require.True(t, all == n && len(at) == n, "of %d nodes %v are there", n, groups)
		for a := range n {
			for b := range n {
				together := g.Closure(a)[b] && g.Closure(b)[a]
				require.Equal(t, (at[a] == at[b]), together, "%d and %d reach each other: %t, groups %v", a, b, together, groups)
			}
			for _, d := range g.dependencies[a] {
				require.LessOrEqual(t, at[d], at[a], "%d stands before %d, which it depends on: %v", a, d, groups)
			}
		}
		again := g.Components()
		require.True(t, slices.EqualFunc(groups, again, slices.Equal), "once %v, then %v", groups, again)
	})
}

func TestComponentsOfALongChain(t *testing.T) {
	const n = 50_000
	g := New[int]()
	for i := range n {
		g.Add(i, i+1)
	}
	groups := g.Components()
	assert.True(t, len(groups) == n+1 && groups[0][0] == n, "%d groups, the first %v", len(groups), groups[0])
}
