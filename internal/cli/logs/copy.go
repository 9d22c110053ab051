package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/logcopy"
	"github.com/deployster-go/deployster/internal/phrase"
)

func newCopyCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a log to another file or to a PostgreSQL database",
		Long: `Copy a deployment log, event by event, to where there is none. FROM and TO are
each the path of a file or the URL of a database:

  postgres://USER@HOST:PORT/DATABASE?schema=NAME

The schema is deployster where none is named. A password belongs into PGPASSWORD
or ~/.pgpass. Both logs are verified: the copy has the head of the original.

What FROM has more than an earlier copy is added to that, also after a copy that
was interrupted. A log that holds anything else is left as it is. Only the events
are copied: texts, artifacts and secrets stay beside the original.`,
		Example: "  deployster log copy .deployster/deployments.db postgres://deployster@db.example.com/log\n  deployster log copy 'postgres://deployster@db.example.com/log?schema=prod' copy.db",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return runCopy(c.Context(), a, args[0], args[1])
		},
	}
}

func runCopy(ctx context.Context, a *app.App, fromName, toName string) (err error) {
	if err := a.Local(); err != nil {
		return err
	}
	from, err := openNamed(ctx, a, fromName, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := openNamed(ctx, a, toName, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	told := a.Now()
	r, err := logcopy.Copy(ctx, from, to, func(there, of int64) {
		if now := a.Now(); there < of && now.Sub(told) >= time.Second {
			told = now
			a.Notice(fmt.Sprintf("%d of %d events are copied", there, of))
		}
	})
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.Line(map[string]any{"copied": r.Copied, "events": r.Head.Seq, "head": r.Head.Hash, "anchor": r.Head.String(), "id": to.ID()})
	}
	return a.Printf("copied %s; both logs have the head %s\n", phrase.Count(int(r.Copied), "event"), r.Head)
}

// openNamed opens the log of a path or a URL; one that is to exist is not made.
func openNamed(ctx context.Context, a *app.App, name string, exists bool) (deploylog.Log, error) {
	if strings.Contains(name, "://") {
		if !postgres.IsAddress(name) {
			scheme, _, _ := strings.Cut(name, "://")
			return nil, exit.Usage("%s://…: a log is a file, or a database whose URL begins with postgres://", scheme)
		}
		log, err := postgres.Open(ctx, name, postgres.Options{Logger: app.Logger(a.Err), Now: a.Now, ReadOnly: exists})
		if err != nil {
			return nil, err
		}
		return log, nil
	}
	if exists {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) && !sqlite.Lost(name) {
			return nil, fmt.Errorf("there is no deployment log at %s", name)
		}
	}
	log, err := sqlite.Open(ctx, name, sqlite.Options{Logger: app.Logger(a.Err), Now: a.Now, ReadOnly: exists})
	if err != nil {
		return nil, err
	}
	return log, nil
}
