package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The parts of an unpacked copy.
const (
	filesName       = "files"       // what it holds
	fingerprintName = "fingerprint" // what the kernel knew of it when it was right
)

// asUnpacked reports whether a file of a copy has the mode and time that unpacking gave it.
func asUnpacked(info fs.FileInfo) bool {
	mode := info.Mode()
	if !info.ModTime().Equal(stamp) {
		return false
	}
	return mode == 0o444 || mode == 0o555 || mode == 0o555|fs.ModeDir || mode.Type() == fs.ModeSymlink
}

// fingerprint is the fingerprint of a copy and of the blob that it was made of, and when
// anything of them changed last.
func (s *Store) fingerprint(files string, layer v1.Descriptor) (print string, last time.Duration, err error) {
	sum := sha256.New()
	var line []byte
	write := func(name string, info fs.FileInfo) {
		is := stateOf(info)
		last = max(last, is.change)
		line = strconv.AppendQuote(line[:0], name)
		line = strconv.AppendUint(append(line, ' '), uint64(info.Mode()), 8)
		line = strconv.AppendInt(append(line, ' '), info.Size(), 10)
		line = strconv.AppendInt(append(line, ' '), info.ModTime().UnixNano(), 10)
		line = strconv.AppendUint(append(line, ' '), is.device, 10)
		line = strconv.AppendUint(append(line, ' '), is.inode, 10)
		line = strconv.AppendInt(append(line, ' '), int64(is.change), 10)
		sum.Write(append(line, '\n'))
	}
	info, err := os.Lstat(s.blob(layer.Digest.String()))
	if err != nil {
		return "", 0, unread("its layer", err)
	}
	write("", info)
	err = filepath.WalkDir(files, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		write(path[len(files):], info)
		return nil
	})
	if err != nil {
		return "", 0, unread("the unpacked copy", err)
	}
	return s.startOfMachine() + " " + hex.EncodeToString(sum.Sum(nil)) + "\n", last, nil
}

// known reports whether a copy, and the blob that it was made of, are as they were when all
// of them was read.
func (s *Store) known(digest string, layer v1.Descriptor) bool {
	at := filepath.Join(s.copyOf(digest), fingerprintName)
	info, err := os.Lstat(at)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 1024 || s.startOfMachine() == "" {
		return false
	}
	was, err := os.ReadFile(at)
	if err != nil {
		return false
	}
	is, _, err := s.fingerprint(filepath.Join(s.copyOf(digest), filesName), layer)
	return err == nil && is == string(was)
}

// settle waits until the clock of the file system has gone on, and returns what it shows: what
// changes from now on has a time that no earlier change has.
func (s *Store) settle(ctx context.Context, in *workspace) (time.Duration, error) {
	f, err := os.OpenFile(in.path("clock"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // nothing is written
	var first time.Duration
	for i := 0; ; i++ {
		if err := f.Chmod(0o600); err != nil {
			return 0, err
		}
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		now := stateOf(info).change
		if i == 0 {
			first = now
		}
		if now != first || s.startOfMachine() == "" { // without, no fingerprint is trusted
			return now, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// record keeps the fingerprint of a copy that was found to be right after the clock showed
// settled; unless something of it changed since then. It need not be durable.
func (s *Store) record(in *workspace, dir string, layer v1.Descriptor, settled time.Duration) error {
	print, last, err := s.fingerprint(filepath.Join(dir, filesName), layer)
	if err != nil || last >= settled {
		return err
	}
	if err := os.WriteFile(in.path(fingerprintName), []byte(print), 0o600); err != nil {
		return err
	}
	return unread("the unpacked copy", os.Rename(in.path(fingerprintName), filepath.Join(dir, fingerprintName))) // others may remove it
}
