package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// TestPoison fills a store up: the write that fails says why, and all after it
// are refused until the log is opened again, even when there would be room.
func TestPoison(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l, err := open(t.Context(), path, Options{}, settings{busyTimeout: time.Minute, maxPages: 40})
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged int64
	for {
		appended, err := l.Append(t.Context(), sample(int(acknowledged)))
		if err != nil {
			wantError(t, err, deploylog.ErrUnwritten, "no room", path)
			if errors.Is(err, deploylog.ErrPoisoned) {
				t.Errorf("the failing append should name its cause: %v", err)
			}
			break
		}
		acknowledged = appended[0].Seq
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if _, err := l.Append(t.Context(), sample(100_000+i)); !errors.Is(err, deploylog.ErrPoisoned) || errors.Is(err, deploylog.ErrUnwritten) {
				t.Errorf("error %v, want ErrPoisoned", err)
			}
		})
	}
	wg.Wait()
	if v, err := l.Verify(t.Context()); err != nil || v.Events != acknowledged {
		t.Errorf("a poisoned log can be read: %+v, %v; want %d events", v, err, acknowledged)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	l = openLog(t, path)
	appended, err := l.Append(t.Context(), sample(int(acknowledged)))
	if err != nil {
		t.Fatal(err)
	}
	if appended[0].Seq != acknowledged+1 {
		t.Errorf("seq %d after reopening, want %d", appended[0].Seq, acknowledged+1)
	}
	if _, err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestBusy lets another connection write for too long, which is no reason to
// distrust the disk.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l, err := open(t.Context(), path, Options{}, settings{busyTimeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := openLog(t, path)
	if err := other.writer.stmts.begin.exec(); err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(t.Context(), sample(0))
	wantError(t, err, nil, "another process has been writing")
	if err := other.writer.stmts.rollback.exec(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), sample(0)); err != nil {
		t.Errorf("after the other has finished: %v", err)
	}
}

// TestWithdraw ends the context of an append that waits for another writer.
func TestWithdraw(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l, other := openLog(t, path), openLog(t, path)
	if err := other.writer.stmts.begin.exec(); err != nil {
		t.Fatal(err)
	}
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
	if err := other.writer.stmts.rollback.exec(); err != nil {
		t.Fatal(err)
	}
	appended, err := l.Append(t.Context(), sample(1))
	if err != nil || appended[0].Seq != 1 {
		t.Errorf("%+v, %v: what was withdrawn must not be there", appended, err)
	}
}

func TestPathsAndModes(t *testing.T) {
	for _, name := range []string{"log.db", "a b?c#d%20e&mode=memory.db", "file:x", "ü'\"", "sub/dir/log.db"} {
		path := filepath.Join(t.TempDir(), name)
		l := openLog(t, path)
		if _, err := l.Append(t.Context(), sample(0)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, file := range []string{path, path + "-wal", path + "-shm", path + "-anchor"} {
			if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v, %v; want a file with mode 0600", file, info, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		base := filepath.Base(name)
		if want := []string{base, base + "-anchor", base + "-check"}; err != nil || !slices.Equal(left, want) {
			t.Errorf("%s: a closed log is the files %q, found %q, %v", name, want, left, err)
		}
	}
}

func TestRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	openLog(t, "log.db")
	if _, err := os.Stat("log.db"); err != nil {
		t.Error(err)
	}
}

// openUp lets everybody search the test's own temporary directory.
func openUp(dir string) error { return os.Chmod(dir, 0o755) }
