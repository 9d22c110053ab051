package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/deploylog/sqlite/wal"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

func wantError(t *testing.T, err, target error, words ...string) {
	require.True(t, err != nil && (target == nil || errors.Is(err, target)), "error %v, want %v", err, target)
	for _, w := range words {
		assert.Contains(t, err.Error(), w, "the error does not say %q: %v", w, err)
	}
}

// written copies a log of 300 events that is closed.
func written(t *testing.T) (path string) {
	path = newPath(t)
	made.Do(func() {
		l := must.Get(Open(t.Context(), path, Options{}))(t)
		for i := range 3 {
			require.NoError(t, errOf(l.Append(t.Context(), samples(100*i, 100)...)))
		}
		require.NoError(t, l.Close())
		for _, suffix := range []string{"", anchorSuffix, checkSuffix} {
			writtenFiles[suffix] = read(t, path+suffix)
		}
	})
	for suffix, b := range writtenFiles {
		write(t, path+suffix, b)
	}
	return path
}

// writtenFiles are those of written, by what their names end in.
var (
	made         sync.Once
	writtenFiles = map[string][]byte{}
)

// execute changes a log as only a foreign hand would.
func execute(t *testing.T, path string, statements ...string) {
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	for _, s := range statements {
		require.NoError(t, errOf(db.Exec(s)), s)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(t *testing.T, path string)
		target error
		words  []string
	}{
		{"a text file", func(t *testing.T, path string) { write(t, path, bytes.Repeat([]byte("no database\n"), 1000)) }, deploylog.ErrCorrupt, []string{"not a deployment log", "backup"}},
		{"a few bytes", func(t *testing.T, path string) { write(t, path, []byte("x")) }, deploylog.ErrCorrupt, []string{"backup"}},
		{"an empty file", func(t *testing.T, path string) { write(t, path, nil) }, deploylog.ErrCorrupt, []string{"is empty", "backup"}},
		{"half a file", func(t *testing.T, path string) { b := read(t, path); write(t, path, b[:len(b)/2]) }, deploylog.ErrCorrupt, []string{"damaged", "backup"}},
		{"a damaged header", func(t *testing.T, path string) { b := read(t, path); b[3] ^= 1; write(t, path, b) }, deploylog.ErrCorrupt, []string{"backup"}},
		{"zeroes", func(t *testing.T, path string) { write(t, path, make([]byte, len(read(t, path)))) }, deploylog.ErrCorrupt, []string{"backup"}},
		{"a changed last event", func(t *testing.T, path string) {
			execute(t, path, "DROP TRIGGER events_are_never_updated", "UPDATE events SET revision = 'forged' WHERE seq = 300")
		}, deploylog.ErrCorrupt, []string{"event 300 is not what was appended"}},
		{"missing last events", func(t *testing.T, path string) {
			execute(t, path, "DROP TRIGGER events_are_never_deleted", "DELETE FROM events WHERE seq > 290")
		}, deploylog.ErrCorrupt, []string{"event 291 is missing"}},
		{"another program's database", func(t *testing.T, path string) {
			write(t, path, nil)
			execute(t, path, "CREATE TABLE t (x)")
		}, nil, []string{"another program's database"}},
		{"a newer log", func(t *testing.T, path string) { execute(t, path, "PRAGMA user_version = 99") }, nil, []string{"newer deployster", "format 99"}},
		{"a directory", func(t *testing.T, path string) {
			require.NoError(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700)))
		}, nil, []string{"is a directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := written(t)
			c.spoil(t, path)
			before := fingerprint(t, path)
			l, err := Open(t.Context(), path, Options{})
			if err == nil {
				l.Close()
			}
			wantError(t, err, c.target, append(c.words, path)...)
			assert.True(t, c.target != nil || !errors.Is(err, deploylog.ErrCorrupt), "a sound file is called corrupt: %v", err)
			assert.Equal(t, before, fingerprint(t, path), "opening changed the file or left something beside it")
		})
	}
}

// fingerprint is the directory's files with their contents' hash.
func fingerprint(t *testing.T, path string) string {
	entries := must.Get(os.ReadDir(filepath.Dir(path)))(t)
	var s strings.Builder
	for _, e := range entries {
		s.WriteString(e.Name())
		if !e.IsDir() {
			fmt.Fprintf(&s, " %x", chain.Link{}.Next(0, 0, chain.Digest(deploylog.Event{Data: read(t, filepath.Join(filepath.Dir(path), e.Name()))})))
		}
		s.WriteString("\n")
	}
	return s.String()
}

func read(t *testing.T, path string) []byte { return must.Get(os.ReadFile(path))(t) }

func write(t *testing.T, path string, b []byte) {
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// What only somebody else can do to a log is found by Verify, and some of it also by the check of a log that is opened.
func TestEveryForgeryIsFound(t *testing.T) {
	const unlocked = "DROP TRIGGER events_are_never_updated; DROP TRIGGER events_are_never_deleted; DROP TRIGGER head_only_moves_forward; DROP TRIGGER head_is_never_deleted"
	for forgery, checked := range map[string]bool{
		"UPDATE events SET id = '01ARZ3NDEKTSV4RRFFQ69G5FAV' WHERE seq = 7":                                false,
		"UPDATE events SET deployment = 'forged' WHERE seq = 7":                                            false,
		"UPDATE events SET target = 'host/forged' WHERE seq = 7":                                           false,
		"UPDATE events SET revision = 'forged' WHERE seq = 7":                                              true,
		"UPDATE events SET event = 'forged' WHERE seq = 7":                                                 false,
		"UPDATE events SET attempt = 9 WHERE seq = 7":                                                      false,
		"UPDATE events SET created_at = created_at + 1 WHERE seq = 7":                                      false,
		"UPDATE events SET data = NULL WHERE seq = 7":                                                      false,
		"UPDATE events SET data = '{}' WHERE seq = 7":                                                      false,
		"UPDATE events SET registered = 2 WHERE seq = 7":                                                   true,
		"UPDATE events SET hash = zeroblob(16) WHERE seq = 7":                                              false,
		"UPDATE events SET hash = x'' WHERE seq = 7":                                                       false,
		"DELETE FROM events WHERE seq = 7":                                                                 true,
		"DELETE FROM events WHERE seq = 1":                                                                 false,
		"DELETE FROM events":                                                                               false,
		"UPDATE events SET seq = -seq WHERE seq IN (7, 8); UPDATE events SET seq = 15 + seq WHERE seq < 0": false,
		"INSERT INTO events SELECT seq + 1, id, 'forged', target, revision, event, attempt, created_at, data, registered, hash FROM events WHERE seq = 300": false,
		"UPDATE log SET seq = 299, hash = (SELECT hash FROM events WHERE seq = 299)":                                                                        false,
		"UPDATE log SET hash = zeroblob(16)":                                    false,
		"DELETE FROM log":                                                       false,
		"DELETE FROM latest WHERE target = 'resource/service-001'":              true,
		"UPDATE latest SET seq = seq - 1 WHERE target = 'resource/service-001'": true,
		"INSERT INTO latest VALUES ('host/a', 'host-failed', 1, 1)":             true,
		"INSERT INTO in_progress VALUES ('resource/service-000', 1, 1, 1)":      true,
		"DELETE FROM in_progress":                                               true,
	} {
		t.Run(forgery, func(t *testing.T) {
			path := written(t)
			l := openLog(t, path)
			require.NoError(t, errOf(l.Append(t.Context(), deploylog.Event{Deployment: "open", Target: "host/a", Name: "host-started", CreatedAt: l.now()})))
			forgery = strings.ReplaceAll(strings.ReplaceAll(forgery, "300", "301"), "299", "300")
			require.NoError(t, errOf(l.Verify(t.Context())), "before the forgery")
			execute(t, path, unlocked, forgery)
			wantError(t, errOf(l.Verify(t.Context())), deploylog.ErrCorrupt, "backup", path)
			if checked {
				path := written(t)
				execute(t, path, unlocked, forgery)
				wantDamageNoticed(t, path)
			}
		})
	}
}

// wantDamageNoticed fails unless openings of a log notice its damage, and refuse appends then.
func wantDamageNoticed(t *testing.T, path string) {
	for range 3 { // 300 events are less than a page
		require.NoError(t, openLog(t, path).Close())
	}
	assert.NotNil(t, checkedState(t, path).Damage, "nothing was found")
	assert.Error(t, opened(t, path, 1), "an append was not refused")
}

func TestTriggersRefuse(t *testing.T) {
	path := written(t)
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	for _, s := range []string{
		"UPDATE events SET revision = 'x'", "DELETE FROM events WHERE seq = 300", "DELETE FROM log", "UPDATE log SET seq = 1", "UPDATE log SET id = 'x'",
	} {
		_, err := db.Exec(s)
		wantError(t, err, nil, "append-only")
	}
}

// TestFlippedBits turns bits all over the file. Whatever they hit, nobody gets to see events that were not appended:
// opening, reading or verifying fails, or the bit was in unused space and everything is as it was.
func TestFlippedBits(t *testing.T) {
	path := written(t)
	l := openLog(t, path)
	want := must.Get(l.Verify(t.Context()))(t)
	require.NoError(t, l.Close())
	sound := read(t, path)
	found := 0
	flips := ringtest.Cases(50, 1500)
	for i := range flips {
		b := bytes.Clone(sound)
		b[(len(b)/flips)*i+i%97] ^= 1 << (i % 8)
		damaged := newPath(t)
		write(t, damaged, b)
		l, err := Open(t.Context(), damaged, Options{})
		if err != nil {
			found++
			continue
		}
		got, err := l.Verify(t.Context())
		switch {
		case err != nil:
			found++
			wantError(t, err, deploylog.ErrCorrupt, "backup")
		case got != want:
			t.Errorf("flip %d: verified as %+v, was %+v", i, got, want)
		}
		if err := l.Close(); err != nil {
			t.Logf("flip %d: close: %v", i, err)
		}
	}
	assert.True(t, found >= flips/2, "only %d of %d flipped bits were found", found, flips)
}

// TestFlippedBitsInWriteAheadLog damages events that were acknowledged but not
// yet folded into the file, as a crash leaves them.
func TestFlippedBitsInWriteAheadLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log.db")
	l := openLog(t, path)
	appendEach(t, l, 0, 20)
	crashed := func(change func([]byte) []byte) (*Log, error) {
		copied := newPath(t)
		write(t, copied, read(t, path))
		write(t, copied+"-wal", change(bytes.Clone(read(t, path+"-wal"))))
		return Open(t.Context(), copied, Options{})
	}
	same := func(b []byte) []byte { return b }
	flip := func(at float64) func([]byte) []byte {
		return func(b []byte) []byte { b[int(at*float64(len(b)))] ^= 4; return b }
	}
	salt := func(frames ...int) func([]byte) []byte { // counted from the end, from 1
		return func(b []byte) []byte {
			for _, n := range frames {
				b[len(b)-n*(wal.FrameHeaderSize+pageSize)+8] ^= 4
			}
			return b
		}
	}
	zeroed := func(n int) func([]byte) []byte {
		return func(b []byte) []byte {
			at := len(b) - n*(wal.FrameHeaderSize+pageSize)
			clear(b[at : at+wal.FrameHeaderSize+pageSize])
			return b
		}
	}
	perEvent := 0 // frames of the last transaction
	for b := read(t, path+"-wal"); perEvent == 0 || binary.BigEndian.Uint32(b[len(b)-(perEvent+1)*(wal.FrameHeaderSize+pageSize)+4:]) == 0; {
		perEvent++
	}
	reclaimed := func(b []byte) []byte { // a few frames of an earlier generation behind the last write
		old := bytes.Clone(b[wal.HeaderSize : wal.HeaderSize+20*(wal.FrameHeaderSize+pageSize)])
		for at := 8; at < len(old); at += wal.FrameHeaderSize + pageSize {
			old[at+3]--
			old[at+4] ^= 0x55
		}
		return append(b, old...)
	}
	torn := func(b []byte) []byte { return b[:len(b)-100] }

	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		events int64 // -1: refused
	}{
		{"as it was", same, 20},
		{"torn in the last write", torn, 19},
		{"flipped in the last write", flip(0.9999), 19},
		{"flipped in the middle", flip(0.5), -1},
		{"flipped in an early write", flip(0.1), -1},
		{"flipped in the salt of a middle frame", salt(10*perEvent + 2), -1},
		{"flipped in the salt of the last frame of a middle write", salt(10*perEvent + 1), -1},
		{"flipped in the salt of the last frame of the last write but one", salt(perEvent + 1), -1},
		{"flipped in the salt of the last write", salt(1), 19},
		{"flipped in all salts of the last write but one", salt(perEvent+1, 2*perEvent), -1},
		{"zeroed in a middle frame", zeroed(10*perEvent + 2), -1},
		{"followed by an earlier generation", reclaimed, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := crashed(c.change)
			if c.events < 0 {
				wantError(t, err, deploylog.ErrCorrupt, "log.db-wal is damaged", "backup")
				return
			}
			require.NoError(t, err)
			defer l.Close()
			wantSound(t, l, c.events)
		})
	}

	t.Run("forged", func(t *testing.T) {
		execute(t, path, "DROP TRIGGER events_are_never_updated", "UPDATE events SET revision = 'forged' WHERE seq = 20")
		copied := newPath(t)
		write(t, copied, read(t, path))
		write(t, copied+"-wal", read(t, path+"-wal"))
		wantError(t, errOf(Open(t.Context(), copied, Options{})), deploylog.ErrCorrupt, "event 20 is not what was appended")
		assert.True(t, bytes.Equal(read(t, copied), read(t, path)) && bytes.Equal(read(t, copied+"-wal"), read(t, path+"-wal")), "a refused log was changed")
	})

	t.Run("left without its log", func(t *testing.T) {
		copied := newPath(t)
		write(t, copied+"-wal", read(t, path+"-wal"))
		wantError(t, errOf(Open(t.Context(), copied, Options{})), deploylog.ErrCorrupt, "is gone")
	})
}

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
	assert.Equal(t, acknowledged+1, must.Get(l.Append(t.Context(), sample(int(acknowledged))))(t)[0].Seq)
	assert.NoError(t, errOf(l.Verify(t.Context())))
}

// TestBusy lets another connection write for too long, which is no reason to distrust the disk.
func TestBusy(t *testing.T) {
	path := newPath(t)
	l := openWith(t, path, Options{}, settings{busyTimeout: 10 * time.Millisecond, patience: 10 * time.Millisecond})
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
	go func() { _, err := l.Append(ctx, sample(0)); withdrawn <- err }()
	for l.queue.Idle() {
		runtime.Gosched()
	}
	cancel()
	wantError(t, <-withdrawn, context.Canceled)
	require.NoError(t, other.writer.stmts.rollback.exec())
	appended := must.Get(l.Append(t.Context(), sample(1)))(t)
	assert.True(t, appended[0].Seq == 1, "%+v: what was withdrawn must not be there", appended)
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
			info := must.Get(os.Stat(file))(t)
			assert.True(t, info.Mode() == 0o600, "%s: %v; want a file with mode 0600", file, info)
		}
		require.NoError(t, l.Close())
		entries, err := os.ReadDir(filepath.Dir(path))
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		base := filepath.Base(name)
		want := []string{base, base + "-anchor", base + "-check", base + "-place"}
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
