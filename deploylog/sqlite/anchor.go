package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

// anchor is the newest event of a log that may have been acknowledged, kept
// outside of the log's file and of its write-ahead log. Both can lose their end
// and still look sound; a log that ends before its anchor has lost events.
//
// It is written after the commit is durable and before the acknowledgement: a
// crash between these leaves an anchor that is one batch behind, never one that
// is ahead, so an anchor that is ahead always means a loss. Its own sync would
// double what an append costs, so it is synced once every settleAfter, beside a
// commit where there is one. What the write alone does not survive is a power
// failure within that time; and then the events are lost without notice only
// where the disk also loses a commit that it had confirmed.
type anchor struct {
	log  string
	seq  int64
	hash chain.Link
}

// The file of an anchor has two slots, each a line of text in a block of its
// own. They are written in turn, so a torn write leaves the other one whole.
const (
	anchorSuffix   = "-anchor"
	anchorBlock    = 4096 // the largest unit that a disk tears
	anchorSlots    = 2
	anchorFileSize = anchorSlots * anchorBlock
	anchorMagic    = "deployster-anchor 1"
	anchorSumSize  = 16

	settleAfter = 20 * time.Millisecond // how long an anchor may be written and not yet synced
)

// line is the form of an anchor. Its length only depends on that of the log's
// id, which never changes, so a slot is overwritten exactly.
func (a anchor) line() []byte {
	text := fmt.Sprintf("%s %s %019d %x ", anchorMagic, a.log, a.seq, a.hash[:])
	sum := sha256.Sum256([]byte(text))
	return []byte(text + hex.EncodeToString(sum[:anchorSumSize]) + "\n")
}

// decodeAnchor reads a slot; ok is false for one that was not written whole.
func decodeAnchor(slot []byte) (a anchor, ok bool) {
	line, _, ok := bytes.Cut(slot, []byte("\n"))
	if !ok || len(line) > 256 {
		return anchor{}, false
	}
	rest, ok := strings.CutPrefix(string(line), anchorMagic+" ")
	fields := strings.Split(rest, " ")
	if !ok || len(fields) != 4 {
		return anchor{}, false
	}
	seq, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || seq < 0 {
		return anchor{}, false
	}
	hash, err := hex.DecodeString(fields[2])
	if err != nil || len(hash) != len(a.hash) {
		return anchor{}, false
	}
	a = anchor{log: fields[0], seq: seq, hash: chain.Link(hash)}
	return a, bytes.HasPrefix(slot, a.line())
}

// decodeAnchors returns the newest anchor of a file's two slots and which of
// them is to be written next.
func decodeAnchors(b []byte) (newest anchor, next int, ok bool) {
	for i := range anchorSlots {
		from := min(i*anchorBlock, len(b))
		a, whole := decodeAnchor(b[from:min(from+anchorBlock, len(b))])
		if whole && (!ok || a.seq > newest.seq) {
			newest, next, ok = a, 1-i, true
		}
	}
	return newest, next, ok
}

// anchorFile is an open anchor.
type anchorFile struct {
	file  *os.File
	buf   []byte
	dirty bool      // written and not yet synced
	since time.Time // when it became so

	syncData func(*os.File) error
}

// openAnchor opens the anchor of the log at path for reading or, with
// os.O_RDWR, for writing; there being none is fs.ErrNotExist.
func openAnchor(path string, flag int) (*anchorFile, error) {
	f, err := openBeside(path, anchorSuffix, flag)
	if err != nil {
		return nil, err
	}
	return &anchorFile{file: f, buf: make([]byte, anchorFileSize), syncData: syncData}, nil
}

// readAnchor returns the anchor of the log at path; ok is false where there is
// none.
func readAnchor(path string) (a anchor, ok bool, err error) {
	f, err := openAnchor(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return anchor{}, false, nil
	}
	if err != nil {
		return anchor{}, false, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	const retries = 5
	for range retries { // a slot that another process is writing may be read half
		if a, _, err = f.read(); !errors.Is(err, deploylog.ErrCorrupt) {
			break
		}
	}
	return a, true, err
}

func (f *anchorFile) read() (newest anchor, next int, err error) {
	n, err := f.file.ReadAt(f.buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return anchor{}, 0, fmt.Errorf("read the anchor: %w", err)
	}
	newest, next, ok := decodeAnchors(f.buf[:n])
	if !ok {
		return anchor{}, 0, &lossError{fmt.Sprintf("its anchor %s is damaged, so nobody can say whether the newest events are still there", filepath.Base(f.file.Name()))}
	}
	return newest, next, nil
}

// The pauses of a writer that waits for another process's.
const (
	anchorPause    = 200 * time.Microsecond
	anchorPauseMax = 10 * time.Millisecond
)

// lock keeps other processes from writing events until unlock, so that anchors
// are written in the order of the events. It fails when waits reports that it is to wait no longer.
func (f *anchorFile) lock(waits func() bool) error {
	for pause := anchorPause; ; pause = min(2*pause, anchorPauseMax) {
		err := flock(f.file, syscall.LOCK_EX)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock the anchor: %w", err)
		case !waits():
			return errBusy
		}
		<-time.After(pause)
	}
}

var errBusy = errors.New("the anchor is locked")

func (f *anchorFile) unlock() error {
	return flock(f.file, syscall.LOCK_UN)
}

// inPlace reports whether this still is the anchor of the log at path.
func (f *anchorFile) inPlace(path string) (bool, error) {
	own, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path + anchorSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(own, there), err
}

// advance makes a the anchor of all processes. The caller holds the lock.
func (f *anchorFile) advance(a anchor, slot int) error {
	if !f.dirty {
		f.dirty, f.since = true, time.Now()
	}
	if _, err := f.file.WriteAt(a.line(), int64(slot)*anchorBlock); err != nil {
		return fmt.Errorf("write the anchor: %w", err)
	}
	return nil
}

// sync makes what was written durable.
func (f *anchorFile) sync() error {
	if !f.dirty {
		return nil
	}
	f.dirty = false // also where it fails: a second sync would say nothing about the first
	if err := f.syncData(f.file); err != nil {
		return fmt.Errorf("make the anchor durable: %w", err)
	}
	return nil
}

// due is how long the anchor need not be synced yet.
func (f *anchorFile) due() time.Duration { return max(0, settleAfter-time.Since(f.since)) }

// during runs a function and, at the same time, sync where it is due.
func (f *anchorFile) during(commit func() error) error {
	if !f.dirty || f.due() > 0 {
		return commit()
	}
	synced := make(chan error, 1)
	go func() { synced <- f.sync() }()
	err := commit()
	return errors.Join(err, <-synced)
}

// reset makes a the anchor, whatever was there. The caller holds the lock.
func (f *anchorFile) reset(a anchor) error {
	_, err := f.file.WriteAt(a.file(), 0)
	if err = errors.Join(err, f.file.Sync()); err != nil {
		return fmt.Errorf("write the anchor: %w", err)
	}
	f.dirty = false
	return nil
}

// file is a whole file with the anchor in both slots.
func (a anchor) file() []byte {
	b := bytes.Repeat([]byte("\n"), anchorFileSize)
	for i := range anchorSlots {
		copy(b[i*anchorBlock:], a.line())
	}
	return b
}

func (f *anchorFile) close() error { return f.file.Close() }

// createAnchor gives the log at path an anchor, unless another process was
// faster. Its room on the disk is taken now, so that a full disk does not keep
// it from moving on.
func createAnchor(path string, a anchor) error {
	if err := createBeside(path, anchorSuffix, a.file()); err != nil {
		return fmt.Errorf("create the anchor: %w", err)
	}
	return nil
}

// holds fails where a log does not hold the event of its anchor. The anchor was
// read before the head, for both move on.
func (a anchor) holds(ctx context.Context, q querier, h head, path string) error {
	file := filepath.Base(path) + anchorSuffix
	if a.log != h.id {
		return &lossError{fmt.Sprintf("this is the log %s, but its anchor %s is of the log %s: another log's file was put here", h.id, file, a.log)}
	}
	if h.seq < a.seq {
		return &lossError{fmt.Sprintf("its newest event is %d, but %d was recorded (see %s): the events from %d on are lost, because its write-ahead log %s-wal was cut, emptied or removed, or because an older copy of the log was put here",
			h.seq, a.seq, file, h.seq+1, filepath.Base(path))}
	}
	hash := h.hash
	if a.seq == 0 {
		hash = chain.Genesis
	} else if a.seq < h.seq {
		var err error
		if hash, err = storedLink(ctx, q, a.seq); err != nil {
			return err
		}
	}
	if hash != a.hash {
		return &lossError{fmt.Sprintf("its event %d is not the one that was recorded (see %s): an older copy that went on differently was put here, or its events were written anew", a.seq, file)}
	}
	return nil
}

// lossError says that acknowledged events are not in the log. The file itself
// may be sound, so there is another remedy than for a damaged one.
type lossError struct{ text string }

func (e *lossError) Error() string { return deploylog.ErrCorrupt.Error() + ": " + e.text }

// Is makes it a case of deploylog.ErrCorrupt.
func (e *lossError) Is(target error) bool { return target == deploylog.ErrCorrupt }
