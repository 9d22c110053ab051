package postgres

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
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

// Whether a connection is there is known without waiting for who reads from it.
func TestAConnectionIsLookedAtWithoutWaiting(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer listener.Close()
	near, err := net.Dial("unix", listener.Addr().String())
	require.NoError(t, err)
	defer near.Close()
	far, err := listener.Accept()
	require.NoError(t, err)
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
	_, err = far.Write([]byte("xy"))
	require.NoError(t, err)
	require.NoError(t, <-read)
	assert.False(t, silent(near), "something waits to be read")
	_, err = near.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, far.Close())
	assert.False(t, silent(near), "the other end has hung up")
}
