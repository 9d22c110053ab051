package file

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/deployster-go/deployster/protocol"
)

func (t *target) makeParents() error {
	parent := filepath.Dir(t.path)
	if parent == "." {
		return nil
	}
	if err := t.root.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("creating directory %s: %w", parent, err)
	}
	return nil
}

// writeFile puts the content in place. A file that was there before keeps its
// owner, and its mode unless the configuration says which.
func (t *target) writeFile(r protocol.Request[Config]) error {
	if err := t.makeParents(); err != nil {
		return err
	}
	mode, owner := t.mode, -1
	group := -1
	if info, err := t.root.Lstat(t.path); err == nil && info.Mode().IsRegular() {
		if !t.hasMode {
			mode = info.Mode()
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			owner, group = int(s.Uid), int(s.Gid)
		}
	}
	// One name per path: what an interrupted run left there is overwritten.
	sum := sha256.Sum256([]byte(t.path))
	temp := filepath.Join(filepath.Dir(t.path), ".deployster-"+hex.EncodeToString(sum[:6]))
	if err := t.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what an interrupted run left: %w", err)
	}
	if err := t.writeNew(temp, mode, owner, group); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", t.path, err), ignoreMissing(t.root.Remove(temp)))
	}
	if err := t.root.Rename(temp, t.path); err != nil {
		return errors.Join(fmt.Errorf("putting %s in place: %w", t.path, err), ignoreMissing(t.root.Remove(temp)))
	}
	if err := t.sync(filepath.Dir(t.path)); err != nil {
		return err
	}
	r.Sayf("wrote %s (%d bytes, mode %s)", t.path, len(*t.config.Content), octal(mode))
	return nil
}

func (t *target) writeNew(path string, mode fs.FileMode, owner, group int) error {
	f, err := t.root.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(*t.config.Content)
	if err == nil && owner >= 0 {
		// Only the superuser may give files away; anybody else is the owner already.
		if e := f.Chown(owner, group); e != nil && !errors.Is(e, fs.ErrPermission) {
			err = e
		}
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// sync makes a rename within a directory durable.
func (t *target) sync(directory string) error {
	d, err := t.root.Open(directory)
	if err != nil {
		return fmt.Errorf("opening directory %s: %w", directory, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("making %s durable: %w", t.path, err)
	}
	return nil
}

func (t *target) makeDirectory(r protocol.Request[Config]) error {
	if err := t.makeParents(); err != nil {
		return err
	}
	if err := t.root.Mkdir(t.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating directory %s: %w", t.path, err)
	}
	return t.changeMode(r)
}

func (t *target) changeMode(r protocol.Request[Config]) error {
	if err := t.root.Chmod(t.path, t.mode); err != nil {
		return fmt.Errorf("changing the mode of %s: %w", t.path, err)
	}
	r.Sayf("%s has mode %s", t.path, octal(t.mode))
	return nil
}

// replace puts the wanted kind of thing where another is.
func (t *target) replace(r protocol.Request[Config]) error {
	f, err := t.inspect()
	if err != nil {
		return err
	}
	if t.config.Directory {
		if f != nil && f.Kind != "directory" {
			if err := t.remove(r); err != nil {
				return err
			}
		}
		return t.makeDirectory(r)
	}
	if f != nil && f.Kind == "directory" { // a rename replaces anything but a directory
		if err := t.remove(r); err != nil {
			return err
		}
	}
	return t.writeFile(r)
}

func (t *target) remove(r protocol.Request[Config]) error {
	err := t.root.Remove(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("directory %s is not empty; what is in it must be removed first", t.path)
	case err != nil:
		return fmt.Errorf("removing %s: %w", t.path, err)
	}
	r.Sayf("removed %s", t.path)
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
