package pages

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/deployster-go/deployster/internal/terminal"
)

// grid is the hosts of a rollout as cells. There may be very many, so each is one element with
// as little as possible, which no template writes; and one link leads from as many of them as
// fit on a page of details to that page, since links are what takes browsers longest.
type grid struct {
	at    int64 // event as of which it is shown; 0 is now
	cells int
	text  strings.Builder
}

// chunk is so many cells, a multiple of mostHosts, that a browser need not lay out as long as
// they are not seen.
const chunk = 2500

// add adds a host.
func (g *grid) add(host string, s hostState) {
	switch {
	case g.cells%chunk == 0:
		g.close()
		g.text.WriteString("\n<div class=\"chunk\">")
		g.link()
	case g.cells%mostHosts == 0:
		g.text.WriteString("</a>")
		g.link()
	}
	g.cells++
	g.text.WriteString(`<i class="cell `)
	g.text.WriteByte(s.Code)
	g.text.WriteString(`" title="`)
	template.HTMLEscape(&g.text, []byte(terminal.InLine(host)))
	g.text.WriteString(": " + s.Name + `"></i>`)
}

// link begins the link to the details of the hosts that follow.
func (g *grid) link() {
	where := asOf(g.at, fmt.Sprintf("?state=all&from=%d", g.cells)) + "#details"
	g.text.WriteString(`<a tabindex="-1" href="` + template.HTMLEscapeString(where) + `">`)
}

func (g *grid) close() {
	if g.cells > 0 {
		g.text.WriteString("</a></div>")
	}
}

// html is all of the grid, to which nothing is added any more.
func (g *grid) html() template.HTML {
	g.close()
	return template.HTML(g.text.String()) //nolint:gosec // of what others have written it has only names, which are escaped
}
