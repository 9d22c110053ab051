package postgres

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// ahead reads empty pages. The third one is read ahead, as read does.
func ahead(read func(context.Context) error) reader {
	n := 0
	return func(ctx context.Context, _ func(context.Context) error) error {
		if n++; n == 3 {
			return read(ctx)
		}
		return nil
	}
}

// Who has what it wants does not wait for the page that is read ahead.
func TestWhoStopsReadingWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := ahead(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		n := 0
		for _, err := range new(Log).pages(t.Context(), deploylog.Filter{}, span{0, 1}, false, hangs) {
			if n++; n == 2 || err != nil {
				break
			}
		}
		assert.Equal(t, 2, n, "pages are read")
	})
}

func TestAPanicWhileAPageIsReadAheadEndsTheIteration(t *testing.T) {
	var ended error
	for _, err := range new(Log).pages(t.Context(), deploylog.Filter{}, span{0, 1}, false, ahead(func(context.Context) error { panic("a fault") })) {
		ended = err
	}
	_, is := errors.AsType[*crash.Error](ended)
	assert.True(t, is, "it ends with %v", ended)
}
