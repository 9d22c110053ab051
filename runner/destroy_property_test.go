package runner_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/runner/report"
)

// Whatever the graph, whatever its configurations need, and whatever is gone
// already: after a destroy nothing is left, and nothing went before what
// depends on it was gone.
func TestDestroyProperties(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		w := removable(newWorld(outer))
		n := rapid.IntRange(1, 12).Draw(t, "resources")
		depends := make([][]int, n)
		var text strings.Builder
		text.WriteString("resources:\n")
		for i := range n {
			var deps []string
			if i > 0 {
				depends[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(i, 3), rapid.ID).Draw(t, "dependencies")
			}
			value := "1"
			for _, d := range depends[i] {
				deps = append(deps, fmt.Sprintf("d%d: r%d", d, d))
				if rapid.Bool().Draw(t, "needs its state") {
					value += fmt.Sprintf(" {{ d%d.state.name }}", d)
				}
			}
			fmt.Fprintf(&text, "  r%d: {type: thing, dependencies: {%s}, config: {value: %q}}\n", i, strings.Join(deps, ", "), value)
		}
		parallelism := rapid.IntRange(1, 6).Draw(t, "parallelism")
		bounded := func(o *options) { o.Parallelism = parallelism }
		if _, err := w.apply(outer, text.String(), bounded); err != nil {
			t.Fatal(err)
		}
		// A destroy that was cut off has removed some from the end.
		gone := map[string]bool{}
		for i := rapid.IntRange(0, n).Draw(t, "left"); i < n; i++ {
			gone[fmt.Sprintf("r%d", i)] = true
			delete(w.things, fmt.Sprintf("r%d", i))
		}
		w.forget()
		got, err := w.destroy(outer, text.String(), bounded, func(o *options) {
			known(slices.Collect(maps.Keys(gone))...)(o)
		})
		if err != nil || len(w.things) > 0 {
			t.Fatalf("%v, left are %v of %s", err, w.things, text.String())
		}
		for i := range n {
			name := fmt.Sprintf("r%d", i)
			want := report.Destroyed
			if gone[name] {
				want = report.Absent
			}
			if got[name] != want {
				t.Fatalf("%s is %s, want %s in %s", name, got[name], want, text.String())
			}
			for _, d := range depends[i] {
				if want == report.Destroyed && !before(w.trace, "unset "+name, fmt.Sprintf("absent r%d", d)) {
					t.Fatalf("r%d was asked about before %s was gone: %v", d, name, w.trace)
				}
			}
		}
		if w.engine.MaxRunning() > parallelism {
			t.Fatalf("%d ran at once", w.engine.MaxRunning())
		}
	})
}
