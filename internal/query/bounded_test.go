package query

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// diffOf is a unified diff of some texts, each with as many changed lines.
func diffOf(texts, lines int) string {
	var all strings.Builder
	for i := range texts {
		fmt.Fprintf(&all, "--- f%d (1)\n+++ f%d (2)\n", i, i)
		for range lines {
			all.WriteString("+x\n")
		}
	}
	return all.String()
}

func TestADocumentOfDifferencesIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		all     bool
		changed string
		shown   int // lines
		left    map[string]LeftOut
	}{
		"of a few lines":           {changed: diffOf(2, 3), shown: 10},
		"just as much as it shows": {changed: diffOf(1, 998), shown: 1000},
		"one line more":            {changed: diffOf(1, 999), shown: 1000, left: map[string]LeftOut{"carried": {Lines: 1}}},
		"of many texts":            {changed: diffOf(300, 8), shown: 1000, left: map[string]LeftOut{"carried": {Lines: 2000, Texts: 200}}},
		"of one line of a megabyte": {
			changed: "--- a (1)\n+++ a (2)\n+" + strings.Repeat("y", 1<<20) + "\n", shown: 2, left: map[string]LeftOut{"carried": {Lines: 1}},
		},
		"without the last end of line": {changed: diffOf(1, 998) + "+x", shown: 1000, left: map[string]LeftOut{"carried": {Lines: 1}}},
		"with all of it":               {all: true, changed: diffOf(300, 8), shown: 3000},
	} {
		b := &Bounded{All: c.all}
		got := b.Text("carried", c.changed)
		if !strings.HasPrefix(c.changed, got) || strings.Count(got, "\n") != c.shown || !reflect.DeepEqual(b.LeftOut, c.left) {
			t.Errorf("a diff %s shows %d lines, and leaves out %+v", name, strings.Count(got, "\n"), b.LeftOut)
		}
		if _, says := b.In(map[string]any{})["left_out"]; says != (c.left != nil) {
			t.Errorf("a diff %s says that something is left out: %v", name, says)
		}
	}
	b := &Bounded{}
	if got := First(b, "differences", make([]int, 501)); len(got) != 500 || b.LeftOut["differences"].Differences != 1 {
		t.Errorf("of 501 differences %d are shown, and %+v are left out", len(got), b.LeftOut)
	}
}

// What is shown and what is left out are together what there is.
func TestNoLineOfADiffIsUncounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.IntRange(0, 70_000), 0, 30).Draw(t, "lengths")
		var all strings.Builder
		for _, n := range lines {
			all.WriteString(strings.Repeat("z", n) + "\n")
		}
		b := &Bounded{}
		got := b.Text("x", all.String())
		if shown := strings.Count(got, "\n"); shown+b.LeftOut["x"].Lines != len(lines) || len(got) > mostBytes || !strings.HasPrefix(all.String(), got) {
			t.Fatalf("of %d lines %d are shown, in %d bytes, and %+v left out", len(lines), shown, len(got), b.LeftOut)
		}
	})
}
