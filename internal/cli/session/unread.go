package session

import (
	"fmt"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// mostUnread is how many variables that nothing reads are named. A file of
// variables may be made for many manifests.
const mostUnread = 10

// WarnUnread warns of variables that were given and nothing reads: they may be
// mistyped. With --strict they are an error.
func WarnUnread(a *app.App, unread []manifest.Problem, strict bool) error {
	if len(unread) == 0 {
		return nil
	}
	if strict {
		return exit.Invalid(&manifest.Error{Problems: unread})
	}
	more := max(0, len(unread)-mostUnread)
	for _, p := range unread[:len(unread)-more] {
		fmt.Fprintf(a.Err, "warning: %s\n", view.Clean(p.String()))
	}
	if more > 0 {
		fmt.Fprintf(a.Err, "warning: nothing reads %s more\n", phrase.Count(more, "variable"))
	}
	return nil
}

// LoadAndWarn loads manifests and warns of variables that nothing reads.
func LoadAndWarn(a *app.App, files []string, flags Flags, confirm runner.ConfirmMode) (*work.Input, error) {
	in, err := Load(a, files, flags, confirm)
	if err == nil {
		err = WarnUnread(a, in.Usage.Unread(), flags.Strict)
	}
	return in, err
}
