package transition

import (
	"fmt"
	"strings"
)

// Mermaid draws the transitions of groups or jobs. One arrow is all events that move from a
// state to another.
func Mermaid[S interface {
	~uint8
	fmt.Stringer
}](rows []Row[S]) string {
	var text strings.Builder
	text.WriteString("stateDiagram-v2\n")
	type arrow struct{ from, to S }
	var arrows []arrow
	events := map[arrow][]string{}
	for _, r := range rows {
		a := arrow{r.From, r.To}
		if events[a] == nil {
			arrows = append(arrows, a)
		}
		events[a] = append(events[a], r.Event)
	}
	for _, a := range arrows {
		from := a.from.String()
		if a.from == 0 {
			from = "[*]"
		}
		fmt.Fprintf(&text, "    %s --> %s: %s\n", from, a.to, strings.Join(events[a], ", "))
	}
	return text.String()
}

// Table lists transitions for people, as a table of Markdown: what is not in the seed says why.
func Table[S interface {
	~uint8
	fmt.Stringer
}](rows []Row[S]) string {
	var text strings.Builder
	text.WriteString("| from | event | to | |\n|---|---|---|---|\n")
	for _, r := range rows {
		from := r.From.String()
		if r.From == 0 {
			from = "–"
		}
		note := r.When
		if r.Added != "" {
			note = strings.TrimPrefix(note+"; beyond the design: "+r.Added, "; ")
		}
		fmt.Fprintf(&text, "| %s | `%s` | %s | %s |\n", from, r.Event, r.To, note)
	}
	return text.String()
}
