package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/deployster-go/deployster/engine"
)

// Containers lists the containers that carry all the labels, of this and of
// other tools with the same run directory, and removes what dead ones left.
func (e *Engine) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list containers: %w", context.Cause(ctx))
	}
	ids, err := e.listing.of(e.dir)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var found []engine.Container
	for _, id := range ids {
		known, held := e.own.look(id, labels)
		if !held {
			if known, held, err = e.inspect(ctx, id); err != nil {
				return nil, fmt.Errorf("list containers: %w", err)
			}
		}
		if !held || known.Created.IsZero() || !carries(known.Labels, labels) {
			continue
		}
		found = append(found, engine.Container{
			ID:      id,
			Labels:  known.Labels,
			Started: known.Started,
			Running: known.Started && known.Exit == nil,
			Created: known.Created,
		})
	}
	return found, nil
}

// inspect reads the record of a container and reports whether a tool holds it. What
// no tool holds is removed.
func (e *Engine) inspect(ctx context.Context, id string) (record, bool, error) {
	file, err := openRecord(e.dir.record(id))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, err
	}
	defer func() { _ = file.Close() }()
	held, err := file.held(ctx)
	if err != nil || held {
		return file.read(), held, err
	}
	return record{}, false, e.removeOrphan(ctx, id, file)
}

// letting is how long a lock may outlive the tool that took it.
const letting = time.Second

// held reports whether a tool holds the record. The lock of one that is gone is
// about to be released; that is waited for. It is so, too, if the tool has only
// begun to say who it is.
func (r recordFile) held(ctx context.Context) (bool, error) {
	short, cancel := context.WithTimeout(ctx, letting)
	defer cancel()
	var held bool
	err := poll(short, func() (bool, error) {
		var err error
		held, err = r.locked()
		tool := r.read().Tool
		return !held || tool != nil && !tool.ended(), err
	})
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = nil // the tool is in a process namespace that is not seen from here
	}
	return held, err
}

// dying is how long a killed container may take to be gone, on a machine that has
// much else to do.
const dying = time.Minute

// removeOrphan removes what is left of a container whose tool has died: the launcher
// and with it every process and mount, its cgroups, and at last its record. One
// that another tool is removing is left to it.
func (e *Engine) removeOrphan(ctx context.Context, id string, file recordFile) error {
	if ours, err := file.lock(); err != nil || !ours {
		return err
	}
	launcher := file.read().Launcher // if there was none, none holds the lock
	if launcher != nil {
		short, cancel := context.WithTimeoutCause(ctx, dying, fmt.Errorf("process %d does not die", launcher.PID))
		defer cancel()
		err := poll(short, func() (bool, error) { return launcher.ended(), launcher.kill(id) })
		if err != nil {
			return fmt.Errorf("remove what is left of container %s: %w", id, err)
		}
	}
	if err := e.removeRemains(id); err != nil {
		return fmt.Errorf("remove what is left of container %s: %w", id, err)
	}
	if err := os.Remove(file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is left of container %s: %w", id, err)
	}
	if launcher != nil {
		e.log.InfoContext(ctx, "removed what a tool that died left of a container", "container", id)
	}
	return nil
}

// carries reports whether labels hold all that are wanted; an empty value is any.
func carries(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if has, ok := labels[key]; !ok || value != "" && has != value {
			return false
		}
	}
	return true
}

// Wait blocks until the container has ended. One that is not started counts as
// ended with code 0, and one whose tool died as killed.
func (e *Engine) Wait(ctx context.Context, id string) (engine.Exit, error) {
	doing := "wait for container " + id
	file, err := e.open(id)
	if err != nil {
		return engine.Exit{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { _ = file.Close() }()
	if known := file.read(); !known.Started && known.Launcher != nil {
		return engine.Exit{}, nil
	}
	if err := poll(ctx, file.free); err != nil {
		return engine.Exit{}, fmt.Errorf("%s: %w", doing, err)
	}
	if exit := file.read().Exit; exit != nil {
		return *exit, nil
	}
	if err := e.removeOrphan(ctx, id, file); err != nil {
		return engine.Exit{}, fmt.Errorf("%s: %w", doing, err)
	}
	return engine.Exit{Code: killed}, nil
}

func (r recordFile) free() (bool, error) {
	held, err := r.locked()
	return !held, err
}

// open opens the record of a container by an id that anybody may have given.
func (e *Engine) open(id string) (recordFile, error) {
	if !isID(id) {
		return recordFile{}, engine.ErrNoContainer
	}
	file, err := openRecord(e.dir.record(id))
	if errors.Is(err, fs.ErrNotExist) {
		return recordFile{}, engine.ErrNoContainer
	}
	return file, err
}

// Remove kills the container if it runs, and returns when it is gone. The tool
// that runs it removes it; what a dead tool has left is removed by others.
func (e *Engine) Remove(ctx context.Context, id string) error {
	doing := "remove container " + id
	file, err := e.open(id)
	if errors.Is(err, engine.ErrNoContainer) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { _ = file.Close() }()
	err = poll(ctx, func() (bool, error) {
		if free, err := file.free(); free || err != nil {
			return true, err
		}
		launcher := file.read().Launcher // it may be just about to be started
		if launcher == nil {
			return false, nil
		}
		return false, launcher.kill(id)
	})
	if err == nil {
		err = e.removeOrphan(ctx, id, file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
