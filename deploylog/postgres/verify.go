package postgres

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

// Verify implements deploylog.Log: it checks every event, that none is missing, and that their
// hashes lead by way of the known heads. Appends go on meanwhile; what they add is not part of it.
func (l *Log) Verify(ctx context.Context, known ...deploylog.Head) (deploylog.Verification, error) {
	v, err := l.verify(ctx, known)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return deploylog.Verification{}, fmt.Errorf("verify deployment log: %w", l.explain(err))
	}
	return v, nil
}

func (l *Log) verify(ctx context.Context, known []deploylog.Head) (deploylog.Verification, error) {
	until, err := l.newest(ctx)
	if err != nil {
		return deploylog.Verification{}, err
	}
	w := chain.Begin(known)
	for page, err := range l.pages(ctx, deploylog.Filter{}, span{0, until}, true, l.reading) {
		for i := range page {
			if err == nil {
				err = w.Step(page[i].Event, page[i].registered, chain.LinkOf(page[i].hash))
			}
		}
		if err != nil {
			return deploylog.Verification{}, err
		}
	}
	if w.Seq < until {
		return deploylog.Verification{}, chain.Missing(w.Seq + 1)
	}
	for _, h := range w.Unknown {
		return deploylog.Verification{}, fmt.Errorf("%w: it is sound in itself, but it never had the head %s: its end is missing, or its events were written anew after that was noted; "+
			"or the head is that of another log, or mistyped", deploylog.ErrCorrupt, h)
	}
	return deploylog.Verification{Events: w.Seq, Head: hex.EncodeToString(w.Head[:])}, nil
}
