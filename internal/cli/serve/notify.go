package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
)

// mostRules is how large a file of notifications may be, in bytes.
const mostRules = 1 << 20

// readRules reads what is told of the log; "" is nothing.
func readRules(path string) ([]notification.Rule, error) {
	if path == "" {
		return nil, nil
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the notifications: %w", err)
	}
	switch info, err := os.Stat(whole); {
	case err != nil:
		return nil, fmt.Errorf("reading the notifications: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("reading the notifications: %s is not a regular file", path)
	}
	file, err := os.Open(whole)
	if err != nil {
		return nil, fmt.Errorf("reading the notifications: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, mostRules+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the notifications: %w", err)
	case len(text) > mostRules:
		return nil, fmt.Errorf("reading the notifications: %s is larger than 1 MiB", path)
	}
	return notification.Parse(path, filepath.Dir(whole), text)
}

// notify tells what happens until silence is called, which fails where that ended before. Then
// failed is called.
func (s *process) notify(failed func()) (silence func() error) {
	if s.notifications == "" { // another server may have them
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	all := pipelines.New(s.log, s.Now)
	n := &notification.Notifier{Log: s.log, Rules: s.rules, Logger: s.logger, Approvals: func(stage deploylog.Target) (bool, error) { return awaits(ctx, all, stage) }}
	ended := make(chan error, 1)
	go func() {
		err := n.Run(ctx)
		if err != nil && ctx.Err() == nil {
			s.logger.Error("nothing is told any more, and the server ends when what it began is done", "error", err)
			failed()
		}
		ended <- err
	}()
	return func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// awaits reports whether a stage waits for approval.
func awaits(ctx context.Context, all *pipelines.Pipelines, stage deploylog.Target) (approval bool, err error) {
	name, ok := record.NameOf(stage)
	if !ok {
		return false, nil
	}
	if err := all.Follow(ctx, 0); err != nil {
		return false, err
	}
	err = all.Ask(name, func(s *pipeline.State) error {
		if d := s.Definition(); d != nil {
			for _, known := range d.Stages {
				approval = approval || known.Approval != nil && record.StageTarget(name, known.Name) == stage
			}
		}
		return nil
	})
	if errors.Is(err, pipelines.ErrNoPipeline) { // one that promotes by observed state
		return false, nil
	}
	return approval, err
}
