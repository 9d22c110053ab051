package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

// ErrNoLog is wrapped where there is no deployment log, and none is to be made.
var ErrNoLog = errors.New("there is no deployment log")

// logURL is the URL of the log, where that is in a database. It may have a password.
func (a *App) logURL() (url string, is bool) {
	named := a.namedLog()
	return named, postgres.IsAddress(named)
}

// InDatabase reports whether the log is one in a database, and not that of a server.
func (a *App) InDatabase() bool {
	_, is := a.logURL()
	return is && a.Server() == ""
}

// namedLog is the log that was named; "" is none.
func (a *App) namedLog() string { return cmp.Or(a.Global.Log, a.Getenv("DEPLOYSTER_LOG")) }

// LogName is where the log is, for people.
func (a *App) LogName() (string, error) {
	url, is := a.logURL()
	if !is {
		return a.LogPath()
	}
	if err := a.Local(); err != nil {
		return "", err
	}
	name, err := postgres.Name(url)
	if err != nil {
		return "", exit.Usage("--log: %w", err)
	}
	return name, nil
}

// LogPath is the file of the log, which is refused where that is in a database.
func (a *App) LogPath() (string, error) {
	if err := a.Local(); err != nil {
		return "", err
	}
	named := a.namedLog()
	if named == "" {
		return filepath.Join(a.Workspace, engine.StateDir, "deployments.db"), nil
	}
	scheme, _, other := strings.Cut(named, "://")
	if postgres.IsAddress(named) {
		return "", exit.Usage("--log %s://…: this is done with the file of a log alone", scheme)
	}
	if err := postgres.IsFile(named); err != nil {
		return "", exit.Usage("--log: %w", err)
	}
	if other {
		return "", exit.Usage("--log %s://…: a log is a file, or a database whose URL begins with postgres://", scheme)
	}
	return named, nil
}

// Texts are those that the revisions of the log carry. They lie beside the log, or in the same
// database, so that all who share it have them, whatever their workspace is, and are given to
// them.
func (a *App) Texts() (work.Texts, error) {
	if a.Server() != "" {
		remote, err := a.Remote()
		if err != nil {
			return work.Texts{}, err
		}
		return work.TextsIn(objects.Via(remote.Objects())), nil
	}
	if _, is := a.logURL(); is {
		_, err := a.LogName()
		return work.TextsIn(objects.Via(besideLog{a})), err
	}
	path, err := a.wholeLogPath()
	if err != nil {
		return work.Texts{}, err
	}
	texts := work.NewTexts(filepath.Join(filepath.Dir(path), "objects"), a.Workspace, func(f *os.File, made bool) {
		sqlite.GiveObject(path, f, made)
	})
	objects := texts.Objects()
	objects.Share() // the log may have been shared since
	return texts, nil
}

// wholeLogPath is where the log is or will be: links to a log are one log.
func (a *App) wholeLogPath() (string, error) {
	path, err := a.LogPath()
	if err != nil {
		return "", err
	}
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		path = whole
	}
	return path, nil
}

// Protected keeps the documents with secrets to which the log refers: in the workspace, or in the
// database of the log.
func (a *App) Protected() *protected.Store {
	if a.InDatabase() {
		return protected.Via(documentsOfLog{besideLog{a}})
	}
	return work.Protected(a.Workspace)
}

// ArtifactsDir is where the artifacts of jobs are kept: beside the log that names them, or, where
// that is in a database, in the workspace.
func (a *App) ArtifactsDir() (string, error) {
	if _, is := a.logURL(); is {
		_, err := a.LogName()
		return filepath.Join(a.Workspace, engine.StateDir, "artifacts"), err
	}
	path, err := a.wholeLogPath()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "artifacts"), nil
}

// existingLogPath is the file of a log that is there.
func (a *App) existingLogPath() (string, error) {
	path, err := a.LogPath()
	if err != nil {
		return "", err
	}
	switch _, err := os.Stat(path); {
	case err == nil, errors.Is(err, os.ErrNotExist) && sqlite.Lost(path): // of a lost one, opening it says what there is to say
		return path, nil
	case errors.Is(err, os.ErrNotExist):
		return "", noLog(path)
	default:
		return "", fmt.Errorf("deployment log: %w", err)
	}
}

func noLog(where string) error {
	return fmt.Errorf("%w at %s: the first apply, pipeline apply, env create or build submit in a workspace makes it; --log names another", ErrNoLog, where)
}

// WithLog has something done with an existing log, of which it says where that is, and closes it.
// It does not create one, and fails with ErrNoLog.
func (a *App) WithLog(ctx context.Context, do func(log deploylog.Log, where string) error) (err error) {
	if server := a.Server(); server != "" {
		return a.WithNewLog(ctx, func(log deploylog.Log) error { return do(log, server) })
	}
	where, err := a.LogName()
	if err != nil {
		return err
	}
	log, err := a.OpenExisting(ctx, a.Err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }() // also after a panic
	return do(log, where)
}

// WithNewLog has something done with the log, which is created when it is not there.
func (a *App) WithNewLog(ctx context.Context, do func(deploylog.Log) error) (err error) {
	log, err := a.openAny(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }() // also after a panic
	return do(log)
}

// openAny opens the log here, or that of the server.
func (a *App) openAny(ctx context.Context) (deploylog.Log, error) {
	if a.Server() == "" {
		return a.OpenLog(ctx, a.Err)
	}
	remote, err := a.Remote()
	if err != nil {
		return nil, err
	}
	log, err := remote.Open(ctx)
	if err != nil {
		return nil, err
	}
	return log, nil
}

// OpenLog opens the deployment log of this machine, or the one in a database, which is created when
// it is not there.
func (a *App) OpenLog(ctx context.Context, news io.Writer) (deploylog.Log, error) {
	if _, is := a.logURL(); is {
		return opened(a.openDatabase(ctx, postgres.Options{Logger: Logger(news), Now: a.Now}))
	}
	path, err := a.LogPath()
	if err != nil {
		return nil, err
	}
	log, err := sqlite.Open(ctx, path, sqlite.Options{Logger: Logger(news), Now: a.Now})
	if err != nil {
		return nil, err
	}
	a.suspends.Add(log.Pause)
	return log, nil
}

// OpenExisting is OpenLog of a log that is there. Else it fails with ErrNoLog.
func (a *App) OpenExisting(ctx context.Context, news io.Writer) (deploylog.Log, error) {
	if _, is := a.logURL(); is {
		return opened(a.openDatabase(ctx, postgres.Options{Logger: Logger(news), Now: a.Now, Existing: true}))
	}
	if _, err := a.existingLogPath(); err != nil {
		return nil, err
	}
	return a.OpenLog(ctx, news)
}

// ReadLog opens a log that is there, for reading only, and says nothing.
func (a *App) ReadLog(ctx context.Context) (deploylog.Log, error) {
	if _, is := a.logURL(); is {
		return opened(a.openDatabase(ctx, postgres.Options{ReadOnly: true}))
	}
	path, err := a.existingLogPath()
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path) // reading it could wait forever
	}
	return opened(sqlite.Open(ctx, path, sqlite.Options{ReadOnly: true}))
}

// opened is a log, which is nil where it could not be opened.
func opened[L deploylog.Log](log L, err error) (deploylog.Log, error) {
	if err != nil {
		return nil, err
	}
	return log, nil
}

// AcceptHead makes the file of a log usable where it ends, and returns where that is.
func (a *App) AcceptHead(ctx context.Context) (path string, v deploylog.Verification, err error) {
	if path, err = a.existingLogPath(); err != nil {
		return "", v, err
	}
	v, err = sqlite.AcceptHead(ctx, path, sqlite.Options{Logger: Logger(a.Err), Now: a.Now})
	return path, v, err
}

// Logger writes warnings; what the packages below say of their workings is for
// their tests.
func Logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
