package graph_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/graph"
)

func TestSortKeepsTheOrderOfAddingAmongReadyNodes(t *testing.T) {
	g := graph.New[string]()
	g.Add("api", "db", "net")
	g.Add("db", "net", "disk")
	g.Add("net")
	g.Add("disk")
	g.Add("other")

	got, err := g.Sort()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"net", "disk", "db", "api", "other"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSortReportsACycle(t *testing.T) {
	for name, tc := range map[string]struct {
		edges [][2]string
		want  string
	}{
		"itself":              {[][2]string{{"a", "a"}}, "dependency cycle: a → a"},
		"two":                 {[][2]string{{"a", "b"}, {"b", "a"}}, "dependency cycle: a → b → a"},
		"behind a sound part": {[][2]string{{"x", "y"}, {"a", "x"}, {"a", "b"}, {"b", "c"}, {"c", "b"}}, "dependency cycle: b → c → b"},
	} {
		t.Run(name, func(t *testing.T) {
			g := graph.New[string]()
			for _, e := range tc.edges {
				g.Add(e[0], e[1])
			}
			_, err := g.Sort()
			var cycle *graph.CycleError[string]
			if !errors.As(err, &cycle) || err.Error() != tc.want {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestClosureAndDownstream(t *testing.T) {
	g := graph.New[string]()
	g.Add("api", "db")
	g.Add("db", "net")
	g.Add("smoke", "api")
	g.Add("other")
	if got := g.Closure("db"); len(got) != 2 || !got["db"] || !got["net"] {
		t.Errorf("closure of db: %v", got)
	}
	if got := g.Downstream("db"); len(got) != 2 || !got["api"] || !got["smoke"] {
		t.Errorf("downstream of db: %v", got)
	}
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
		order, err := g.Sort()
		if err != nil {
			t.Fatal(err)
		}
		if len(order) != n {
			t.Fatalf("%d of %d nodes", len(order), n)
		}
		for i, k := range order {
			for _, d := range g.Dependents(k) {
				if slices.Index(order, d) < i {
					t.Fatalf("%d stands before its dependency %d in %v", d, k, order)
				}
			}
		}

		from := rapid.IntRange(0, n-1).Draw(t, "from")
		to := rapid.IntRange(from, n-1).Draw(t, "to")
		g.Add(from, to)
		g.Add(to, from)
		_, err = g.Sort()
		var cycle *graph.CycleError[int]
		if !errors.As(err, &cycle) {
			t.Fatalf("no cycle found: %v", err)
		}
		for i := 1; i < len(cycle.Path); i++ {
			if !slices.Contains(g.Dependents(cycle.Path[i]), cycle.Path[i-1]) {
				t.Fatalf("%v: %d does not depend on %d", cycle.Path, cycle.Path[i-1], cycle.Path[i])
			}
		}
		if cycle.Path[0] != cycle.Path[len(cycle.Path)-1] {
			t.Fatalf("%v is not closed", cycle.Path)
		}
	})
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}
