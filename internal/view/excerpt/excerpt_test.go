package excerpt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view/excerpt"
)

// numbered are so many lines of an output.
func numbered(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	return lines
}

func TestOfALongOutputItsBeginningAndItsEndAreShown(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string
		all   bool
		shown int
		end   []string
	}{
		{name: "nothing"},
		{name: "as much as is shown", lines: numbered(200), shown: 200},
		{name: "a line more is shown at the end", lines: numbered(201), shown: 200, end: numbered(201)[200:]},
		{name: "the last lines are shown", lines: numbered(220), shown: 200, end: numbered(220)[200:]},
		{name: "what is between is counted", lines: numbered(222), shown: 200, end: append([]string{"… 2 lines (18 bytes) left out; all of it: 01.stdout"}, numbered(222)[202:]...)},
		{name: "all is asked for", lines: numbered(5000), all: true, shown: 5000},
		{name: "one line is longer than what is shown", lines: []string{strings.Repeat("x", 64<<10+1), "y"}, shown: 0, end: []string{strings.Repeat("x", terminal.MaxText) + "…", "y"}},
		{name: "what moves the cursor is not shown", lines: append(numbered(200), "\x1b[2Jevil"), shown: 200, end: []string{"evil"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var x excerpt.Excerpt
			for _, line := range tc.lines {
				x.Show(line, "01.stdout", tc.all)
			}
			end := x.Remainder()
			if x.Lines() != tc.shown || !slices.Equal(end, tc.end) {
				t.Errorf("%d lines were shown, and %.300q at the end", x.Lines(), end)
			}
			assert.Nil(t, x.Remainder(), "the end is shown twice")
		})
	}
}
