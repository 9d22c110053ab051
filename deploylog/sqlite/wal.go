package sqlite

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
	walHeaderSize   = 32
	walFrameHeader  = 24
	walMagic        = 0x377f0682 // the low bit says that checksums are big-endian
	walMagicMask    = 0xfffffffe
	walCheckRetries = 3
)

// checkWAL finds acknowledged events that SQLite would drop without a word.
//
// SQLite takes a write-ahead log up to its first frame that does not check
// out and ignores the rest, because that is what a crash in mid-write leaves.
// But each transaction is synced before the next one begins: where a further
// transaction of the same generation follows a broken one, the broken one had
// been acknowledged, and the disk has lost it since.
//
// It returns whether there is a write-ahead log with anything in it.
func checkWAL(path string) (pending bool, err error) {
	var found error
	for range walCheckRetries { // another process may be writing: only what stays is damage
		f, err := os.Open(path + "-wal")
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		info, err := f.Stat()
		if err == nil {
			pending = info.Size() > 0
			found, err = scanWAL(io.NewSectionReader(f, 0, info.Size()))
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return false, fmt.Errorf("read the write-ahead log: %w", err)
		}
		if found == nil {
			return pending, nil
		}
	}
	return pending, corrupt("its write-ahead log %s-wal is damaged: %w", filepath.Base(path), found)
}

// scanWAL returns as found what is wrong with a write-ahead log, and as err why
// it could not be read.
func scanWAL(r io.Reader) (found, err error) {
	header := make([]byte, walHeaderSize)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, ignoreEOF(err) // not yet begun
	}
	magic := binary.BigEndian.Uint32(header)
	if magic&walMagicMask != walMagic {
		return nil, nil // never begun, or torn in its very first write
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if magic&1 == 1 {
		order = binary.BigEndian
	}
	var sum walSum
	sum.add(order, header[:24])
	if !sum.matches(header[24:]) {
		return nil, nil
	}
	size := binary.BigEndian.Uint32(header[8:])
	if size < 512 || size > 65536 {
		return nil, nil
	}
	frame := make([]byte, walFrameHeader+int(size))
	broken, ended := 0, false // the first frame that does not check out; its transaction has ended since
	for n := 1; ; n++ {
		if _, err := io.ReadFull(r, frame); err != nil {
			return nil, ignoreEOF(err)
		}
		if !bytes.Equal(frame[8:16], header[16:24]) { // salts: a frame of an earlier generation
			if broken == 0 {
				return nil, nil
			}
			continue
		}
		if ended {
			return fmt.Errorf("frame %d is broken, though transactions follow it", broken), nil
		}
		if broken == 0 {
			sum.add(order, frame[:8])
			sum.add(order, frame[walFrameHeader:])
			if !sum.matches(frame[16:24]) {
				broken = n
			}
		}
		commit := binary.BigEndian.Uint32(frame[4:]) != 0
		ended = broken > 0 && commit
	}
}

// walSum is the running checksum of a write-ahead log.
type walSum [2]uint32

func (s *walSum) add(order binary.ByteOrder, b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
}

func (s *walSum) matches(b []byte) bool {
	return s[0] == binary.BigEndian.Uint32(b) && s[1] == binary.BigEndian.Uint32(b[4:])
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
