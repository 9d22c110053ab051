package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/runner/invoke"
)

// LabelCleanup is on containers that empty the directory of an attempt, which its value names.
const LabelCleanup = "deployster.cleanup"

// Program is an image that has this program.
type Program struct {
	Image string // reference
	Path  string // of the program in it
}

// removeAll removes the directory of an attempt. Containers may run as root where this process does
// not: what they leave is another user's then, and one of the worker's removes it.
func (j *Jobs) removeAll(ctx context.Context, on Worker, dir string) error {
	err := remove(dir)
	if !errors.Is(err, fs.ErrPermission) || on.Engine == nil || j.Program.Image == "" {
		return err
	}
	if emptied := j.empty(ctx, on, filepath.Join(dir, outName)); emptied != nil {
		return fmt.Errorf("%w; a container of the worker was to remove it: %w", err, emptied)
	}
	return remove(dir)
}

// empty has a container remove what is in a directory.
func (j *Jobs) empty(ctx context.Context, on Worker, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	image, err := on.Images.Image(ctx, j.Program.Image, engine.PullMissing, nil)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	exit, err := on.Engine.Run(ctx, engine.Spec{
		Image: image.ID, Entrypoint: j.Program.Path, Args: entrypoint.Empty(), User: "0:0", Network: "none", Timeout: stopTimeout,
		Mounts: []engine.Mount{{Source: dir, Target: entrypoint.EmptyTarget}},
		Labels: map[string]string{invoke.LabelLog: j.Log, invoke.LabelKind: KindJob, LabelCleanup: filepath.Base(filepath.Dir(dir))},
	}, engine.IO{Stderr: &said})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("it %s: %.500s", exit, bytes.TrimSpace(said.Bytes()))
	}
	return err
}

// leftBehind is what a user can do about a directory that could not be removed.
func (j *Jobs) leftBehind(ctx context.Context, dir string, err error) {
	j.Logger.WarnContext(ctx, "a directory of a job is left behind: it is tried again; or remove it as the user that owns what is in it, such as root", "directory", dir, "error", err)
}

// remove removes a directory, also where what is in it is closed to its owner.
func remove(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory has to be searched to be emptied
		}
		return nil
	})
	return os.RemoveAll(dir)
}
