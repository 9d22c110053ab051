package order_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/order"
)

func at(n int) time.Time { return time.Unix(int64(n), 0) }

func declared(name string, on ...string) order.Thing {
	return order.Thing{Node: name, Name: name, DependsOn: on, Declared: true}
}

func recorded(when int, name string, on ...string) order.Thing {
	return order.Thing{Node: "-" + name, Name: name, DependsOn: on, At: at(when)}
}

func removed(t testing.TB, things []order.Thing) []string {
	sorted := must.Get(order.Of(things).Sort())(t)
	return slices.DeleteFunc(sorted, func(node string) bool { return strings.Contains(node, " ") })
}

func TestTheOrderOfARemoval(t *testing.T) {
	for name, tc := range map[string]struct {
		things []order.Thing
		want   string
	}{
		"what depends on all instances": {
			[]order.Thing{declared("zones"), declared("page[a]", "zones"), declared("page[b]", "zones"), declared("index", "page")}, "index page[a] page[b] zones",
		},
		"what is recorded to depend on all, of which one is left": {
			[]order.Thing{recorded(1, "page[gone]", "zones"), recorded(1, "index", "page")}, "-index -page[gone]",
		},
		"through what stays": {
			[]order.Thing{declared("a"), {Node: "stays b", Name: "b", DependsOn: []string{"a"}, Declared: true}, declared("c", "b")}, "c a",
		},
		"two of one name": {
			[]order.Thing{declared("zones"), declared("x", "zones"), declared("x[a]", "zones"), recorded(1, "x"), declared("y", "x")}, "y x x[a] zones -x",
		},
		"turned around since": {
			[]order.Thing{declared("index", "page"), declared("page[a]"), recorded(1, "page[old]", "index")}, "index page[a] -page[old]",
		},
		"of two records the newer": {[]order.Thing{recorded(1, "a", "b"), recorded(2, "b", "a")}, "-b -a"},
		"on itself":                {[]order.Thing{recorded(1, "a", "a"), recorded(1, "b[k]", "b")}, "-b[k] -a"},
		"on what is not there":     {[]order.Thing{recorded(1, "a", "gone", "gone[b]", "")}, "-a"},
		"nothing depends on it":    {nil, ""},
	} {
		got := removed(t, tc.things)
		assert.Equal(t, slices.Sorted(slices.Values(strings.Fields(tc.want))), slices.Sorted(slices.Values(got)), name)
		g := order.Of(tc.things)
		for i, first := range strings.Fields(tc.want) {
			for _, later := range strings.Fields(tc.want)[i+1:] {
				assert.False(t, g.Downstream(later)[first], name)
			}
		}
	}
}

// Whatever is recorded, things have an order; each goes before what it depends on by a name, unless
// something of that name depends on it, too; and nothing turns around what is declared.
func TestDependentsGoFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "things")
		names := []string{"a", "b", "c", "a[x]", "a[y]", "b[x]", "m.a[x]", "m.a"}
		var things []order.Thing
		for i := range n {
			th := order.Thing{Node: fmt.Sprintf("n%d", i), Name: rapid.SampledFrom(names).Draw(t, "name")}
			th.DependsOn = rapid.SliceOfN(rapid.SampledFrom(append(names, "gone")), 0, 3).Draw(t, "depends on")
			th.At = at(rapid.IntRange(1, 4).Draw(t, "recorded"))
			if th.Declared = rapid.Bool().Draw(t, "is declared"); th.Declared {
				// What is declared depends on nothing that comes behind it.
				th.DependsOn = slices.DeleteFunc(th.DependsOn, func(name string) bool {
					return slices.ContainsFunc(names[slices.Index(names, th.Name):], func(later string) bool { return means(name, later) || means(later, name) })
				})
			}
			things = append(things, th)
		}
		g := order.Of(things)
		must.Get(g.Sort())(t)
		all := closure(things, func(int, string) bool { return true })
		holds := closure(things, func(i int, name string) bool {
			for j, b := range things {
				if means(name, b.Name) && all[j][i] && !things[i].Declared {
					return false
				}
			}
			return true
		})
		for i, a := range things {
			for j, b := range things {
				assert.False(t, i != j && holds[i][j] && !g.Downstream(a.Node)[b.Node], "%+v does not go before %+v: of %+v", a, b, things)
			}
		}
	})
}

func means(name, thing string) bool {
	return name == thing || strings.HasPrefix(thing, name+"[") && strings.HasSuffix(thing, "]")
}

// closure is which thing depends on which, directly or not, where only some of what each names counts.
func closure(things []order.Thing, counts func(i int, name string) bool) [][]bool {
	reach := make([][]bool, len(things))
	for i, a := range things {
		reach[i] = make([]bool, len(things))
		for j, b := range things {
			reach[i][j] = slices.ContainsFunc(a.DependsOn, func(name string) bool {
				return means(name, b.Name) && !means(name, a.Name) && counts(i, name)
			})
		}
	}
	for k := range things {
		for i := range things {
			for j := range things {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	return reach
}

func TestManyRecordsThatContradictEachOther(t *testing.T) {
	var things []order.Thing
	const n = 5000
	for i := range n {
		things = append(things, recorded(i+1, fmt.Sprintf("x[%d]", i), fmt.Sprintf("y[%d]", i), "y"), recorded(n-i, fmt.Sprintf("y[%d]", i), fmt.Sprintf("x[%d]", i), "x"))
	}
	assert.Len(t, removed(t, things), 2*n)
}
