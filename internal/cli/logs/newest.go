package logs

import (
	"context"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

// listNewest prints as many of the events, the newest, as a terminal of so many lines shows at
// once, below how many there are before them, and reports whether there are any.
func listNewest(ctx context.Context, a *app.App, log deploylog.Log, o listOptions, height int) (found bool, err error) {
	opts, actors := a.PlanOptions(a.Out), query.NewActors(log)
	newest := o.filter
	newest.Last = height
	var texts []string
	first := int64(0)
	for e, err := range log.Read(ctx, newest) {
		if err != nil {
			return false, err
		}
		by, err := actors.Of(ctx, e)
		if err != nil {
			return false, err
		}
		if texts = append(texts, view.LogLine(e, by, o.utc, opts.Width)); len(texts) == 1 {
			first = e.Seq
		}
	}
	if len(texts) == 0 {
		return false, nil
	}
	before, err := earlier(ctx, log, o.filter, first)
	if err != nil {
		return false, err
	}
	lines, beside := strings.Count(strings.Join(texts, ""), "\n"), 1 // the prompt
	if before > 0 || lines > height-beside {
		beside++ // the note
	}
	for len(texts) > 1 && lines > height-beside {
		lines, before = lines-strings.Count(texts[0], "\n"), before+1
		texts = texts[1:]
	}
	if before > 0 {
		note := fmt.Sprintf("… %s: --all shows them, --last N so many", phrase.Count(before, "earlier event"))
		texts = append([]string{view.OneLine(note, opts) + "\n"}, texts...)
	}
	return true, a.Printf("%s", strings.Join(texts, ""))
}

// earlier is how many events a filter selects before an event.
func earlier(ctx context.Context, log deploylog.Log, f deploylog.Filter, seq int64) (n int, err error) {
	if f == (deploylog.Filter{}) {
		return int(seq - 1), nil // they are numbered without gaps
	}
	if f.Until = seq - 1; f.Until == 0 { // which would be no limit
		return 0, nil
	}
	for _, err := range log.Read(ctx, f) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
