// Package wal looks into the write-ahead log of a SQLite file, without SQLite, for what that
// would drop without a word.
package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The layout of a write-ahead log, from "Database File Format", section 4.
const (
	HeaderSize      = 32 // of the file
	FrameHeaderSize = 24 // of each frame, before the page that it holds

	magic        = 0x377f0682 // the low bit says that checksums are big-endian
	magicMask    = 0xfffffffe
	checkRetries = 5
)

// suffix of the name of a SQLite file is that of its write-ahead log.
const suffix = "-wal"

// damage is the first frame of a write-ahead log that acknowledged transactions
// were lost with; its zero value is none.
type damage struct {
	generation [8]byte // the salts of the write-ahead log
	frame      int     // counted from 1
}

// DamageError is that a write-ahead log is broken, though transactions follow.
type DamageError struct {
	File  string // its name
	Frame int    // the first that is broken, counted from 1
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("its write-ahead log %s is damaged: frame %d is broken, though transactions follow it", e.File, e.Frame)
}

// Check finds acknowledged transactions of the SQLite file at path that SQLite would drop: it
// fails with a DamageError then.
//
// SQLite takes a write-ahead log up to its first frame that does not check
// out and ignores the rest, because that is what a crash in mid-write leaves.
// But each transaction is synced before the next one begins: where a further
// transaction of the same generation follows a broken one, the broken one had
// been acknowledged, and the disk has lost it since.
//
// It returns whether there is a write-ahead log.
func Check(path string) (pending bool, err error) {
	var last damage
	for range checkRetries { // another process may be writing: only what stays is damage
		f, err := os.Open(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var found damage
		info, err := f.Stat()
		if err == nil {
			pending = true
			found, err = scan(io.NewSectionReader(f, 0, info.Size()))
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return false, fmt.Errorf("read the write-ahead log: %w", err)
		}
		if found.frame == 0 {
			return pending, nil
		}
		if found == last {
			return pending, &DamageError{filepath.Base(path) + suffix, found.frame}
		}
		last = found
	}
	return pending, nil
}

// Sync makes the write-ahead log of the SQLite file at path durable: a process that was killed
// may have left transactions in it that can be read and are not on the disk.
func Sync(path string) error {
	f, err := os.OpenFile(path+suffix, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("make the write-ahead log durable: %w", err)
	}
	return nil
}

// scan returns what is wrong with a write-ahead log, and as err why it could
// not be read.
func scan(r io.Reader) (found damage, err error) {
	header := make([]byte, HeaderSize)
	if _, err := io.ReadFull(r, header); err != nil {
		return found, ignoreEOF(err) // not yet begun
	}
	first := binary.BigEndian.Uint32(header)
	if first&magicMask != magic {
		return found, nil // never begun, or torn in its very first write
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if first&1 == 1 {
		order = binary.BigEndian
	}
	var sum checksum
	sum.add(order, header[:24])
	if !sum.matches(header[24:]) {
		return found, nil
	}
	size := binary.BigEndian.Uint32(header[8:])
	if size < 512 || size > 65536 {
		return found, nil
	}
	salts := header[16:24]
	frame := make([]byte, FrameHeaderSize+int(size))
	broken, ended := 0, false // the first frame that does not check out; its transaction has ended since
	for n, whole := 1, true; ; n++ {
		if _, err := io.ReadFull(r, frame); err != nil {
			return found, ignoreEOF(err)
		}
		if whole { // up to here, by checksums, which leave out the salts
			sum.add(order, frame[:8])
			sum.add(order, frame[FrameHeaderSize:])
			whole = sum.matches(frame[16:24])
		}
		salted := bytes.Equal(frame[8:16], salts)
		if broken == 0 && (!whole || !salted) {
			broken = n
		}
		// What an earlier generation left behind has other salts, but so has a
		// frame whose salts the disk has damaged: the scan goes on behind it.
		if !whole && !salted {
			continue
		}
		if ended {
			return damage{generation: [8]byte(salts), frame: broken}, nil
		}
		ended = broken > 0 && binary.BigEndian.Uint32(frame[4:]) != 0
	}
}

// checksum is the running checksum of a write-ahead log.
type checksum [2]uint32

func (s *checksum) add(order binary.ByteOrder, b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
}

func (s *checksum) matches(b []byte) bool {
	return s[0] == binary.BigEndian.Uint32(b) && s[1] == binary.BigEndian.Uint32(b[4:])
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
