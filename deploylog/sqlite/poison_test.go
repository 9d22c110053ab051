package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// TestPoison fills a store up: the write that fails says why, and all after it
// are refused until the log is opened again, even when there would be room.
func TestPoison(t *testing.T) {
	path := newPath(t)
	l := openWith(t, path, Options{}, settings{busyTimeout: time.Minute, maxPages: 40})
	var acknowledged int64
	for {
		appended, err := l.Append(t.Context(), sample(int(acknowledged)))
		if err != nil {
			wantError(t, err, deploylog.ErrUnwritten, "no room", path)
			assert.False(t, errors.Is(err, deploylog.ErrPoisoned), "the failing append should name its cause: %v", err)
			break
		}
		acknowledged = appended[0].Seq
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			_, err := l.Append(t.Context(), sample(100_000+i))
			assert.True(t, errors.Is(err, deploylog.ErrPoisoned) && !errors.Is(err, deploylog.ErrUnwritten), "error %v, want ErrPoisoned", err)
		})
	}
	wg.Wait()
	wantSound(t, l, acknowledged)
	require.NoError(t, l.Close())

	l = openLog(t, path)
	appended, err := l.Append(t.Context(), sample(int(acknowledged)))
	require.NoError(t, err)
	assert.Equal(t, acknowledged+1, appended[0].Seq)
	assert.NoError(t, errOf(l.Verify(t.Context())))
}

// TestBusy lets another connection write for too long, which is no reason to
// distrust the disk.
func TestBusy(t *testing.T) {
	path := newPath(t)
	l := openWith(t, path, Options{}, settings{busyTimeout: 10 * time.Millisecond})
	other := openLog(t, path)
	require.NoError(t, other.writer.stmts.begin.exec())
	wantError(t, errOf(l.Append(t.Context(), sample(0))), nil, "another process has been writing")
	require.NoError(t, other.writer.stmts.rollback.exec())
	assert.NoError(t, errOf(l.Append(t.Context(), sample(0))), "after the other has finished")
}

// TestWithdraw ends the context of an append that waits for another writer.
func TestWithdraw(t *testing.T) {
	path := newPath(t)
	l, other := openLog(t, path), openLog(t, path)
	require.NoError(t, other.writer.stmts.begin.exec())
	ctx, cancel := context.WithCancel(t.Context())
	withdrawn := make(chan error)
	go func() {
		_, err := l.Append(ctx, sample(0))
		withdrawn <- err
	}()
	for l.queue.Idle() {
		runtime.Gosched()
	}
	cancel()
	wantError(t, <-withdrawn, context.Canceled)
	require.NoError(t, other.writer.stmts.rollback.exec())
	appended, err := l.Append(t.Context(), sample(1))
	assert.True(t, err == nil && appended[0].Seq == 1, "%+v, %v: what was withdrawn must not be there", appended, err)
}

// TestWhatFollowsIsLostWithItsEvents has no room on the disk for what follows.
func TestWhatFollowsIsLostWithItsEvents(t *testing.T) {
	path := newPath(t)
	l := openWith(t, path, Options{}, settings{busyTimeout: time.Minute, maxPages: 40})
	large := sample(1)
	large.Data = json.RawMessage(`"` + strings.Repeat("x", 40*pageSize) + `"`)
	asked := false
	written, err := l.AppendThen(t.Context(), []deploylog.Event{sample(0)}, func([]deploylog.Event) []deploylog.Event {
		asked = true
		return []deploylog.Event{large}
	})
	wantError(t, err, nil, "no room", path)
	assert.True(t, asked && len(written) == 0, "asked for what follows: %v; written: %v", asked, written)
	_, err = l.AppendThen(t.Context(), []deploylog.Event{sample(2)}, func([]deploylog.Event) []deploylog.Event {
		t.Error("a poisoned log asked for what follows")
		return nil
	})
	wantError(t, err, deploylog.ErrPoisoned)
	require.NoError(t, l.Close())
	wantSound(t, openLog(t, path), 0)
}

// TestKilledBeforeWhatFollows leaves nothing of what was not whole.
func TestKilledBeforeWhatFollows(t *testing.T) {
	path := newPath(t)
	p := start(t, "die deciding", path, "d")
	acknowledged := p.rest()
	_ = p.cmd.Wait()
	require.Equal(t, 2, strings.Count(acknowledged, "\n"), "it has acknowledged %q", acknowledged)
	wantAnchored(t, path, acknowledged)
	l := openLog(t, path)
	wantSound(t, l, 2)
	wantNext(t, l, 0, 3)
}

func TestPathsAndModes(t *testing.T) {
	for _, name := range []string{"log.db", "a b?c#d%20e&mode=memory.db", "file:x", "ü'\"", "sub/dir/log.db"} {
		path := filepath.Join(t.TempDir(), name)
		l := openLog(t, path)
		require.NoError(t, errOf(l.Append(t.Context(), sample(0))), name)
		for _, file := range []string{path, path + "-wal", path + "-shm", path + "-anchor"} {
			info, err := os.Stat(file)
			assert.True(t, err == nil && info.Mode() == 0o600, "%s: %v, %v; want a file with mode 0600", file, info, err)
		}
		require.NoError(t, l.Close())
		entries, err := os.ReadDir(filepath.Dir(path))
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		base := filepath.Base(name)
		want := []string{base, base + "-anchor", base + "-check"}
		assert.True(t, err == nil && slices.Equal(left, want), "%s: a closed log is the files %q, found %q, %v", name, want, left, err)
	}
}

func TestRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	openLog(t, "log.db")
	assert.NoError(t, errOf(os.Stat("log.db")))
}

// openUp lets everybody search the test's own temporary directory.
func openUp(dir string) error { return os.Chmod(dir, 0o755) }
