package graph_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/must"
)

func TestSortKeepsTheOrderOfAddingAmongReadyNodes(t *testing.T) {
	g := graph.New[string]()
	g.Add("api", "db", "net")
	g.Add("db", "net", "disk")
	g.Add("net")
	g.Add("disk")
	g.Add("other")
	assert.Equal(t, []string{"net", "disk", "db", "api", "other"}, must.Get(g.Sort())(t))
}

func TestSortReportsACycle(t *testing.T) {
	for want, edges := range map[string][][2]string{
		"dependency cycle: a → a":     {{"a", "a"}},
		"dependency cycle: a → b → a": {{"a", "b"}, {"b", "a"}},
		"dependency cycle: b → c → b": {{"x", "y"}, {"a", "x"}, {"a", "b"}, {"b", "c"}, {"c", "b"}}, // behind a sound part
	} {
		g := graph.New[string]()
		for _, e := range edges {
			g.Add(e[0], e[1])
		}
		assert.EqualError(t, must.Fail(g.Sort()), want)
	}
}

func TestClosureAndDownstream(t *testing.T) {
	g := graph.New[string]()
	g.Add("api", "db")
	g.Add("db", "net")
	g.Add("smoke", "api")
	g.Add("other")
	assert.Equal(t, map[string]bool{"db": true, "net": true}, g.Closure("db"))
	assert.Equal(t, map[string]bool{"api": true, "smoke": true}, g.Downstream("db"))
}

// Any graph whose edges point to smaller numbers is sorted so that every node
// follows its dependencies; one edge back makes a cycle that is really there.
func TestSortProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "nodes")
		g := graph.New[int]()
		for _, k := range rapid.Permutation(seq(n)).Draw(t, "order") {
			g.Add(k)
			if k > 0 {
				g.Add(k, rapid.SliceOfN(rapid.IntRange(0, k-1), 0, 4).Draw(t, "dependencies")...)
			}
		}
		order := must.Get(g.Sort())(t)
		require.Len(t, order, n)
		for i, k := range order {
			for _, d := range g.Dependents(k) {
				require.GreaterOrEqual(t, slices.Index(order, d), i, "%d stands before its dependency %d in %v", d, k, order)
			}
		}
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		to := rapid.IntRange(from, n-1).Draw(t, "to")
		g.Add(from, to)
		g.Add(to, from)
		_, err := g.Sort()
		var cycle *graph.CycleError[int]
		require.True(t, errors.As(err, &cycle), "no cycle found: %v", err)
		for i := 1; i < len(cycle.Path); i++ {
			if !slices.Contains(g.Dependents(cycle.Path[i]), cycle.Path[i-1]) {
				t.Fatalf("%v: %d does not depend on %d", cycle.Path, cycle.Path[i-1], cycle.Path[i])
			}
		}
		require.Equal(t, cycle.Path[len(cycle.Path)-1], cycle.Path[0], "%v is not closed", cycle.Path)
	})
}

func seq(n int) (s []int) {
	for i := range n {
		s = append(s, i)
	}
	return s
}
