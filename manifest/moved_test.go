package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMovedNames(t *testing.T) {
	m := mustLoad(t, nil, `
resources:
  now: {type: x, for_each: [a, b]}
  web: {type: x}
  last: {type: x}
moved:
  - {from: single, to: 'now[a]'}
  - {from: 'pages[b]', to: 'now[b]'}
  - {from: docs, to: web}
  - {from: first, to: second}
  - {from: second, to: last}
  - {from: front, to: module.front}
`[1:]+"  - {from: gone, to: now}\n")
	for from, want := range map[string]string{
		"single": "now[a]", "pages[b]": "now[b]", "pages[c]": "pages[c]", "docs": "web", "docs[k]": "web[k]", "docs2": "docs2",
		"first": "last", "second": "last", "last": "last", "front": "module.front", "front.inner[a]": "module.front.inner[a]",
		"gone[x]": "now[x]", "single[x]": "single[x]",
	} {
		if got := m.Renamed(from); got != want {
			t.Errorf("%s is %s by now, want %s", from, got, want)
		}
	}
}

// What is moved ends where nothing moves it any further, however the moves are chained.
func TestMovesEnd(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "moves")
		var text strings.Builder
		fmt.Fprintf(&text, "resources:\n  r%d: {type: x}\nmoved:\n", n)
		for _, i := range rapid.Permutation(indexes(n)).Draw(t, "order") {
			fmt.Fprintf(&text, "  - {from: r%d, to: r%d}\n", i, i+1)
		}
		m, err := load(outer, nil, text.String())
		if err != nil {
			t.Fatal(err)
		}
		for i := range n + 1 {
			if got, want := m.Renamed(fmt.Sprintf("r%d", i)), fmt.Sprintf("r%d", n); got != want {
				t.Errorf("r%d is %s, want %s", i, got, want)
			}
		}
	})
}

func indexes(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestWhatIsMovedToMustBeDeclared(t *testing.T) {
	for to, want := range map[string]string{
		"page": "", "page[a.b]": "", "web.page[a]": "", "gone": "there is no resource gone to move to", "gone[a]": "there is no resource gone[a] to move to",
		"gone[a.b]": "there is no resource gone[a.b] to move to",
	} {
		_, err := load(t, nil, "resources:\n  page: {type: x, for_each: [a.b]}\nmoved:\n  - {from: was, to: '"+to+"'}\n")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("moved to %s: %v, want %q", to, err, want)
		}
	}
}

func TestAResourceBecomesAnInstanceOfItsName(t *testing.T) {
	for move, want := range map[string]string{"{from: page, to: 'page[a]'}": "", "{from: page, to: pages}": "page is still declared"} {
		_, err := load(t, nil, `
resources:
  list: {type: x}
  page: {type: x, dependencies: {l: list}, for_each: '{{ l.state.names }}'}
  pages: {type: x, for_each: [b]}
moved: [`+move+"]\n")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", move, err, want)
		}
	}
}
