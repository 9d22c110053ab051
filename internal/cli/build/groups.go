package build

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/view/groups"
)

// withGroups has something done with the build groups of the log, see session.AsOf.
func withGroups(ctx context.Context, a *app.App, names []string, at int64, do func(*query.Builds) error) error {
	return session.AsOf(ctx, a, query.NewBuilds, names, at, do)
}

// viewOptions says how groups are written.
func viewOptions(a *app.App) groups.Options {
	o := a.PlanOptions(a.Out)
	return groups.Options{Color: o.Color, Width: o.Width, Height: o.Height}
}

// noticeIdle prints a notice where nobody is at work on build groups.
func noticeIdle(a *app.App, b *query.Builds) {
	if !b.Controlled(record.Entity) {
		fmt.Fprintln(a.Err, "note: nobody is at work on build groups: deployster build run")
	}
}

// states reads the values of --state, in whatever case they are typed.
func states[S fmt.Stringer](texts []string, known []S) (wanted []S, err error) {
	var names []string
	for _, s := range known {
		names = append(names, s.String())
	}
	if texts != nil && len(texts) == 0 {
		return nil, exit.Usage("--state must not be empty: it is one of %s", strings.Join(names, ", "))
	}
	for _, text := range texts {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, text) })
		if i < 0 {
			hint := ""
			if near := suggest.Closest(text, names); near != "" {
				hint = ", did you mean " + near + "?"
			}
			return nil, exit.Usage("--state %q: it must be one of %s%s", text, strings.Join(names, ", "), hint)
		}
		wanted = append(wanted, known[i])
	}
	return wanted, nil
}
