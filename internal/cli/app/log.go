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

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// ExistingLog opens a log to read it, and to record what is asked for; it does not
// create one.
func (a *App) ExistingLog(ctx context.Context) (deploylog.Log, string, error) {
	path, err := a.ExistingLogPath()
	if err != nil {
		return nil, "", err
	}
	log, err := a.open(ctx, path, a.Err)
	return log, path, err
}

// WithLog has something done with an existing log, and closes it.
func (a *App) WithLog(ctx context.Context, do func(log deploylog.Log, path string) error) (err error) {
	log, path, err := a.ExistingLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return do(log, path)
}

// ExistingLogPath is where the log is that a command reads.
func (a *App) ExistingLogPath() (string, error) {
	workspace, err := a.Workspace()
	if err != nil {
		return "", err
	}
	path, err := a.LogPath(workspace)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, os.ErrNotExist) && sqlite.Lost(path) {
			return path, nil // opening it says what there is to say
		}
		if errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("there is no deployment log at %s: the first apply, pipeline apply or env create in a workspace makes it; --log names another", path)
		}
		return "", fmt.Errorf("deployment log: %w", err)
	}
	return path, nil
}

// Logger writes warnings; what the packages below say of their workings is for
// their tests.
func Logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// LogPath is where the deployment log is.
func (a *App) LogPath(workspace string) (string, error) {
	switch path := a.Global.Log; {
	case path == "":
		return filepath.Join(workspace, StateDir, "deployments.db"), nil
	case strings.Contains(path, "://"):
		return "", exit.Usage("--log %s: it must be the path of a file", path)
	default:
		return path, nil
	}
}

// OpenLog opens the deployment log, which is created when it is not there.
func (a *App) OpenLog(ctx context.Context, workspace string, news io.Writer) (deploylog.Log, error) {
	path, err := a.LogPath(workspace)
	if err != nil {
		return nil, err
	}
	return a.open(ctx, path, news)
}

func (a *App) open(ctx context.Context, path string, news io.Writer) (deploylog.Log, error) {
	log, err := sqlite.Open(ctx, path, sqlite.Options{Logger: Logger(news), Now: a.Now})
	if err != nil {
		return nil, err
	}
	return log, nil
}
