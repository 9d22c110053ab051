package view

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/environment/definition"
)

// texts is a unified diff of so many texts, in each of which so many lines are others.
func texts(count, lines int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "--- m%d.yaml (gateway 1)\n+++ m%d.yaml (gateway 2)\n@@ -1,%d +1,%d @@\n", i, i, lines, lines)
		for j := range lines {
			fmt.Fprintf(&b, "-was %d\n+++ is %d\n", j, j)
		}
	}
	return b.String()
}

func TestDifferencesFitTheScreen(t *testing.T) {
	same := &definition.Definition{Name: "web"}
	for _, tc := range []struct {
		name          string
		changed       string
		width, height int
		last          string // line
		lines         int
	}{
		{"it has room to the last line", texts(1, 10), 80, 24, "    +++ is 9", 23},
		{"one text is too long", texts(1, 11), 80, 24, "… and 3 more lines: --all shows everything", 23},
		{"there are too many", texts(20, 100), 80, 24, "… and 4038 more lines, also of 19 more texts: --all shows everything", 23},
		{"some lines take several rows", strings.Repeat("+"+strings.Repeat("x", 100)+"\n", 12), 80, 24, "… and 1 more line: --all shows everything", 12},
		{"it is very small", texts(20, 100), 20, 3, "… and 4058 more lin…", 3},
		{"it is no terminal", texts(20, 100), 0, 0, "    +++ is 99", 4060},
		{"all is asked for", texts(20, 100), 80, 0, "    +++ is 99", 4060},
	} {
		for as, show := range map[string]func(io.Writer, PlanOptions) error{
			"of a pipeline":     func(w io.Writer, o PlanOptions) error { return TextDifferences(w, tc.changed, o) },
			"of an environment": func(w io.Writer, o PlanOptions) error { return RevisionDifferences(w, same, same, tc.changed, o) },
			"in colour": func(w io.Writer, o PlanOptions) error {
				o.Color = true
				return TextDifferences(w, tc.changed, o)
			},
		} {
			t.Run(tc.name+"/"+as, func(t *testing.T) {
				var out strings.Builder
				if err := show(&out, PlanOptions{Width: tc.width, Height: tc.height, All: tc.height == 0}); err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSuffix(ansi.Strip(out.String()), "\n"), "\n")
				if last := lines[len(lines)-1]; last != tc.last || len(lines) != tc.lines {
					t.Errorf("of %d lines, %d were wanted, the last is %q, not %q", len(lines), tc.lines, last, tc.last)
				}
			})
		}
	}
}
