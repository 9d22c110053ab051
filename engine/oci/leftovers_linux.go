package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/deployster-go/deployster/engine"
)

// Leftovers are the containers that tools of this user have, or have left, in a
// run directory. They can be listed, waited for and removed also where no container
// could be run.
type Leftovers struct{ engine *Engine }

// OpenLeftovers finds them in Options.RunDir. Where that is not there, there are
// none. It fails for a directory of another user.
func OpenLeftovers(options Options) (*Leftovers, error) {
	e := &Engine{rootless: os.Geteuid() != 0, log: options.Logger}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if e.dir, err = runDirOf(options.RunDir, e.rootless); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(string(e.dir)); errors.Is(err, fs.ErrNotExist) {
		return &Leftovers{e}, nil
	}
	if err := e.dir.make(); err != nil {
		return nil, err
	}
	if !e.rootless { // without root containers have no control groups that could be left
		if e.cgroups, err = findCgroups(); err != nil {
			return nil, fmt.Errorf("look for what is left of containers: %w", err)
		}
	}
	return &Leftovers{e}, nil
}

// Containers is Engine.Containers.
func (l *Leftovers) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	return l.engine.Containers(ctx, labels)
}

// Wait is Engine.Wait.
func (l *Leftovers) Wait(ctx context.Context, id string) (engine.Exit, error) {
	return l.engine.Wait(ctx, id)
}

// Remove is Engine.Remove.
func (l *Leftovers) Remove(ctx context.Context, id string) error { return l.engine.Remove(ctx, id) }
