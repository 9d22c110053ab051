package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

func long(t *testing.T, n int) (path string) {
	path = newPath(t)
	l := openLog(t, path)
	events := samples(0, n)
	require.NoError(t, errOf(l.Append(t.Context(), events...)))
	require.NoError(t, l.Close())
	return path
}

// opened opens and closes a log, which checks a part of it, until it refuses an append or has been opened so many times.
func opened(t *testing.T, path string, times int) error {
	for n := range times {
		l := must.Get(Open(t.Context(), path, Options{}))(t)
		_, err := l.Append(t.Context(), sample(1_000_000+n))
		require.NoError(t, l.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDamageToOldEventsIsFoundInTime overwrites a page in the depth of a log, where no opening and no append comes by.
func TestDamageToOldEventsIsFoundInTime(t *testing.T) {
	const events = 3000
	path := long(t, events)
	sound := read(t, path)
	damaged := bytes.Clone(sound)
	copy(damaged[50*pageSize:51*pageSize], bytes.Repeat([]byte("damage! "), pageSize/8))
	write(t, path, damaged)
	err := opened(t, path, 2*events/checkPage)
	wantError(t, err, deploylog.ErrCorrupt, path, "damage was found on 20", "restore it from a backup", "log export", "log verify")
	wantError(t, err, deploylog.ErrPoisoned) // trying again is no use
	size := len(read(t, path))
	wantError(t, opened(t, path, 1), deploylog.ErrCorrupt, "damage was found on 20") // at once, by the next process
	l := openLog(t, path)
	newest := 0
	for _, err := range l.Read(t.Context(), deploylog.Filter{Last: 10}) {
		assert.NoError(t, err, "what is not damaged can be read")
		newest++
	}
	_, err = l.Verify(t.Context())
	assert.True(t, err != nil && newest == 10, "verify: %v; read %d", err, newest)
	require.NoError(t, l.Close())
	assert.Equal(t, size, len(read(t, path)), "the size of the damaged file")

	// The backup is older by the events of the first openings.
	write(t, path, sound)
	require.NoError(t, errOf(AcceptHead(t.Context(), path, Options{})))
	assert.NoError(t, opened(t, path, 1), "after the repair")
}

// TestVerifyEndsTheRefusal repairs the file with the events that it had.
func TestVerifyEndsTheRefusal(t *testing.T) {
	path := long(t, 100)
	sound := read(t, path)
	damaged := bytes.Clone(sound)
	execute(t, path, "DROP TRIGGER events_are_never_updated", "UPDATE events SET revision = 'x' WHERE seq = 3")
	l := openLog(t, path)
	wantError(t, errOf(l.Verify(t.Context())), deploylog.ErrCorrupt, "event 3 is not what was appended")
	require.NoError(t, l.Close())
	write(t, path, damaged)
	wantError(t, opened(t, path, 1), deploylog.ErrCorrupt, "event 3 is not what was appended")
	require.NoError(t, errOf(openLog(t, path).Verify(t.Context())))
	assert.NoError(t, opened(t, path, 1))
}

func checkedState(t *testing.T, path string) (s checkState) {
	require.NoError(t, json.Unmarshal(read(t, path+checkSuffix), &s))
	return s
}

// TestTheCheckGoesOn goes over a log in openings that are as short as can be, over all of it, and starts again.
func TestTheCheckGoesOn(t *testing.T) {
	const pages = 4
	path := long(t, pages*checkPage)
	require.NoError(t, os.Remove(path+checkSuffix))
	var seen []int64
	for range 2 * pages {
		require.NoError(t, openLog(t, path).Close())
		seen = append(seen, checkedState(t, path).Checked)
		if seen[len(seen)-1] == 0 && len(seen) > 1 {
			break
		}
	}
	assert.True(t, slices.Contains(seen, 0), "after %d openings the check had come to %v", len(seen), seen)
	for _, n := range seen {
		assert.True(t, n%checkPage == 0, "a part ended at event %d", n)
	}
}

// TestTheCheckFindsWhatVerifyFinds overwrites pages all over a file, and goes over it once.
func TestTheCheckFindsWhatVerifyFinds(t *testing.T) {
	sound := read(t, long(t, 2000))
	pages := len(sound) / pageSize
	garbage := bytes.Repeat([]byte{0xa5, 0x5a, 0x17, 0x00}, pageSize/4)
	found := 0
	for page := 1; page < pages; page += max(1, pages/ringtest.Cases(12, pages)) {
		path := newPath(t)
		b := bytes.Clone(sound)
		copy(b[page*pageSize:], garbage)
		write(t, path, b)
		l, err := Open(t.Context(), path, Options{})
		if err != nil {
			found++
			continue
		}
		if err := l.checkPart(t.Context()); err != nil { // on from where the opening's own is
			t.Fatal(err)
		}
		require.NoError(t, l.Close())
		refused := opened(t, path, 8)
		l = openLog(t, path)
		_, err = l.Verify(t.Context())
		assert.True(t, (err != nil) == (refused != nil), "page %d of %d: verify found %v, the check %v", page, pages, err, refused)
		if refused != nil {
			found++
		}
	}
	assert.True(t, found != 0, "no damage was found at all")
}

// TestDamageFoundByAnotherProcess refuses the appends of one that runs on.
func TestDamageFoundByAnotherProcess(t *testing.T) {
	path := written(t)
	l := openLog(t, path)
	f, err := openCheck(path)
	for ; errors.Is(err, deploylog.ErrLocked); f, err = openCheck(path) { // its own check is under way
		runtime.Gosched()
	}
	require.NoError(t, err)
	require.NoError(t, f.write(checkState{Version: 1, Log: l.ID(), Damage: &damage{Found: time.Now(), Problem: "a page is gone"}}))
	require.NoError(t, f.close())
	require.NoError(t, l.checkPart(t.Context()))
	wantError(t, errOf(l.Append(t.Context(), sample(1000))), deploylog.ErrCorrupt, "a page is gone", "log verify", "started again")
}

// TestAStateThatIsNone starts the check anew.
func TestAStateThatIsNone(t *testing.T) {
	path := written(t)
	closed := openLog(t, path)
	id := closed.ID()
	require.NoError(t, closed.Close())
	for _, b := range []string{
		"", "x", `{"version":1,"log":"another","checked":100,"damage":{"problem":"p"}}`, `{"version":2,"checked":5}`,
		`{"version":1,"log":"` + id + `","checked":-5}`, `{"version":1,"log":"` + id + `","checked":99999}`,
	} {
		write(t, path+checkSuffix, []byte(b))
		require.NoError(t, openLog(t, path).Close())
		s := checkedState(t, path)
		assert.True(t, s.Log == id && s.Damage == nil && s.Checked <= 300, "%s became %+v", b, s)
	}
}

func FuzzCheckState(f *testing.F) {
	f.Add([]byte(`{"version":1,"log":"l","checked":5,"damage":{"found":"2026-11-22T00:00:00Z","problem":"p"}}`))
	f.Add([]byte(`{"version":1,"log":"l","checked":-5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := decodeCheck(b, "l")
		assert.True(t, s.Checked >= 0 && s.Version == 1 && s.Log == "l", "%+v", s)
	})
}

func TestVerifyRefusesForeignObjects(t *testing.T) {
	for change, words := range map[string][]string{
		"DROP TRIGGER events_are_never_updated":                                           {"trigger events_are_never_updated is missing"},
		"DROP TRIGGER events_are_never_deleted":                                           {"trigger events_are_never_deleted is missing"},
		"DROP TRIGGER head_only_moves_forward; DROP TRIGGER head_is_never_deleted":        {"head_only_moves_forward is missing", "head_is_never_deleted is missing"},
		"CREATE TRIGGER mine AFTER INSERT ON events BEGIN UPDATE latest SET seq = 1; END": {"trigger mine does not belong"},
		"CREATE TABLE mine (x)":                                                           {"table mine does not belong"},
		"CREATE VIEW mine AS SELECT 1":                                                    {"view mine does not belong"},
		"CREATE INDEX mine ON events (revision)":                                          {"index mine does not belong"},
		"DROP TRIGGER head_is_never_deleted; CREATE TRIGGER head_is_never_deleted BEFORE DELETE ON log BEGIN SELECT 1; END": {"trigger head_is_never_deleted is not the one"},
	} {
		t.Run(change, func(t *testing.T) {
			path := written(t)
			execute(t, path, change)
			_, err := openLog(t, path).Verify(t.Context())
			wantError(t, err, deploylog.ErrCorrupt, append(words, path, "events are sound", "--anchor HEAD")...)
		})
	}
	path := written(t)
	execute(t, path, "ANALYZE")
	assert.NoError(t, errOf(openLog(t, path).Verify(t.Context())), "SQLite's own statistics")
}

// The check is of use, and not worth the run that has the log open.
func TestAPanicOfTheCheckIsAWarning(t *testing.T) {
	var said bytes.Buffer
	path := newPath(t)
	write(t, path, nil)
	l := &Log{
		path: path, logger: slog.New(slog.NewTextHandler(&said, nil)), // without readers it panics
		closed: make(chan struct{}), checked: make(chan struct{}),
	}
	close(l.closed)
	l.check(t.Context())
	<-l.checked
	text := said.String()
	assert.True(t, strings.Contains(text, "level=WARN") && strings.Contains(text, "internal error while checking the deployment log"), "said was %q", text)
}

// TestAnInterruptedReadIsNoDamage ends the context of Verify at moments all over its way through a log.
func TestAnInterruptedReadIsNoDamage(t *testing.T) {
	l := openLog(t, long(t, 2000))
	begin := time.Now()
	require.NoError(t, errOf(l.Verify(t.Context())))
	moments := ringtest.Cases(15, 40)
	step := time.Since(begin) / time.Duration(moments)
	interrupted := 0
	for n := range moments {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*step)
		_, err := l.Verify(ctx)
		cancel()
		require.NotErrorIs(t, err, deploylog.ErrCorrupt, "after %s", time.Duration(n)*step)
		if err != nil {
			interrupted++
		}
	}
	assert.True(t, interrupted != 0, "nothing was interrupted")
	d := l.remembered()
	assert.True(t, d == nil, "it is remembered as damage: %+v", d)
	assert.NoError(t, errOf(l.Append(t.Context(), sample(1_000_000))), "a sound log refuses")
}

// TestOnlyTheFileIsDamaged tells what a read met from what kept it from reading.
func TestOnlyTheFileIsDamaged(t *testing.T) {
	path := written(t)
	l := openLog(t, path)
	ended, end := context.WithCancel(t.Context())
	end()
	reading := follow(ended, &chain.Walk{}, l.readers, 300)
	_, stored := storedLink(ended, l.readers, 7)
	h := head{id: l.ID(), seq: 300}
	anchored := anchor{log: l.ID(), seq: 7}.holds(ended, l.readers, h, path)
	_, cannotOpen := connectAndCount(t, filepath.Join(t.TempDir(), "none.db"))
	for what, err := range map[string]error{
		"an ended walk": reading, "an ended look": stored, "an ended comparison": anchored, "a file that cannot be opened": cannotOpen,
	} {
		assert.True(t, err != nil && !errors.Is(err, deploylog.ErrCorrupt), "%s: %v", what, err)
		for _, e := range []error{err, corrupt("event 7 cannot be read: %w", err)} {
			assert.False(t, isDamage(e), "%s is damage: %v", what, e)
		}
	}
	noDatabase := filepath.Join(t.TempDir(), "text.db")
	write(t, noDatabase, bytes.Repeat([]byte("no database. "), 1000))
	_, foreign := connectAndCount(t, noDatabase)
	_, missing := storedLink(t.Context(), l.readers, 999)
	for what, err := range map[string]error{"another file": foreign, "a missing event": missing} {
		assert.True(t, isDamage(err), "%s is no damage: %v", what, err)
	}
	for line, outside := range map[string]bool{
		"Tree 4 page 7: unable to get the page. error code=266": true,
		"Tree 4 page 7: unable to get the page. error code=11":  false,
		"row 7 missing from index":                              false,
		"ok":                                                    false,
	} {
		assert.Equal(t, outside, couldNotRead(line), "%s: want %v", line, outside)
	}
}

// connectAndCount opens a file as a log is opened, and reads from it.
func connectAndCount(t *testing.T, path string) (n int, err error) {
	db := must.Get(connect(path, "rw", settings{}))(t)
	defer db.Close()
	return n, db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema").Scan(&n)
}
