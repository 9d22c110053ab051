package app

import (
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
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/objects"
)

// LogPath is where the deployment log is.
func (a *App) LogPath() (string, error) {
	if err := a.Local(); err != nil {
		return "", err
	}
	switch path := a.Global.Log; {
	case path == "":
		return filepath.Join(a.Workspace, engine.StateDir, "deployments.db"), nil
	case strings.Contains(path, "://"):
		return "", exit.Usage("--log %s: it must be the path of a file", path)
	default:
		return path, nil
	}
}

// Texts are those that the revisions of the log carry. They lie beside the log, so that
// all who share it have them, whatever their workspace is, and are given to them.
func (a *App) Texts() (work.Texts, error) {
	if a.Server() != "" {
		remote, err := a.Remote()
		if err != nil {
			return work.Texts{}, err
		}
		return work.TextsIn(objects.Via(remote.Objects())), nil
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

// ArtifactsDir is where the artifacts of jobs are kept: beside the log that names them.
func (a *App) ArtifactsDir() (string, error) {
	path, err := a.wholeLogPath()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "artifacts"), nil
}

// ExistingLogPath is where the log is that a command reads.
func (a *App) ExistingLogPath() (string, error) {
	path, err := a.LogPath()
	if err != nil {
		return "", err
	}
	switch _, err := os.Stat(path); {
	case err == nil, errors.Is(err, os.ErrNotExist) && sqlite.Lost(path): // of a lost one, opening it says what there is to say
		return path, nil
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("there is no deployment log at %s: the first apply, pipeline apply, env create or build submit in a workspace makes it; --log names another", path)
	default:
		return "", fmt.Errorf("deployment log: %w", err)
	}
}

// WithLog has something done with an existing log, and closes it. It does not create
// one.
func (a *App) WithLog(ctx context.Context, do func(log deploylog.Log, path string) error) error {
	if server := a.Server(); server != "" {
		return a.WithNewLog(ctx, func(log deploylog.Log) error { return do(log, server) })
	}
	path, err := a.ExistingLogPath()
	if err != nil {
		return err
	}
	return a.WithNewLog(ctx, func(log deploylog.Log) error { return do(log, path) })
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

// OpenLog opens the deployment log of this machine, which is created when it is not there.
func (a *App) OpenLog(ctx context.Context, news io.Writer) (deploylog.Log, error) {
	path, err := a.LogPath()
	if err != nil {
		return nil, err
	}
	log, err := sqlite.Open(ctx, path, sqlite.Options{Logger: Logger(news), Now: a.Now})
	if err != nil {
		return nil, err
	}
	return log, nil
}

// Logger writes warnings; what the packages below say of their workings is for
// their tests.
func Logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
