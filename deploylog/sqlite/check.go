package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/internal/crash"
)

// A log is gone over again and again while it is used, a part at each opening
// and from time to time as long as it is open, so that damage to old events is
// found within days and not when they are next needed.
const (
	checkSuffix  = "-check"
	checkPage    = 500                   // events of a page at least, and so of a part
	checkPages   = 1000                  // pages that a log is divided into at most
	checkPerPart = 10                    // pages of a part, unless the log is closed before
	checkRest    = 9                     // times as long as a page took nothing is checked after it: others use the machine
	checkPause   = 20 * time.Millisecond // until a part that another process checks is looked at again
	checkEvery   = 15 * time.Minute      // while the log is open
)

// checkState is how far a log has been gone over, kept in a file beside it.
type checkState struct {
	Version int     `json:"version"`
	Log     string  `json:"log"`
	Checked int64   `json:"checked"`          // the last event of the last part
	Damage  *damage `json:"damage,omitempty"` // kept until Verify finds none
}

// damage is what was found wrong with a log.
type damage struct {
	Found   time.Time `json:"found"`
	Problem string    `json:"problem"`
}

// checkFile is the open file of a checkState. One process has it at a time.
type checkFile struct{ file *os.File }

// openCheck opens the file for this process alone; another one having it is
// deploylog.ErrLocked.
func openCheck(path string) (*checkFile, error) {
	f, err := openBeside(path, checkSuffix, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createBeside(path, checkSuffix, nil); err != nil {
			return nil, err
		}
		f, err = openBeside(path, checkSuffix, os.O_RDWR)
	}
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = deploylog.ErrLocked
		}
		return nil, errors.Join(err, f.Close())
	}
	return &checkFile{f}, nil
}

// read returns what the file says about a log, which is nothing where it is of
// another one or was not written whole: then the log is gone over anew.
func (c *checkFile) read(log string) checkState {
	b, err := io.ReadAll(io.NewSectionReader(c.file, 0, 1<<20))
	if err != nil {
		b = nil
	}
	return decodeCheck(b, log)
}

func decodeCheck(b []byte, log string) checkState {
	var s checkState
	if json.Unmarshal(b, &s) != nil || s.Version != 1 || s.Log != log || s.Checked < 0 {
		return checkState{Version: 1, Log: log}
	}
	return s
}

func (c *checkFile) write(s checkState) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if _, err := c.file.WriteAt(b, 0); err != nil {
		return err
	}
	if err := c.file.Truncate(int64(len(b))); err != nil {
		return err
	}
	if s.Damage == nil {
		return nil // a cursor that is lost costs no more than a second look
	}
	return c.file.Sync()
}

func (c *checkFile) close() error { return c.file.Close() }

// remembered returns the damage that was found earlier, nil where there is
// none. It does not wait for a check under way.
func (l *Log) remembered() *damage {
	b, err := os.ReadFile(l.path + checkSuffix)
	if err != nil {
		return nil
	}
	return decodeCheck(b, l.id).Damage
}

// check goes over the log, a part now and then, until it is closed.
func (l *Log) check(ctx context.Context) {
	defer close(l.checked)
	for {
		// A panic is no reason to end whoever records: what is written does not go by
		// what was checked.
		err := crash.Do("checking the deployment log", func() error { return l.checkPart(ctx) })
		if err != nil {
			l.logger.Warn("could not check a part of the deployment log", "path", l.path, "error", err)
		}
		select {
		case <-time.After(checkEvery):
		case <-l.closed:
			return
		}
	}
}

// checkPart goes over the next part of the log. A closed log ends it after its first page.
func (l *Log) checkPart(ctx context.Context) error {
	for range checkPerPart {
		began := time.Now()
		more, err := l.checkNext(ctx)
		if err != nil || !more || l.closes(checkRest*time.Since(began)) {
			return err
		}
	}
	return nil
}

// checkNext goes over the next page of the log and remembers how far it came, or the damage that it found. more says that
// there are others before it begins again.
func (l *Log) checkNext(ctx context.Context) (more bool, err error) {
	f, err := openCheck(l.path)
	if errors.Is(err, deploylog.ErrLocked) {
		return false, nil // another process is at it
	}
	if isForbidden(err) {
		return false, nil // it is for those who may write here
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	sweep(l.path)
	s := f.read(l.id)
	if s.Damage != nil { // another process has found it
		l.refuse(s.Damage)
		return false, nil
	}
	s.Checked, err = l.checkPage(ctx, s.Checked)
	if isDamage(err) {
		return false, l.damaged(f, s, err)
	}
	return s.Checked > 0, errors.Join(err, f.write(s))
}

// checkPage goes over the events after one, and returns the last of them, or 0
// after the newest: then it starts again.
func (l *Log) checkPage(ctx context.Context, after int64) (checked int64, err error) {
	newest, err := l.newest(ctx)
	if err != nil {
		return after, err
	}
	if after > newest { // an older copy was put here
		after = 0
	}
	c := chain.Walk{Seq: after}
	if after > 0 {
		if c.Head, err = storedLink(ctx, l.readers, after); err != nil {
			return after, err
		}
	}
	until := min(newest, after+max(checkPage, newest/checkPages))
	if err := follow(ctx, &c, l.readers, until); err != nil {
		return after, err
	}
	if err := l.none(ctx, "the index of the events does not lead to one", unindexed, after, until); err != nil {
		return after, err
	}
	if err := l.checkRecorded(ctx, after, until); err != nil {
		return after, err
	}
	if until < newest {
		return until, nil
	}
	return 0, l.checkUnknown(ctx)
}

// unindexed finds events that the index does not: they could be appended twice.
// The plus keeps SQLite from looking them up by their number.
const unindexed = `SELECT e.seq FROM events e WHERE e.seq > ? AND e.seq <= ? AND NOT EXISTS (
	SELECT 1 FROM events i WHERE i.deployment = e.deployment AND i.target = e.target AND i.event = e.event
	AND i.attempt = e.attempt AND +i.seq = e.seq)`

// isDamage reports whether a check failed because of what is in the file, and
// of nothing else: what is remembered as damage ends all writing.
func isDamage(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch code(err) {
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return true
	case codes.SQLITE_OK: // none
		return errors.Is(err, deploylog.ErrCorrupt)
	default:
		return false
	}
}

// damaged remembers what is wrong with the log and refuses to write to it.
func (l *Log) damaged(f *checkFile, s checkState, cause error) error {
	s.Damage = &damage{Found: l.now().UTC(), Problem: cause.Error()}
	l.refuse(s.Damage)
	return f.write(s)
}

// refuse keeps the log from growing on damaged ground. It can still be read.
func (l *Log) refuse(d *damage) {
	err := &damageError{d}
	l.queue.Break(err)
	l.queue.Refuse(err)
	l.logger.Error("deployment log is damaged and refuses writes", "path", l.path, "found", d.Found, "problem", d.Problem)
}

// verified remembers what Verify found.
func (l *Log) verified(cause error) error {
	if l.readOnly || cause != nil && !isDamage(cause) {
		return nil
	}
	f, err := openCheck(l.path)
	for waited := time.Duration(0); errors.Is(err, deploylog.ErrLocked) && waited < defaultBusyTimeout; waited += checkPause {
		<-time.After(checkPause) // a part is being checked
		f, err = openCheck(l.path)
	}
	if err != nil {
		return fmt.Errorf("remember the result: %w", err)
	}
	s := checkState{Version: 1, Log: l.id}
	if cause != nil {
		err = l.damaged(f, s, cause)
	} else {
		err = f.write(s)
	}
	if err = errors.Join(err, f.close()); err != nil {
		return fmt.Errorf("remember the result: %w", err)
	}
	return nil
}

// closes reports whether the log is closed within some time.
func (l *Log) closes(within time.Duration) bool {
	select {
	case <-l.closed:
		return true
	case <-time.After(within):
		return false
	}
}

// damageError refuses an append to a damaged log.
type damageError struct{ *damage }

func (e *damageError) Error() string {
	return fmt.Sprintf("damage was found on %s: %s", e.Found.Local().Format("2006-01-02 15:04:05"), e.Problem)
}

// Is makes it a case of both: the log is damaged, and trying again is no use.
func (e *damageError) Is(target error) bool {
	return target == deploylog.ErrCorrupt || target == deploylog.ErrPoisoned
}
