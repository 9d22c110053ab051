package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Locks that are taken, asked for and released by many processes, while each of these
// also prunes all of them, have one holder at a time.
func TestPrunedLocksExclude(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openLog(t, path)
	processes := make([]*process, 3)
	for i := range processes {
		processes[i] = start(t, "contend", path, "resource/db")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for range 3 {
		done.Go(func() {
			if err := contend(ctx, l, "resource/db"); err != nil {
				t.Error(err)
			}
		})
	}
	// One dies while it may hold the lock: nobody else is kept from it.
	turns := func(n int) {
		for range n {
			if err := takeTurn(ctx, l, "resource/db"); err != nil {
				t.Error(err)
			}
		}
	}
	turns(30)
	killed := processes[0].cmd
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	_ = os.Remove(marker(l, killed.Process.Pid))
	turns(30)
	cancel()
	done.Wait()
	for _, p := range processes[1:] {
		_ = p.stdin.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("a process: %v", err)
		}
	}
}

// contend takes turns with a lock until its context is done, and prunes all the time.
func contend(ctx context.Context, l *Log, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var pruning sync.WaitGroup
	pruning.Go(func() {
		for ctx.Err() == nil {
			_, everything := l.PruneLocks(context.Background(), time.Time{}, false)
			_, nothing := l.PruneLocks(context.Background(), time.Time{}, true)
			_, asked := l.Locked(name)
			if err := errors.Join(l.PruneLock(name), everything, nothing, asked); err != nil {
				cancel(err)
			}
		}
	})
	for ctx.Err() == nil {
		if err := takeTurn(ctx, l, name); err != nil {
			cancel(err)
		}
	}
	pruning.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// turn takes a lock and fails when somebody else has it at the same time: each holder
// has a file that names its process, and there is never one of another that lives.
func takeTurn(ctx context.Context, l *Log, name string) error {
	unlock, err := l.Lock(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer unlock()
	mine := marker(l, os.Getpid())
	f, err := os.OpenFile(mine, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("another of this process holds the lock, too: %w", err)
	}
	others, err := filepath.Glob(marker(l, -1))
	for _, other := range others {
		var pid int
		if _, scanned := fmt.Sscanf(filepath.Base(other), "inside-%d", &pid); scanned == nil && pid != os.Getpid() && alive(pid) {
			err = errors.Join(err, fmt.Errorf("process %d holds the lock, too", pid))
		}
	}
	return errors.Join(err, f.Close(), os.Remove(mine))
}

// alive reports whether a process is there and was not killed.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), nil)
	}
	var command, state string
	_, _ = fmt.Sscanf(string(stat), "%d %s %s", &pid, &command, &state)
	return state != "Z"
}

func marker(l *Log, pid int) string {
	if pid < 0 {
		return filepath.Join(filepath.Dir(l.path), "inside-*")
	}
	return filepath.Join(filepath.Dir(l.path), fmt.Sprintf("inside-%d", pid))
}

// A child that is being started has the files of its parent until it executes its
// program. It does not keep what its parent lets go of meanwhile.
func TestAChildThatIsBeingStartedHoldsNoLock(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "log.db"))
	unlock, err := l.TryLock("resource/db")
	if err != nil {
		t.Fatal(err)
	}
	var file, open syscall.Stat_t
	if err := syscall.Stat(filepath.Join(l.lockDir(), lockFile("resource/db")), &file); err != nil {
		t.Fatal(err)
	}
	inherited := 0
	for fd := range 1000 {
		if syscall.Fstat(fd, &open) != nil || open.Dev != file.Dev || open.Ino != file.Ino {
			continue
		}
		child, err := syscall.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(child)
		inherited++
		break
	}
	unlock()
	again, err := l.TryLock("resource/db")
	if err != nil || inherited != 1 {
		t.Fatalf("with %d descriptors of the child: %v", inherited, err)
	}
	again()
}

func TestPrunedLocks(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "log.db"))
	now := time.Now()
	if p, err := l.PruneLocks(t.Context(), now, false); err != nil || p.Count != 0 {
		t.Errorf("without any lock %+v, %v", p, err)
	}
	taken := func(name string, ago time.Duration) func() {
		unlock, err := l.TryLock(name)
		if err != nil {
			t.Fatal(err)
		}
		at := now.Add(-ago)
		if err := os.Chtimes(filepath.Join(l.lockDir(), lockFile(name)), at, at); err != nil {
			t.Fatal(err)
		}
		return unlock
	}
	names := func() (n int) {
		entries, err := os.ReadDir(l.lockDir())
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	defer taken("held for long", 100*time.Hour)()
	for name, ago := range map[string]time.Duration{"old": 50 * time.Hour, "older": 60 * time.Hour, "new": time.Hour} {
		unlock := taken(name, ago)
		unlock()
		at := now.Add(-ago)
		if err := os.Chtimes(filepath.Join(l.lockDir(), lockFile(name)), at, at); err != nil {
			t.Fatal(err)
		}
	}
	// What is no lock's file is none of its business.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(
		os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(l.lockDir(), "link")),
		os.Mkdir(filepath.Join(l.lockDir(), "directory"), 0o700), syscall.Mkfifo(filepath.Join(l.lockDir(), "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	before := now.Add(-24 * time.Hour)
	want := deploylog.Pruned{Count: 2, Oldest: now.Add(-60 * time.Hour)}
	for _, dryRun := range []bool{true, true, false} {
		p, err := l.PruneLocks(t.Context(), before, dryRun)
		if err != nil || p.Count != want.Count || p.Oldest.Sub(want.Oldest).Abs() > time.Second {
			t.Errorf("dry run %v: %+v, %v, want %+v", dryRun, p, err, want)
		}
	}
	if n := names(); n != 5 {
		t.Errorf("%d files are left, want that of the lock that is held, the new one, and what is no lock's", n)
	}
	if _, err := l.TryLock("held for long"); !errors.Is(err, deploylog.ErrLocked) {
		t.Errorf("the lock that was held for long: %v", err)
	}
	if held, err := l.Locked("never taken"); held || err != nil || names() != 5 {
		t.Errorf("asking for a lock that was never taken: %v, %v; %d files", held, err, names())
	}
}
