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

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

// long makes a log of n events and closes it.
func long(t *testing.T, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log.db")
	l := openLog(t, path)
	events := make([]deploylog.Event, n)
	for i := range events {
		events[i] = sample(i)
	}
	if _, err := l.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// opened opens and closes a log, which checks a part of it, until it refuses an
// append or has been opened so many times.
func opened(t *testing.T, path string, times int) error {
	t.Helper()
	for n := range times {
		l, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Append(t.Context(), sample(1_000_000+n))
		if closed := l.Close(); closed != nil {
			t.Fatal(closed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDamageToOldEventsIsFoundInTime overwrites a page in the depth of a log,
// where no opening and no append comes by.
func TestDamageToOldEventsIsFoundInTime(t *testing.T) {
	const events = 4000
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
		if err != nil {
			t.Errorf("what is not damaged can be read: %v", err)
		}
		newest++
	}
	if _, err := l.Verify(t.Context()); err == nil || newest != 10 {
		t.Errorf("verify: %v; read %d", err, newest)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if now := len(read(t, path)); now != size {
		t.Errorf("the damaged file went from %d to %d bytes", size, now)
	}

	// The backup is older by the events of the first openings.
	write(t, path, sound)
	if _, err := AcceptHead(t.Context(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, path, 1); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}

// TestVerifyEndsTheRefusal repairs the file with the events that it had.
func TestVerifyEndsTheRefusal(t *testing.T) {
	path := long(t, 100)
	sound := read(t, path)
	damaged := bytes.Clone(sound)
	execute(t, path, "DROP TRIGGER events_are_never_updated", "UPDATE events SET revision = 'x' WHERE seq = 3")
	l := openLog(t, path)
	_, err := l.Verify(t.Context())
	wantError(t, err, deploylog.ErrCorrupt, "event 3 is not what was appended")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path, damaged)
	wantError(t, opened(t, path, 1), deploylog.ErrCorrupt, "event 3 is not what was appended")
	again := openLog(t, path)
	if _, err := again.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, path, 1); err != nil {
		t.Error(err)
	}
}

// TestTheCheckGoesOn goes over a log in openings that are as short as can be,
// over all of it, and starts again.
func TestTheCheckGoesOn(t *testing.T) {
	const pages = 4
	path := long(t, pages*checkPage)
	if err := os.Remove(path + checkSuffix); err != nil {
		t.Fatal(err)
	}
	var seen []int64
	for range 2 * pages {
		l, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var s checkState
		if err := json.Unmarshal(read(t, path+checkSuffix), &s); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, s.Checked)
		if s.Checked == 0 && len(seen) > 1 {
			break
		}
	}
	if !slices.Contains(seen, 0) {
		t.Errorf("after %d openings the check had come to %v", len(seen), seen)
	}
	for _, n := range seen {
		if n%checkPage != 0 {
			t.Errorf("a part ended at event %d", n)
		}
	}
}

// TestTheCheckFindsWhatVerifyFinds overwrites pages all over a file, and goes
// over it once.
func TestTheCheckFindsWhatVerifyFinds(t *testing.T) {
	sound := read(t, long(t, 2000))
	pages := len(sound) / pageSize
	garbage := bytes.Repeat([]byte{0xa5, 0x5a, 0x17, 0x00}, pageSize/4)
	found := 0
	for page := 1; page < pages; page += max(1, pages/40) {
		path := filepath.Join(t.TempDir(), "log.db")
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
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		refused := opened(t, path, 8)
		l = openLog(t, path)
		if _, err := l.Verify(t.Context()); (err != nil) != (refused != nil) {
			t.Errorf("page %d of %d: verify found %v, the check %v", page, pages, err, refused)
		}
		if refused != nil {
			found++
		}
	}
	if found == 0 {
		t.Error("no damage was found at all")
	}
}

// TestTheCheckFindsForgeries gives it what only somebody else can do to a log.
func TestTheCheckFindsForgeries(t *testing.T) {
	const unlocked = "DROP TRIGGER events_are_never_updated; DROP TRIGGER events_are_never_deleted;"
	for _, forgery := range []string{
		"UPDATE events SET revision = 'forged' WHERE seq = 7",
		"UPDATE events SET registered = 2 WHERE seq = 7",
		"DELETE FROM events WHERE seq = 7",
		"DELETE FROM latest WHERE target = 'resource/service-001'",
		"UPDATE latest SET seq = seq - 1 WHERE target = 'resource/service-001'",
		"INSERT INTO latest VALUES ('host/a', 'host-failed', 1, 1)",
		"INSERT INTO in_progress VALUES ('resource/service-000', 1, 1, 1)",
		"DELETE FROM in_progress",
	} {
		t.Run(forgery, func(t *testing.T) {
			path := written(t)
			execute(t, path, unlocked+forgery)
			var s checkState
			for range 3 { // 300 events are less than a page
				if err := openLog(t, path).Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := json.Unmarshal(read(t, path+checkSuffix), &s); err != nil || s.Damage == nil {
				t.Errorf("nothing was found: %+v, %v", s, err)
			}
			if err := opened(t, path, 1); err == nil {
				t.Error("an append was not refused")
			}
		})
	}
}

// TestDamageFoundByAnotherProcess refuses the appends of one that runs on.
func TestDamageFoundByAnotherProcess(t *testing.T) {
	path := written(t)
	l := openLog(t, path)
	f, err := openCheck(path)
	for ; errors.Is(err, deploylog.ErrLocked); f, err = openCheck(path) { // its own check is under way
		runtime.Gosched()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.write(checkState{Version: 1, Log: l.ID(), Damage: &damage{Found: time.Now(), Problem: "a page is gone"}}); err != nil {
		t.Fatal(err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if err := l.checkPart(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(t.Context(), sample(1000))
	wantError(t, err, deploylog.ErrCorrupt, "a page is gone", "log verify", "started again")
}

// TestAStateThatIsNone starts the check anew.
func TestAStateThatIsNone(t *testing.T) {
	path := written(t)
	closed := openLog(t, path)
	id := closed.ID()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{
		"", "x", `{"version":1,"log":"another","checked":100,"damage":{"problem":"p"}}`, `{"version":2,"checked":5}`,
		`{"version":1,"log":"` + id + `","checked":-5}`, `{"version":1,"log":"` + id + `","checked":99999}`,
	} {
		write(t, path+checkSuffix, []byte(b))
		l := openLog(t, path)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var s checkState
		if err := json.Unmarshal(read(t, path+checkSuffix), &s); err != nil || s.Log != id || s.Damage != nil || s.Checked > 300 {
			t.Errorf("%s became %+v, %v", b, s, err)
		}
	}
}

func FuzzCheckState(f *testing.F) {
	f.Add([]byte(`{"version":1,"log":"l","checked":5,"damage":{"found":"2026-11-22T00:00:00Z","problem":"p"}}`))
	f.Add([]byte(`{"version":1,"log":"l","checked":-5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s := decodeCheck(b, "l"); s.Checked < 0 || s.Version != 1 || s.Log != "l" {
			t.Errorf("%+v", s)
		}
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
	if _, err := openLog(t, path).Verify(t.Context()); err != nil {
		t.Errorf("SQLite's own statistics: %v", err)
	}
}

// The check is of use, and not worth the run that has the log open.
func TestAPanicOfTheCheckIsAWarning(t *testing.T) {
	var said bytes.Buffer
	path := filepath.Join(t.TempDir(), "log.db")
	write(t, path, nil)
	l := &Log{
		path: path, logger: slog.New(slog.NewTextHandler(&said, nil)), // without readers it panics
		closed: make(chan struct{}), checked: make(chan struct{}),
	}
	close(l.closed)
	l.check(t.Context())
	<-l.checked
	if text := said.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "internal error while checking the deployment log") {
		t.Errorf("said was %q", text)
	}
}

// TestAnInterruptedReadIsNoDamage ends the context of Verify at moments all over
// its way through a log.
func TestAnInterruptedReadIsNoDamage(t *testing.T) {
	l := openLog(t, long(t, 2000))
	begin := time.Now()
	if _, err := l.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	const moments = 40
	step := time.Since(begin) / moments
	interrupted := 0
	for n := range moments {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*step)
		_, err := l.Verify(ctx)
		cancel()
		if errors.Is(err, deploylog.ErrCorrupt) {
			t.Fatalf("after %s: %v", time.Duration(n)*step, err)
		}
		if err != nil {
			interrupted++
		}
	}
	if interrupted == 0 {
		t.Error("nothing was interrupted")
	}
	if d := l.remembered(); d != nil {
		t.Errorf("it is remembered as damage: %+v", d)
	}
	if _, err := l.Append(t.Context(), sample(1_000_000)); err != nil {
		t.Errorf("a sound log refuses: %v", err)
	}
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
		if err == nil || errors.Is(err, deploylog.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		for _, e := range []error{err, corrupt("event 7 cannot be read: %w", err)} {
			if isDamage(e) {
				t.Errorf("%s is damage: %v", what, e)
			}
		}
	}
	noDatabase := filepath.Join(t.TempDir(), "text.db")
	write(t, noDatabase, bytes.Repeat([]byte("no database. "), 1000))
	_, foreign := connectAndCount(t, noDatabase)
	_, missing := storedLink(t.Context(), l.readers, 999)
	for what, err := range map[string]error{"another file": foreign, "a missing event": missing} {
		if !isDamage(err) {
			t.Errorf("%s is no damage: %v", what, err)
		}
	}
	for line, outside := range map[string]bool{
		"Tree 4 page 7: unable to get the page. error code=266": true,
		"Tree 4 page 7: unable to get the page. error code=11":  false,
		"row 7 missing from index":                              false,
		"ok":                                                    false,
	} {
		if couldNotRead(line) != outside {
			t.Errorf("%s: want %v", line, outside)
		}
	}
}

// connectAndCount opens a file as a log is opened, and reads from it.
func connectAndCount(t *testing.T, path string) (n int, err error) {
	t.Helper()
	db, err := connect(path, "rw", settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return n, db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema").Scan(&n)
}
