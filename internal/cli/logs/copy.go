package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/logcopy"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/protected"
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
was interrupted. A log that holds anything else is left as it is.

Into a database and out of one goes also what the events name: texts of revisions, and
documents with secrets, which only those can read who may read that table. Those of a
file are in .deployster/protected of the workspace: run it in the workspace whose log it
is, since it fails where one is missing. What the user of a database may not read is left
out, which is said. Of files only the events are copied. Artifacts stay where they are.`,
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
	brought, failed := copyBeside(ctx, a, from, to, fromName, toName)
	if err := sayCopied(a, to, r, brought); err != nil {
		return errors.Join(failed, err)
	}
	if failed == nil && brought.Missing > 0 {
		failed = fmt.Errorf("%s to which the log refers: not there, and not copied: %s", phrase.Count(brought.Missing, "protected document"), missing(a, fromName))
	}
	return failed
}

// sayCopied says what came of a copy.
func sayCopied(a *app.App, to deploylog.Log, r logcopy.Result, brought logcopy.Brought) error {
	if len(brought.Unread) > 0 {
		a.Notice("not copied, since it may not be read: " + strings.Join(brought.Unread, ", "))
	}
	if a.JSON() {
		return a.Line(map[string]any{
			"copied": r.Copied, "events": r.Head.Seq, "head": r.Head.Hash, "anchor": r.Head.String(), "id": to.ID(), "objects": brought.Objects, "protected": brought.Documents,
			"protected_missing": brought.Missing, "unread": append([]string{}, brought.Unread...),
		})
	}
	along := ""
	if brought.Objects+brought.Documents > 0 {
		along = fmt.Sprintf(" with %s and %s", phrase.Count(brought.Objects, "text"), phrase.Count(brought.Documents, "protected document"))
	}
	return a.Printf("copied %s%s; both logs have the head %s\n", phrase.Count(int(r.Copied), "event"), along, r.Head)
}

// missing says where documents were looked for, and what to do.
func missing(a *app.App, fromName string) string {
	if postgres.IsAddress(fromName) {
		return "restore them in the table protected, and copy once more"
	}
	return "they were looked for in " + filepath.Join(a.Workspace, engine.StateDir, protected.DirName) + "; copy once more in the workspace whose runs the log is of"
}

// copyBeside copies what the events name, if one of the logs is in a database: beside a file it
// would be put where other logs are.
func copyBeside(ctx context.Context, a *app.App, from, to deploylog.Log, fromName, toName string) (n logcopy.Brought, err error) {
	if !postgres.IsAddress(fromName) && !postgres.IsAddress(toName) {
		return n, nil
	}
	documents, err := runs.Documents(ctx, from)
	if err != nil {
		return n, err
	}
	there, err := beside(a, from, fromName)
	if err != nil {
		return n, err
	}
	here, err := beside(a, to, toName)
	if err != nil {
		return n, err
	}
	return logcopy.CopyBeside(ctx, from, there, here, documents)
}

// beside is what is beside a log, as commands of the workspace look for it.
func beside(a *app.App, log deploylog.Log, name string) (logcopy.Beside, error) {
	if in, is := log.(*postgres.Log); is {
		return logcopy.Beside{Objects: objects.Via(in.Objects()), Documents: protected.Via(in.Documents())}, nil
	}
	whole, err := filepath.EvalSymlinks(name) // links to a log are one log
	if err != nil {
		return logcopy.Beside{}, err
	}
	give := func(f *os.File, made bool) { sqlite.GiveObject(whole, f, made) }
	return logcopy.Beside{Objects: objects.In(filepath.Join(filepath.Dir(whole), "objects"), give), Documents: work.Protected(a.Workspace)}, nil
}

// openNamed opens the log of a path or a URL; one that is to exist is not made.
func openNamed(ctx context.Context, a *app.App, name string, exists bool) (deploylog.Log, error) {
	if postgres.IsAddress(name) {
		log, err := postgres.Open(ctx, name, postgres.Options{Logger: app.Logger(a.Err), Now: a.Now, ReadOnly: exists})
		if err != nil {
			return nil, err
		}
		return log, nil
	}
	if err := postgres.IsFile(name); err != nil {
		return nil, exit.Usage("%w", err)
	}
	if scheme, _, other := strings.Cut(name, "://"); other {
		return nil, exit.Usage("%s://…: a log is a file, or a database whose URL begins with postgres://", scheme)
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
