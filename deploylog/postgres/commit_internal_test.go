package postgres

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/must"
)

// However much one caller brings, no statement has more than a slow link takes in time.
func TestRowsAreInsertedInParts(t *testing.T) {
	data := make([]byte, partBytes)
	target := deploylog.Target(strings.Repeat("x", 500))
	rows := make([]row, 7, 7+2*partBytes/500)
	for i, size := range []int{1, partBytes / 2, partBytes / 2, 5, partBytes, 0, 1} {
		rows[i] = row{event: &deploylog.Event{Seq: int64(i), Data: data[:max(0, size-rowBytes)]}}
	}
	for len(rows) < cap(rows) { // without data
		rows = append(rows, row{event: &deploylog.Event{Seq: int64(len(rows)), Target: target}})
	}
	var sizes []int
	seen := int64(0)
	for part := range parts(rows) {
		sizes = append(sizes, len(part))
		bytes := 0
		for _, r := range part {
			assert.Equal(t, seen, r.event.Seq, "row")
			seen++
			bytes += r.bytes()
		}
		assert.True(t, bytes <= partBytes || len(part) <= 1, "a part of %d rows has %d bytes", len(part), bytes)
	}
	want := []int{2, 2, 1}
	assert.True(t, len(sizes) >= 6 && slices.Equal(sizes[:3], want), "the parts have %v rows, want %v first", sizes, want)
	assert.True(t, seen == int64(len(rows)), "of %d rows %d are in parts", len(rows), seen)
}

func TestAConnectionIsLookedAtWithoutWaiting(t *testing.T) {
	listener := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	defer listener.Close()
	near := must.Get(net.Dial("unix", listener.Addr().String()))(t)
	defer near.Close()
	far := must.Get(listener.Accept())(t)
	defer far.Close()
	began, read := make(chan bool), make(chan error, 1)
	go func() {
		close(began)
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	<-began
	for range 1000 { // until it does wait
		require.True(t, silent(near), "nothing was sent")
	}
	must.Get(far.Write([]byte("xy")))(t)
	require.NoError(t, <-read)
	assert.False(t, silent(near), "something waits to be read")
	must.Get(near.Read(make([]byte, 1)))(t)
	require.NoError(t, far.Close())
	assert.False(t, silent(near), "the other end has hung up")
}

func ahead(read func(context.Context) error) reader {
	n := 0
	return func(ctx context.Context, _ func(context.Context) error) error {
		if n++; n == 3 {
			return read(ctx)
		}
		return nil
	}
}

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
