package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestATableIsAsWideAsTheTerminal(t *testing.T) {
	rows := [][]string{{"NAME", "WHY", "ID"}, {"größe", "部署失败 since\nyesterday", "01J0"}, {"x\x1b[2J", strings.Repeat("drops sessions ", 3), "01J1"}}
	for name, c := range map[string]struct {
		table Table
		want  string
	}{
		"no terminal":         {Table{}, "NAME   WHY                                           ID\ngröße  部署失败 since yesterday                      01J0\nx      drops sessions drops sessions drops sessions  01J1"},
		"cut":                 {Table{Width: 30}, "NAME   WHY                ID\ngröße  部署失败 since y…  01J0\nx      drops sessions d…  01J1"},
		"with a column less":  {Table{Width: 30, Extra: []int{2}}, "NAME   WHY\ngröße  部署失败 since yesterd…\nx      drops sessions drops s…"},
		"wrapped":             {Table{Width: 31, Wrap: true}, "NAME   WHY                 ID\ngröße  部署失败 since      01J0\n       yesterday\nx      drops sessions      01J1\n       drops sessions\n       drops sessions"},
		"the newest rows":     {Table{Width: 40, Height: 4}, "NAME  WHY                           ID\n… 1 earlier row: --all shows them\nx     drops sessions drops sessio…  01J1"},
		"a screen of nothing": {Table{Width: 1, Height: 1, Wrap: true, Extra: []int{2}}, ""},
	} {
		c.table.Rows = rows
		got := strings.Join(c.table.Lines(), "\n")
		assert.True(t, c.want == "" || got == c.want, "%s: it is\n%s\nwant\n%s", name, got, c.want)
	}
}

// No line is wider than the terminal, whatever is in the cells, and wrapped cells lose nothing.
func TestNoLineOfATableIsWiderThanTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 5).Draw(t, "columns")
		cell := rapid.StringMatching(`( {0,3}([a-z]{1,30}|[äé中文🙂-]{1,8}|\x1b\[2J|\x{202e}){1,4}){0,6}`)
		table := Table{Width: rapid.IntRange(columns*6, 120).Draw(t, "width"), Wrap: rapid.Bool().Draw(t, "wrap")}
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			table.Rows = append(table.Rows, rapid.SliceOfN(cell, columns, columns).Draw(t, "row"))
		}
		all := strings.Join(table.Lines(), "\n")
		for line := range strings.SplitSeq(all, "\n") {
			w := ansi.StringWidth(line)
			require.LessOrEqual(t, w, table.Width, "%d cells are more than %d: %q", w, table.Width, line)
		}
		require.False(t, strings.ContainsAny(all, "\x1b\u202e"), "it drives the terminal: %q", all)
		if !table.Wrap {
			return
		}
		letters := 0
		for _, row := range table.Rows {
			letters += strings.Count(strings.Join(row, ""), "z")
		}
		require.Equal(t, strings.Count(all, "z"), letters, "letters are missing in %q", all)
	})
}
