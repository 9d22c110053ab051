package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/runner"
)

// worker applies manifests on the engines of hosts.
type worker struct {
	Config
	pool    *EnginePool
	command string // as the log names it
}

// prepare describes a run of a manifest, which is named below the workspace, in
// one of the places where it is applied.
func (w *worker) prepare(in *Input, on *Connection, name, place string, details map[string]string) (*Run, error) {
	if !on.Info.Remote {
		if err := in.Manifest.CheckPlugs(); err != nil {
			return nil, err
		}
	}
	return w.Prepare(in, on, Request{Command: w.command, Files: []string{w.path(name)}, Place: place, Details: details}), nil
}

// path is where a manifest lies, which is named below the workspace.
func (w *worker) path(name string) string {
	return filepath.Join(w.Workspace, filepath.FromSlash(name))
}

// guard makes an error of a panic in the work of a controller, which goes on, and
// reports it. It is deferred.
func (w *worker) guard(err *error, doing string) {
	if p := recover(); p != nil {
		c := crash.New(p, doing)
		w.Crashed(c)
		*err = errors.Join(*err, c)
	}
}

// execute begins a run and executes it. Its events pass through tail, if there is one.
func execute(ctx context.Context, run *Run, do func(*runner.Runner, context.Context, runner.Caller) (*runner.Result, error), tail *outputTail) (*runner.Runner, error) {
	held, err := run.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer held.End()
	if tail != nil {
		tail.Recorder, run.Caller.Recorder = held, tail
	}
	r := runner.New(run.Spec, run.Containers)
	_, err = do(r, ctx, run.Caller)
	return r, err
}

// ManifestBelow is the path of a manifest below the workspace, in which it must
// be, also where it is a link. Of a file that cannot be opened the error does not
// name it.
func ManifestBelow(workspace, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(workspace, abs)
	if err != nil || !filepath.IsLocal(below) {
		return "", fmt.Errorf("it is not below the workspace %s", workspace)
	}
	f, err := os.OpenInRoot(workspace, below)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return "", failed.Err
	}
	if err != nil {
		return "", err
	}
	return filepath.ToSlash(below), f.Close()
}
