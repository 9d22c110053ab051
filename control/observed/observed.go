// Package observed finds the states of resources as they were when a run found these well
// last. The log says which run that was; the answer of the type lies among what is kept of the
// run, without what is secret.
package observed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

// States finds the states of resources.
type States struct {
	Log  deploylog.Log
	Work string // the directory with those of the runs

	Of *runs.Owner // the manifest whose resources they are; nil is whichever has one of the name
}

// ErrUnknown is wrapped where a state is not known. What it is wrapped in says why, and what
// to do.
var ErrUnknown = errors.New("its state is not known")

// Last returns the state of a resource as it was last seen.
func (s States) Last(ctx context.Context, resource string) (map[string]any, error) {
	last, err := s.lastWell(ctx, resource)
	if err != nil {
		return nil, fmt.Errorf("reading which run found %s well last: %w", resource, err)
	}
	switch status := runs.DataOf(last).Status; {
	case last.Seq == 0:
		return nil, fmt.Errorf("%s: %w: no run found it well yet; apply it", resource, ErrUnknown)
	case status == report.Destroyed || status == report.Absent:
		return nil, fmt.Errorf("%s: %w: run %s removed it, or found it gone; apply it", resource, ErrUnknown, last.Deployment)
	}
	state, err := s.answered(last.Deployment, resource)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w: what run %s kept of it is not there any more; apply it again", resource, ErrUnknown, last.Deployment)
	case err != nil:
		return nil, fmt.Errorf("reading what run %s kept of %s: %w; apply it again", last.Deployment, resource, err)
	}
	return state, nil
}

// lastWell is the event with which a run found a resource well last; the zero Event is none.
func (s States) lastWell(ctx context.Context, resource string) (last deploylog.Event, err error) {
	target := deploylog.Target("resource/" + resource)
	for e, err := range s.Log.Read(ctx, deploylog.Filter{Target: target, Name: target.Succeeded(), Last: 1}) {
		if err != nil {
			return last, err
		}
		last = e
	}
	if s.Of == nil || last.Seq == 0 {
		return last, nil
	}
	if ours, err := runs.IsOf(ctx, s.Log, last.Deployment, *s.Of); err != nil || ours {
		return last, err
	}
	var all []deploylog.Event // another manifest has one of the name
	for e, err := range s.Log.Read(ctx, deploylog.Filter{Target: target, Name: target.Succeeded()}) {
		if err != nil {
			return last, err
		}
		all = append(all, e)
	}
	for _, e := range slices.Backward(all) {
		if ours, err := runs.IsOf(ctx, s.Log, e.Deployment, *s.Of); err != nil || ours {
			return e, err
		}
	}
	return deploylog.Event{}, nil
}

// answered is the last answer to state that is kept of a resource in a run.
func (s States) answered(run, resource string) (map[string]any, error) {
	root, err := os.OpenRoot(s.Work) // a link in it leads nowhere else
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	of := filepath.Join(run, resource)
	dir, err := root.Open(of)
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, err
	}
	newest, number := "", -1
	for _, name := range names {
		before, is := strings.CutSuffix(name, "-state.stdout")
		if n, err := strconv.Atoi(before); is && err == nil && n > number {
			newest, number = name, n
		}
	}
	if newest == "" {
		return nil, fs.ErrNotExist
	}
	text, err := read(root, filepath.Join(of, newest))
	if err != nil {
		return nil, err
	}
	out, err := protocol.DecodeState(text)
	switch {
	case err != nil:
		return nil, err
	case out.Status != protocol.Valid:
		return nil, fmt.Errorf("it ends with the status %s", out.Status)
	}
	return out.State, nil
}

// read reads a file as large as an answer may be. What is no file would keep the reader waiting.
func read(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, protocol.MaxAnswer+1))
}
