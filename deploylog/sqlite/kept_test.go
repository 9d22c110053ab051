package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// lines sends what a logger writes.
type lines chan string

func (l lines) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

// TestAStoppedProcessKeepsTheTurn has others say who it is, and wait for it: what is to be recorded is, once.
func TestAStoppedProcessKeepsTheTurn(t *testing.T) {
	path := newPath(t)
	said := make(lines, 100)
	l := openWith(t, path, Options{Logger: slog.New(slog.NewTextHandler(said, nil))}, settings{busyTimeout: defaultBusyTimeout})
	require.NoError(t, errOf(l.Append(t.Context(), sample(0))))
	keeper := exec.CommandContext(t.Context(), "flock", "--no-fork", path+anchorSuffix, "sleep", "1000")
	require.NoError(t, keeper.Start())
	assert.Eventually(t, func() bool { h, ok := kernelHolder(path+anchorSuffix, -1); return ok && h.PID == keeper.Process.Pid }, time.Minute, time.Millisecond)
	require.NoError(t, keeper.Process.Signal(syscall.SIGSTOP))

	appended := make(chan error, 1)
	go func() { appended <- errOf(l.Append(t.Context(), sample(1))) }()
	text := <-said
	for _, words := range []string{fmt.Sprintf("process %d (", keeper.Process.Pid), "which is stopped"} {
		assert.Contains(t, text, words)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	var by *deploylog.KeptError
	require.ErrorAs(t, errOf(l.Append(ctx, sample(2))), &by)
	assert.Contains(t, by.By, fmt.Sprint(keeper.Process.Pid))
	assert.Contains(t, by.Error(), "the turn to write is kept by process ")

	// Who waits for a lock is told that it is the lock.
	unlock := must.Get(l.Lock(t.Context(), "things"))(t)
	require.ErrorAs(t, errOf(l.Lock(ctx, "things")), &by)
	assert.Contains(t, by.Error(), `another caller of this process has the lock "things", while the turn to write is kept by process `)
	unlock()
	require.NoError(t, keeper.Process.Kill())
	_ = keeper.Wait()
	require.NoError(t, <-appended)
	assert.Equal(t, int64(2), must.Get(l.Verify(t.Context()))(t).Events)
}

// TestWhoIsPausedLeavesTheTurnToOthers is what Ctrl-Z does first.
func TestWhoIsPausedLeavesTheTurnToOthers(t *testing.T) {
	path := newPath(t)
	l, other := openLog(t, path), openLog(t, path)
	held := must.Get(l.Lock(t.Context(), "things"))(t)
	paused := make(chan func())
	go func() { paused <- l.Pause() }()
	held()
	resume := <-paused
	appended := make(chan error, 1)
	go func() { appended <- errOf(l.Append(t.Context(), sample(1))) }()
	free := must.Get(other.Lock(t.Context(), "things"))(t)
	require.NoError(t, errOf(other.Append(t.Context(), sample(0))))
	free()
	assert.Empty(t, appended)
	resume()
	require.NoError(t, <-appended)
	must.Get(l.Lock(t.Context(), "things"))(t)()
}
