package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite/wal"
)

// AcceptHead makes a log usable that Open refuses because acknowledged events
// are not in it, as in a backup that was restored on purpose: it verifies what
// is there, and makes its head the anchor. What is gone stays gone.
func AcceptHead(ctx context.Context, path string, o Options) (v deploylog.Verification, err error) {
	l, err := open(ctx, path, o, settings{busyTimeout: defaultBusyTimeout, unanchored: true})
	if err != nil {
		return deploylog.Verification{}, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if v, err = l.Verify(ctx); err != nil {
		return deploylog.Verification{}, err
	}
	if err := l.accept(ctx); err != nil {
		return deploylog.Verification{}, fmt.Errorf("accept the head of deployment log: %w", explain(l.path, err))
	}
	return v, nil
}

func (l *Log) accept(ctx context.Context) (err error) {
	f, err := openAnchor(l.path, os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	began := time.Now()
	if err := f.lock(func() bool { return time.Since(began) < defaultBusyTimeout }); err != nil {
		return err
	}
	h, err := readHead(ctx, l.readers)
	if err != nil {
		return err
	}
	if err := wal.Sync(l.path); err != nil {
		return err
	}
	return f.reset(anchor{h.id, h.seq, h.hash})
}
