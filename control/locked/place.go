package locked

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/deployster-go/deployster/internal/filelock"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/manifest"
)

// Place has the workspace hold the files of the modules that a lock has, as they are locked, and those of
// no others. They are fetched where the cache does not have them, which open opens; lock may be nil.
//
// Processes of a workspace may do so at once. Whoever finds all in order waits for nobody; who has
// something to change takes a lock. Whoever opens a file of a module meanwhile finds what it was,
// or what it is now; whoever reads several of them may find some of each.
func Place(ctx context.Context, workspace string, lock *lockfile.File, open func() (*modulesource.Cache, error)) error {
	p := placing{dir: filepath.Join(workspace, filepath.FromSlash(manifest.RemoteModules)), from: map[string]module{}}
	if err := p.find(ctx, workspace, lock, open); err != nil {
		return err
	}
	if info, err := os.Lstat(p.dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("placing modules: %s is a link, and what does not belong there would be removed from what it leads to: remove the link", p.dir)
	}
	if p.complete() {
		return p.tidy()
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	lockFile, err := p.lockFile()
	if err != nil {
		return fmt.Errorf("placing modules: %w", err)
	}
	held, err := filelock.Acquire(ctx, lockFile, filelock.Exclusive)
	if err != nil {
		return fmt.Errorf("placing modules: %w", err)
	}
	defer held.Release()
	return errors.Join(p.clear(), p.all()) // in this order: what is replaced stays until the next command, for whoever just opens it
}

// module is one that is to be placed.
type module struct{ source, files string }

// placing is what the directory of the modules is to have.
type placing struct {
	dir  string
	from map[string]module // by the names in the directory
}

// find finds where the cache has the modules of a lock.
func (p *placing) find(ctx context.Context, workspace string, lock *lockfile.File, open func() (*modulesource.Cache, error)) error {
	if lock == nil || len(lock.Modules) == 0 {
		return nil
	}
	cache, err := open()
	if err != nil {
		return fmt.Errorf("opening the cache of modules: %w", err)
	}
	if err := cache.Remember(workspace); err != nil {
		return err
	}
	for _, source := range slices.Sorted(maps.Keys(lock.Modules)) {
		s, err := modulesource.Parse(source)
		if err != nil {
			return fmt.Errorf("%s: %w", lockfile.Name, err)
		}
		files, err := cache.Directory(ctx, s, modulesource.Pin(lock.Modules[source]))
		if err != nil {
			return err
		}
		p.from[filepath.Base(manifest.RemoteDir(source))] = module{source, files}
	}
	return nil
}

// complete reports whether all modules are placed.
func (p *placing) complete() bool {
	for name, m := range p.from {
		if !same(m.files, filepath.Join(p.dir, name)) {
			return false
		}
	}
	return true
}

// left are the names of what does not belong there: modules that are not locked any more, and what
// processes that died have left, or others make just now.
func (p *placing) left() (names []string) {
	found, _ := os.ReadDir(p.dir) // what cannot be listed cannot be removed, or is not there
	for _, f := range found {
		if _, placed := p.from[f.Name()]; !placed {
			names = append(names, f.Name())
		}
	}
	return names
}

// tidy removes what does not belong there, unless another process is at it.
func (p *placing) tidy() error {
	if p.left() == nil {
		return nil
	}
	lockFile, err := p.lockFile()
	if err != nil {
		return fmt.Errorf("removing modules that are not locked any more: %w", err)
	}
	held, err := filelock.Try(lockFile, filelock.Exclusive)
	if err != nil || held == nil {
		return err
	}
	defer held.Release()
	return p.clear()
}

// lockFile is the file beside the directory whose lock those take who change something in it. Directories
// themselves cannot be locked on every file system.
func (p *placing) lockFile() (path string, err error) {
	path = p.dir + ".lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return "", err
	}
	return path, f.Close()
}

// clear removes what does not belong there. It takes the lock: else it could be what another process makes.
func (p *placing) clear() (err error) {
	for _, name := range p.left() {
		err = errors.Join(err, os.RemoveAll(filepath.Join(p.dir, name)))
	}
	return err
}

// all places the modules that are not placed. It takes the lock.
func (p *placing) all() error {
	for name, m := range p.from {
		to := filepath.Join(p.dir, name)
		if same(m.files, to) {
			continue // by now
		}
		if err := replace(m.files, to); err != nil {
			return fmt.Errorf("placing module %s: %w", m.source, err)
		}
	}
	return nil
}

// replace makes a directory have the content of another one, at once. What was there stays beside it
// until the next command of the workspace, which removes it also from under whoever still goes through it.
// On a file system that cannot exchange directories there is none for a moment, and also after a kill,
// until the next placing; there is never a part of one.
func replace(from, to string) error {
	fresh, err := os.MkdirTemp(filepath.Dir(to), "new-")
	if err != nil {
		return err
	}
	files := filepath.Join(fresh, "files")
	if err := os.CopyFS(files, os.DirFS(from)); err != nil {
		return err // the next placing removes it
	}
	if exchange(files, to) == nil {
		return nil
	}
	if err := os.Rename(to, filepath.Join(fresh, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(files, to); err != nil {
		return err
	}
	_ = os.Remove(fresh) // unless it has what was there
	return nil
}
