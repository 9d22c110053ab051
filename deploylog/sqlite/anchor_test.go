package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

// crashedLog copies the files of a log that is in use, as a crash leaves them.
func crashedLog(t *testing.T, from string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log.db")
	for _, suffix := range []string{"", "-wal", anchorSuffix} {
		if _, err := os.Stat(from + suffix); err == nil {
			write(t, path+suffix, read(t, from+suffix))
		}
	}
	return path
}

// TestLostEventsAreNoticed lets the write-ahead log lose acknowledged events in
// ways that leave it sound, and puts other logs into the place of one.
func TestLostEventsAreNoticed(t *testing.T) {
	first := filepath.Join(t.TempDir(), "log.db")
	l := openLog(t, first)
	for i := range 10 {
		if _, err := l.Append(t.Context(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	older := crashedLog(t, first)
	for i := range 10 {
		if _, err := l.Append(t.Context(), sample(10+i)); err != nil {
			t.Fatal(err)
		}
	}
	other := written(t)
	wal := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) { write(t, path+"-wal", change(read(t, path+"-wal"))) }
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		words []string
		after int64 // events of the accepted log
	}{
		{"a cut write-ahead log", wal(func(b []byte) []byte { return b[:len(b)/2] }), []string{"but 20 was recorded", "log.db-wal was cut"}, -1},
		{"a write-ahead log without its last write", wal(func(b []byte) []byte { return b[:len(b)-1] }), []string{"its newest event is 19, but 20", "from 20 on are lost"}, 19},
		{"a zeroed write-ahead log", wal(func(b []byte) []byte { return make([]byte, len(b)) }), []string{"its newest event is 0, but 20"}, 0},
		{"an emptied write-ahead log", wal(func([]byte) []byte { return nil }), []string{"its newest event is 0, but 20"}, 0},
		{"no write-ahead log", func(t *testing.T, path string) {
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
		}, []string{"its newest event is 0, but 20"}, 0},
		{"an older copy", func(t *testing.T, path string) {
			write(t, path, read(t, older))
			write(t, path+"-wal", read(t, older+"-wal"))
		}, []string{"its newest event is 10, but 20", "older copy"}, 10},
		{"an older copy that went on", func(t *testing.T, path string) {
			went := crashedLog(t, older)
			on := openLog(t, went)
			for i := range 15 {
				if _, err := on.Append(t.Context(), sample(100+i)); err != nil {
					t.Fatal(err)
				}
			}
			write(t, path, read(t, went))
			write(t, path+"-wal", read(t, went+"-wal"))
		}, []string{"its event 20 is not the one that was recorded"}, 25},
		{"another log", func(t *testing.T, path string) {
			write(t, path, read(t, other))
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
		}, []string{"another log's file was put here"}, 300},
		{"a damaged anchor", func(t *testing.T, path string) { write(t, path+anchorSuffix, make([]byte, anchorFileSize)) }, []string{"its anchor log.db-anchor is damaged"}, 20},
		{"an empty anchor", func(t *testing.T, path string) { write(t, path+anchorSuffix, nil) }, []string{"its anchor log.db-anchor is damaged"}, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := crashedLog(t, first)
			c.spoil(t, path)
			refusedUnchanged(t, path, c.words)
			acceptedAfter(t, path, c.after)
		})
	}

	t.Run("all is there", func(t *testing.T) {
		if v, err := openLog(t, crashedLog(t, first)).Verify(t.Context()); err != nil || v.Events != 20 {
			t.Errorf("%+v, %v; want 20 events", v, err)
		}
	})

	t.Run("the log is gone", func(t *testing.T) {
		path := crashedLog(t, first)
		if err := errors.Join(os.Remove(path), os.Remove(path+"-wal")); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path, Options{})
		wantError(t, err, deploylog.ErrCorrupt, "is gone", "its anchor log.db-anchor", "to begin a new log")
		if !Lost(path) || Lost(first) || Lost(filepath.Join(t.TempDir(), "log.db")) {
			t.Error("only this one is lost")
		}
	})
}

// refusedUnchanged checks that opening the log fails as corrupt, each time, and
// leaves its files as they are.
func refusedUnchanged(t *testing.T, path string, words []string) {
	t.Helper()
	before := fingerprint(t, path)
	for range 2 {
		l, err := Open(t.Context(), path, Options{})
		if err == nil {
			l.Close()
		}
		wantError(t, err, deploylog.ErrCorrupt, append(slices.Clone(words), path, "log verify --accept-head", "nothing was changed")...)
	}
	if after := fingerprint(t, path); after != before && !strings.Contains(after, "-shm") {
		t.Errorf("opening changed the files:\n%s\nbefore:\n%s", after, before)
	}
}

// acceptedAfter accepts the log's head, at so many events where that is known, and
// checks that the log goes on from there.
func acceptedAfter(t *testing.T, path string, events int64) {
	t.Helper()
	v, err := AcceptHead(t.Context(), path, Options{})
	if err != nil || events >= 0 && v.Events != events {
		t.Fatalf("accepted %+v, %v; want %d events", v, err, events)
	}
	accepted := openLog(t, path)
	if appended, err := accepted.Append(t.Context(), sample(1000)); err != nil || appended[0].Seq != v.Events+1 {
		t.Errorf("%+v, %v; want event %d", appended, err, v.Events+1)
	}
	if now, err := accepted.Verify(t.Context(), v.Anchor()); err != nil || now.Events != v.Events+1 {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestADamagedLogIsNotAccepted keeps the way out of a loss from being one out of
// damage.
func TestADamagedLogIsNotAccepted(t *testing.T) {
	path := written(t)
	execute(t, path, "DROP TRIGGER events_are_never_updated", "UPDATE events SET revision = 'forged' WHERE seq = 7")
	write(t, path+anchorSuffix, nil)
	_, err := AcceptHead(t.Context(), path, Options{})
	wantError(t, err, deploylog.ErrCorrupt, "event 7 is not what was appended")
	if b := read(t, path+anchorSuffix); len(b) != 0 {
		t.Errorf("the anchor became %q", b)
	}
}

// TestALogWithoutAnchor is one of an earlier version, or a copy of the file.
func TestALogWithoutAnchor(t *testing.T) {
	path := written(t)
	if err := os.Remove(path + anchorSuffix); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for range 2 {
		l, err := Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(said.String(), "has no anchor beside it"); n != 1 {
		t.Errorf("it was said %d times, want once: %s", n, said.String())
	}
	if a, ok, err := readAnchor(path); !ok || err != nil || a.seq != 300 {
		t.Errorf("the anchor is %+v, %v, %v", a, ok, err)
	}

	said.Reset()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil || said.Len() > 0 {
		t.Errorf("a new log: %v, %s", err, said.String())
	}
}

// TestATornSlotLeavesTheOther damages what was written last.
func TestATornSlotLeavesTheOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openLog(t, path)
	for i := range 4 {
		if _, err := l.Append(t.Context(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	b := read(t, path+anchorSuffix)
	_, next, _ := decodeAnchors(b)
	newest := b[(1-next)*anchorBlock:][:len(anchor{log: l.ID()}.line())]
	for i := range newest {
		newest[i] ^= 1
		if a, slot, ok := decodeAnchors(b); !ok || a.seq != 3 || slot != 1-next {
			t.Fatalf("with byte %d changed: %+v, %d, %v; want the anchor before", i, a, slot, ok)
		}
		newest[i] ^= 1
	}
}

// withAnchor opens a log and hands its anchor to the test after its first
// commit, where nothing else uses it.
func withAnchor(t *testing.T, change func(f *anchorFile)) *Log {
	t.Helper()
	var l *Log
	opened := make(chan struct{})
	changed := false
	l, err := open(t.Context(), filepath.Join(t.TempDir(), "log.db"), Options{}, settings{busyTimeout: defaultBusyTimeout, committed: func() {
		<-opened
		if !changed {
			change(l.writer.anchor)
		}
		changed = true
	}})
	if err != nil {
		t.Fatal(err)
	}
	close(opened)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestAnAnchorThatCanNotBeWrittenPoisons(t *testing.T) {
	l := withAnchor(t, func(f *anchorFile) {
		readOnly, err := os.Open(f.file.Name())
		if err != nil {
			t.Error(err)
			return
		}
		f.file = readOnly
	})
	_, err := l.Append(t.Context(), sample(0))
	wantError(t, err, deploylog.ErrUnwritten, "write the anchor", l.path)
	_, err = l.Append(t.Context(), sample(1))
	wantError(t, err, deploylog.ErrPoisoned, "write the anchor")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// The event is there all the same, as after a crash at that moment.
	if v, err := openLog(t, l.path).Verify(t.Context()); err != nil || v.Events != 1 {
		t.Errorf("%+v, %v; want the one event", v, err)
	}
}

func TestAnAnchorThatCanNotBeSyncedPoisons(t *testing.T) {
	l := withAnchor(t, func(f *anchorFile) {
		f.syncData = func(*os.File) error { return errors.New("the disk is gone") }
	})
	var err error
	next := 0
	for ; err == nil; next++ { // until the anchor is to be synced
		_, err = l.Append(t.Context(), sample(next))
	}
	wantError(t, err, nil, "make the anchor durable: the disk is gone", l.path)
	_, err = l.Append(t.Context(), sample(next))
	wantError(t, err, deploylog.ErrPoisoned, "the disk is gone")
}

func TestAnAnchorThatIsDamagedWhileOpenPoisons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openLog(t, path)
	write(t, path+anchorSuffix, make([]byte, anchorFileSize))
	_, err := l.Append(t.Context(), sample(0))
	wantError(t, err, deploylog.ErrCorrupt, "its anchor log.db-anchor is damaged")
	_, err = l.Append(t.Context(), sample(1))
	wantError(t, err, deploylog.ErrPoisoned)
}

// TestAnIdleLogSettles makes the anchor durable though no commit follows.
func TestAnIdleLogSettles(t *testing.T) {
	synced := make(chan struct{}, 1)
	l := withAnchor(t, func(f *anchorFile) {
		f.syncData = func(f *os.File) error {
			synced <- struct{}{}
			return syncData(f)
		}
	})
	if _, err := l.Append(t.Context(), sample(0)); err != nil {
		t.Fatal(err)
	}
	<-synced
}

// TestAnotherProcessHoldsTheAnchor waits for it, and then refuses without harm.
func TestAnotherProcessHoldsTheAnchor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l, err := open(t.Context(), path, Options{}, settings{busyTimeout: anchorPause})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := openAnchor(path, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.lock(0); err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(t.Context(), sample(0))
	wantError(t, err, nil, "another process has been writing", path)
	if err := f.unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), sample(0)); err != nil {
		t.Error(err)
	}
}

// TestEventsLostWhileOpen truncates the store of a log that goes on.
func TestEventsLostWhileOpen(t *testing.T) {
	path := written(t)
	checking, err := openCheck(path) // whoever goes over the log may see it first, and say so otherwise
	if err != nil {
		t.Fatal(err)
	}
	defer checking.close()
	l := openLog(t, path)
	execute(t, path, "DROP TRIGGER events_are_never_deleted; DROP TRIGGER head_only_moves_forward",
		"DELETE FROM events WHERE seq > 290; UPDATE log SET seq = 290, hash = (SELECT hash FROM events WHERE seq = 290)")
	_, err = l.Append(t.Context(), sample(1000))
	wantError(t, err, deploylog.ErrCorrupt, "its newest event is 290, but 300 was recorded")
}

// TestAnAnchorThatIsADanglingLink says what to do, and doing so helps.
func TestAnAnchorThatIsADanglingLink(t *testing.T) {
	path := written(t)
	if err := errors.Join(os.Remove(path+anchorSuffix), os.Symlink("nowhere", path+anchorSuffix)); err != nil {
		t.Fatal(err)
	}
	for _, try := range []func() error{
		func() error { _, err := Open(t.Context(), path, Options{}); return err },
		func() error { _, err := AcceptHead(t.Context(), path, Options{}); return err },
	} {
		wantError(t, try(), nil, path, "-anchor is a link to nowhere, which does not exist", "remove the link")
	}
	if err := os.Remove(path + anchorSuffix); err != nil {
		t.Fatal(err)
	}
	openLog(t, path)
	wantAnchorAt(t, path, 300)
}

// wantAnchorAt fails where the anchor of a log is not at an event.
func wantAnchorAt(t *testing.T, path string, seq int64) {
	t.Helper()
	if a, ok, err := readAnchor(path); !ok || err != nil || a.seq != seq {
		t.Errorf("the anchor is %+v, %v, %v; want event %d", a, ok, err, seq)
	}
}

// TestAnAnchorThatIsRemovedWhileOpen removes it before the first append and
// later on.
func TestAnAnchorThatIsRemovedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openLog(t, path)
	for i := range 3 {
		if err := os.Remove(path + anchorSuffix); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), sample(i)); err != nil {
			t.Fatal(err)
		}
		wantAnchorAt(t, path, int64(i+1))
	}
}

// TestAnAnchorThatAnotherProcessMadeAgain is the one to lock from then on.
func TestAnAnchorThatAnotherProcessMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l, err := open(t.Context(), path, Options{}, settings{busyTimeout: anchorPause})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 3 {
		if err := errors.Join(os.Remove(path+anchorSuffix), openLog(t, path).Close()); err != nil {
			t.Fatal(err)
		}
		f, err := openAnchor(path, os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.lock(0); err != nil {
			t.Fatal(err)
		}
		_, err = l.Append(t.Context(), sample(i))
		wantError(t, err, nil, "another process has been writing")
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), sample(i)); err != nil {
			t.Fatal(err)
		}
		wantAnchorAt(t, path, int64(i+1))
	}
}

// TestAnAnchorOfAnotherLogWhileOpen is not written over, though it is behind.
func TestAnAnchorOfAnotherLogWhileOpen(t *testing.T) {
	path := written(t)
	l := openLog(t, path)
	write(t, path+anchorSuffix, anchor{log: "01JD3K00000000000000000000", seq: 7}.file())
	_, err := l.Append(t.Context(), sample(1000))
	wantError(t, err, deploylog.ErrCorrupt, "another log's file was put here")
	wantAnchorAt(t, path, 7)
}

func FuzzAnchor(f *testing.F) {
	f.Add(anchor{log: "01JD3K00000000000000000000", seq: 7, hash: chain.Link{1}}.file())
	f.Add([]byte(anchorMagic + " x 1 "))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, next, ok := decodeAnchors(b)
		if !ok {
			return
		}
		if next < 0 || next >= anchorSlots || a.seq < 0 {
			t.Errorf("%+v, slot %d", a, next)
		}
		if again, _, ok := decodeAnchors(a.file()); !ok || again != a {
			t.Errorf("%+v became %+v, %v", a, again, ok)
		}
	})
}

func TestNoAnchorIsNoError(t *testing.T) {
	if _, ok, err := readAnchor(filepath.Join(t.TempDir(), "log.db")); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if _, err := openAnchor(filepath.Join(t.TempDir(), "log.db"), os.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
