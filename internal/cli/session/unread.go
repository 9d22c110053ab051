package session

import (
	"fmt"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// mostUnread is of how many variables that nothing reads is told. A file of
// variables may be made for many manifests.
const mostUnread = 10

// Heed warns of variables that somebody gave and nothing reads, which are
// mistyped, perhaps; with --strict they are an error.
func Heed(a *app.App, unread []manifest.Problem, strict bool) error {
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
		fmt.Fprintf(a.Err, "warning: nothing reads %s more\n", output.Count(more, "variable"))
	}
	return nil
}

// LoadHeeded is load of manifests that somebody named, who is warned of variables
// that nothing reads.
func LoadHeeded(a *app.App, files []string, flags Flags, confirm runner.ConfirmMode) (*work.Input, error) {
	in, err := Load(a, files, flags, confirm)
	if err == nil {
		err = Heed(a, in.Usage.Unread(), flags.Strict)
	}
	return in, err
}
