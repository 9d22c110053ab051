package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/identity/oidc"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/internal/regularfile"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
)

// mostSettings is how large a file of settings may be, in bytes.
const mostSettings = 1 << 20

// readSettings reads a file that a flag names, and returns also the directory in which it is.
func readSettings(what, path string) (text []byte, directory string, err error) {
	failed := func(err error) ([]byte, string, error) {
		return nil, "", fmt.Errorf("reading the %s: %w", what, err)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return failed(err)
	}
	file, _, err := regularfile.Open(whole)
	if err != nil {
		return failed(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err = io.ReadAll(io.LimitReader(file, mostSettings+1))
	switch {
	case err != nil:
		return failed(err)
	case len(text) > mostSettings:
		return failed(fmt.Errorf("%s is larger than 1 MiB", path))
	}
	return text, filepath.Dir(whole), nil
}

// readRules reads what is told of the log; "" is nothing.
func readRules(path string) ([]notification.Rule, error) {
	if path == "" {
		return nil, nil
	}
	text, directory, err := readSettings("notifications", path)
	if err != nil {
		return nil, err
	}
	return notification.Parse(path, directory, text)
}

// issued accepts the tokens of the issuers that a file names; "" is none.
func issued(path string, now func() time.Time, logger *slog.Logger) (identity.Issued, error) {
	if path == "" {
		return nil, nil
	}
	text, directory, err := readSettings("issuers of tokens", path)
	if err != nil {
		return nil, err
	}
	issuers, err := oidc.Parse(path, directory, text)
	if err != nil {
		return nil, err
	}
	return oidc.New(issuers, now, logger)
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
