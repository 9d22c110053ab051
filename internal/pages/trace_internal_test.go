package pages

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// slowLog has no events, and says so once it may.
type slowLog struct {
	deploylog.Log
	readers atomic.Int64
	end     chan struct{}
}

func (l *slowLog) Read(context.Context, deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(func(deploylog.Event, error) bool) {
		l.readers.Add(1)
		<-l.end
		l.readers.Add(-1)
	}
}

func TestFewTracesAreFoldedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &slowLog{end: make(chan struct{})}
		p := must.Get(New(Options{Log: log, Now: time.Now}))(t)
		trace := func(ctx context.Context, asked string) error {
			_, err := p.trace(httptest.NewRequestWithContext(ctx, http.MethodGet, "/trace"+asked, nil), &known{})
			return err
		}
		const more = 3
		answers := make(chan error, mostPast+more)
		for range mostPast + more {
			go func() { answers <- trace(t.Context(), "?revision=1") }()
		}
		synctest.Wait()
		assert.EqualValues(t, mostPast, log.readers.Load(), "readers of the log")
		require.NoError(t, trace(t.Context(), ""), "the form, beside them")
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		require.ErrorIs(t, trace(ctx, "?revision=1"), context.DeadlineExceeded)
		close(log.end)
		for range mostPast + more {
			require.NoError(t, <-answers)
		}
		assert.Empty(t, p.past)
	})
}
