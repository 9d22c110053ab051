package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/internal/must"
)

// crashedLog copies the files of a log that is in use, as a crash leaves them.
func crashedLog(t *testing.T, from string) (path string) {
	path = newPath(t)
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
	first := newPath(t)
	l := openLog(t, first)
	appendEach(t, l, 0, 10)
	older := crashedLog(t, first)
	appendEach(t, l, 10, 10)
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
			require.NoError(t, os.Remove(path+"-wal"))
		}, []string{"its newest event is 0, but 20"}, 0},
		{"an older copy", func(t *testing.T, path string) {
			write(t, path, read(t, older))
			write(t, path+"-wal", read(t, older+"-wal"))
		}, []string{"its newest event is 10, but 20", "older copy"}, 10},
		{"an older copy that went on", func(t *testing.T, path string) {
			went := crashedLog(t, older)
			on := openLog(t, went)
			appendEach(t, on, 100, 15)
			write(t, path, read(t, went))
			write(t, path+"-wal", read(t, went+"-wal"))
		}, []string{"its event 20 is not the one that was recorded"}, 25},
		{"another log", func(t *testing.T, path string) {
			write(t, path, read(t, other))
			require.NoError(t, os.Remove(path+"-wal"))
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
	wantSound(t, openLog(t, crashedLog(t, first)), 20) // where all is there
	t.Run("the log is gone", func(t *testing.T) {
		path := crashedLog(t, first)
		require.NoError(t, errors.Join(os.Remove(path), os.Remove(path+"-wal")))
		wantError(t, errOf(Open(t.Context(), path, Options{})), deploylog.ErrCorrupt, "is gone", "its anchor log.db-anchor", "to begin a new log")
		assert.True(t, Lost(path) && !Lost(first) && !Lost(newPath(t)), "only this one is lost")
	})
}

// refusedUnchanged checks that opening the log fails as corrupt, each time, and leaves its files as they are.
func refusedUnchanged(t *testing.T, path string, words []string) {
	before := fingerprint(t, path)
	for range 2 {
		l, err := Open(t.Context(), path, Options{})
		if err == nil {
			l.Close()
		}
		wantError(t, err, deploylog.ErrCorrupt, append(slices.Clone(words), path, "log verify --accept-head", "nothing was changed")...)
	}
	after := fingerprint(t, path)
	assert.True(t, after == before || strings.Contains(after, "-shm"), "opening changed the files:\n%s\nbefore:\n%s", after, before)
}

// acceptedAfter accepts the log's head, at so many events where that is known, and checks that the log goes on from there.
func acceptedAfter(t *testing.T, path string, events int64) {
	v, err := AcceptHead(t.Context(), path, Options{})
	require.True(t, err == nil && (events < 0 || v.Events == events), "accepted %+v, %v; want %d events", v, err, events)
	accepted := openLog(t, path)
	wantNext(t, accepted, 1000, v.Events+1)
	now, err := accepted.Verify(t.Context(), v.Anchor())
	assert.True(t, err == nil && now.Events == v.Events+1, "%+v, %v", now, err)
}

// TestADamagedLogIsNotAccepted keeps the way out of a loss from being one out of damage.
func TestADamagedLogIsNotAccepted(t *testing.T) {
	path := written(t)
	execute(t, path, "DROP TRIGGER events_are_never_updated", "UPDATE events SET revision = 'forged' WHERE seq = 7")
	write(t, path+anchorSuffix, nil)
	wantError(t, errOf(AcceptHead(t.Context(), path, Options{})), deploylog.ErrCorrupt, "event 7 is not what was appended")
	assert.Len(t, read(t, path+anchorSuffix), 0, "the anchor was changed")
}

// TestALogWithoutAnchor is one of an earlier version, or a copy of the file.
func TestALogWithoutAnchor(t *testing.T) {
	path := written(t)
	require.NoError(t, os.Remove(path+anchorSuffix))
	var said bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for range 2 {
		require.NoError(t, must.Get(Open(t.Context(), path, o))(t).Close())
	}
	n := strings.Count(said.String(), "has no anchor beside it")
	assert.True(t, n == 1, "it was said %d times, want once: %s", n, said.String())
	wantAnchorAt(t, path, 300)
	said.Reset()
	l := must.Get(Open(t.Context(), newPath(t), o))(t)
	err := l.Close()
	assert.True(t, err == nil && said.Len() == 0, "a new log: %v, %s", err, said.String())
}

// TestATornSlotLeavesTheOther damages what was written last.
func TestATornSlotLeavesTheOther(t *testing.T) {
	l := newLog(t)
	path := l.path
	appendEach(t, l, 0, 4)
	b := read(t, path+anchorSuffix)
	_, next, _ := decodeAnchors(b)
	newest := b[(1-next)*anchorBlock:][:len(anchor{log: l.ID()}.line())]
	for i := range newest {
		newest[i] ^= 1
		a, slot, ok := decodeAnchors(b)
		require.True(t, ok && a.seq == 3 && slot == 1-next, "with byte %d changed: %+v, %d, %v; want the anchor before", i, a, slot, ok)
		newest[i] ^= 1
	}
}

// withAnchor opens a log and hands its anchor to the test after its first commit, where nothing else uses it.
func withAnchor(t *testing.T, change func(f *anchorFile)) *Log {
	var l *Log
	opened := make(chan struct{})
	changed := false
	l = must.Get(open(t.Context(), newPath(t), Options{}, settings{busyTimeout: defaultBusyTimeout, committed: func() {
		<-opened
		if !changed {
			change(l.writer.anchor)
		}
		changed = true
	}}))(t)
	close(opened)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
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
	wantError(t, errOf(l.Append(t.Context(), sample(0))), deploylog.ErrUnwritten, "write the anchor", l.path)
	wantError(t, errOf(l.Append(t.Context(), sample(1))), deploylog.ErrPoisoned, "write the anchor")
	require.NoError(t, l.Close())
	// The event is there all the same, as after a crash at that moment.
	wantSound(t, openLog(t, l.path), 1)
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
	wantError(t, errOf(l.Append(t.Context(), sample(next))), deploylog.ErrPoisoned, "the disk is gone")
}

func TestAnAnchorThatIsDamagedWhileOpenPoisons(t *testing.T) {
	l := newLog(t)
	path := l.path
	write(t, path+anchorSuffix, make([]byte, anchorFileSize))
	wantError(t, errOf(l.Append(t.Context(), sample(0))), deploylog.ErrCorrupt, "its anchor log.db-anchor is damaged")
	wantError(t, errOf(l.Append(t.Context(), sample(1))), deploylog.ErrPoisoned)
}

// TestAnIdleLogSettles makes the anchor durable though no commit follows.
func TestAnIdleLogSettles(t *testing.T) {
	synced := make(chan struct{}, 1)
	require.NoError(t, errOf(withAnchor(t, func(f *anchorFile) {
		f.syncData = func(f *os.File) error { synced <- struct{}{}; return syncData(f) }
	}).Append(t.Context(), sample(0))))
	<-synced
}

func lockedAnchor(t *testing.T, path string) *anchorFile {
	f := must.Get(openAnchor(path, os.O_RDWR))(t)
	require.NoError(t, f.lock(func() bool { return false }))
	return f
}

// TestAnotherProcessHoldsTheAnchor waits for it, and then refuses without harm.
func TestAnotherProcessHoldsTheAnchor(t *testing.T) {
	path := newPath(t)
	l := openWith(t, path, Options{}, settings{busyTimeout: anchorPause, patience: anchorPause})
	f := lockedAnchor(t, path)
	defer f.close()
	wantError(t, errOf(l.Append(t.Context(), sample(0))), nil, "another process has been writing", path)
	require.NoError(t, f.unlock())
	assert.NoError(t, errOf(l.Append(t.Context(), sample(0))))
}

// TestEventsLostWhileOpen truncates the store of a log that goes on.
func TestEventsLostWhileOpen(t *testing.T) {
	path := written(t)
	checking, err := openCheck(path) // whoever goes over the log may see it first, and say so otherwise
	require.NoError(t, err)
	defer checking.close()
	l := openLog(t, path)
	execute(t, path, "DROP TRIGGER events_are_never_deleted; DROP TRIGGER head_only_moves_forward",
		"DELETE FROM events WHERE seq > 290; UPDATE log SET seq = 290, hash = (SELECT hash FROM events WHERE seq = 290)")
	wantError(t, errOf(l.Append(t.Context(), sample(1000))), deploylog.ErrCorrupt, "its newest event is 290, but 300 was recorded")
}

// TestAnAnchorThatIsADanglingLink says what to do, and doing so helps.
func TestAnAnchorThatIsADanglingLink(t *testing.T) {
	path := written(t)
	require.NoError(t, errors.Join(os.Remove(path+anchorSuffix), os.Symlink("nowhere", path+anchorSuffix)))
	for _, err := range []error{errOf(Open(t.Context(), path, Options{})), errOf(AcceptHead(t.Context(), path, Options{}))} {
		wantError(t, err, nil, path, "-anchor is a link to nowhere, which does not exist", "remove the link")
	}
	require.NoError(t, os.Remove(path+anchorSuffix))
	openLog(t, path)
	wantAnchorAt(t, path, 300)
}

func wantAnchorAt(t *testing.T, path string, seq int64) {
	a, ok, err := readAnchor(path)
	assert.True(t, ok && err == nil && a.seq == seq, "the anchor is %+v, %v, %v; want event %d", a, ok, err, seq)
}

// TestAnAnchorThatIsRemovedWhileOpen removes it before the first append and later on.
func TestAnAnchorThatIsRemovedWhileOpen(t *testing.T) {
	l := newLog(t)
	path := l.path
	for i := range 3 {
		require.NoError(t, os.Remove(path+anchorSuffix))
		require.NoError(t, errOf(l.Append(t.Context(), sample(i))))
		wantAnchorAt(t, path, int64(i+1))
	}
}

// TestAnAnchorThatAnotherProcessMadeAgain is the one to lock from then on.
func TestAnAnchorThatAnotherProcessMadeAgain(t *testing.T) {
	path := newPath(t)
	l := openWith(t, path, Options{}, settings{busyTimeout: anchorPause, patience: anchorPause})
	for i := range 3 {
		require.NoError(t, errors.Join(os.Remove(path+anchorSuffix), openLog(t, path).Close()))
		f := lockedAnchor(t, path)
		wantError(t, errOf(l.Append(t.Context(), sample(i))), nil, "another process has been writing")
		require.NoError(t, f.close())
		require.NoError(t, errOf(l.Append(t.Context(), sample(i))))
		wantAnchorAt(t, path, int64(i+1))
	}
}

// TestAnAnchorOfAnotherLogWhileOpen is not written over, though it is behind.
func TestAnAnchorOfAnotherLogWhileOpen(t *testing.T) {
	path := written(t)
	l := openLog(t, path)
	write(t, path+anchorSuffix, anchor{log: "01JD3K00000000000000000000", seq: 7}.file())
	wantError(t, errOf(l.Append(t.Context(), sample(1000))), deploylog.ErrCorrupt, "another log's file was put here")
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
		assert.True(t, next >= 0 && next < anchorSlots && a.seq >= 0, "%+v, slot %d", a, next)
		again, _, ok := decodeAnchors(a.file())
		assert.True(t, ok && again == a, "%+v became %+v, %v", a, again, ok)
	})
}

func TestNoAnchorIsNoError(t *testing.T) {
	_, ok, err := readAnchor(newPath(t))
	assert.True(t, !ok && err == nil, "%v, %v", ok, err)
	assert.ErrorIs(t, errOf(openAnchor(newPath(t), os.O_RDWR)), fs.ErrNotExist)
}
