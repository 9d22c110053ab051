package locked

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/manifest"
)

// Modules locks the modules elsewhere that manifests call, and those that these call, whether
// or not they are in directories of the workspace themselves.
func (u *Update) Modules(ctx context.Context, cache *modulesource.Cache, workspace string, sources ...manifest.Source) error {
	w := walk{u, cache, map[string]bool{}, nil}
	for _, source := range sources {
		w.manifest(ctx, workspace, workspace, source)
	}
	if len(w.problems) > 0 && ctx.Err() == nil {
		return &manifest.Error{Problems: w.problems}
	}
	return context.Cause(ctx)
}

// Module locks a module.
func (u *Update) Module(ctx context.Context, cache *modulesource.Cache, source string) (dir string, err error) {
	s, err := modulesource.Parse(source)
	if err != nil {
		return "", err
	}
	was, known := u.Lock.Modules[source]
	if !u.used[source] && (!known || u.Upgrade(source)) {
		pin, err := cache.Resolve(ctx, s)
		if err != nil {
			return "", err
		}
		is := lockfile.Module(pin)
		u.note("module", source, was.Content(), is.Content())
		u.Lock.Modules[source] = is
	}
	u.use(source)
	return cache.Directory(ctx, s, modulesource.Pin(u.Lock.Modules[source]))
}

// walk follows calls of modules.
type walk struct {
	*Update
	cache    *modulesource.Cache
	seen     map[string]bool // directories
	problems []manifest.Problem
}

// manifest follows the calls of a manifest in a directory; root is what it is not left for.
func (w *walk) manifest(ctx context.Context, root, dir string, source manifest.Source) {
	for _, c := range manifest.Called(source) {
		called, within := filepath.Join(dir, filepath.FromSlash(c.Source)), root
		if manifest.Remote(c.Source) {
			at, err := w.Module(ctx, w.cache, c.Source)
			if err == nil {
				_, err = os.Stat(filepath.Join(at, manifest.ModuleFile))
			}
			if err != nil {
				w.problems = append(w.problems, manifest.Problem{Position: c.Position, Path: "modules." + c.Module + ".source", Message: strings.Join(strings.Fields(err.Error()), " ")})
				continue
			}
			called, within = at, at
		}
		if below, err := filepath.Rel(within, called); err != nil || !filepath.IsLocal(below) || w.seen[called] {
			continue // what leads out is for the loader to refuse
		}
		w.seen[called] = true
		if found, err := manifest.ReadFiles([]string{filepath.Join(called, manifest.ModuleFile)}); err == nil {
			w.manifest(ctx, within, called, found[0])
		}
	}
}

// Place has the workspace hold the files of the modules that a lock has, as they are locked, and those of
// no others. They are fetched where the cache does not have them, which open opens; lock may be nil.
func Place(ctx context.Context, workspace string, lock *lockfile.File, open func() (*modulesource.Cache, error)) error {
	if lock == nil {
		lock = &lockfile.File{}
	}
	places := map[string]bool{}
	if len(lock.Modules) > 0 {
		cache, err := open()
		if err != nil {
			return fmt.Errorf("opening the cache of modules: %w", err)
		}
		for _, source := range slices.Sorted(maps.Keys(lock.Modules)) {
			s, err := modulesource.Parse(source)
			if err != nil {
				return fmt.Errorf("%s: %w", lockfile.Name, err)
			}
			from, err := cache.Directory(ctx, s, modulesource.Pin(lock.Modules[source]))
			if err != nil {
				return err
			}
			at := manifest.RemoteDir(source)
			places[filepath.Base(at)] = true
			if err := mirror(from, filepath.Join(workspace, filepath.FromSlash(at))); err != nil {
				return fmt.Errorf("placing module %s: %w", source, err)
			}
		}
	}
	return clear(filepath.Join(workspace, filepath.FromSlash(manifest.RemoteModules)), places)
}

// clear removes all of a directory but some names.
func clear(dir string, but map[string]bool) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range found {
		if !but[f.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
	return err
}

// mirror makes a directory have the content of another one, unless it has.
func mirror(from, to string) error {
	want, err := sum(from)
	if err != nil {
		return err
	}
	if has, err := sum(to); err == nil && has == want {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(to), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // the next placing removes it
	if err := os.CopyFS(filepath.Join(fresh, "files"), os.DirFS(from)); err != nil {
		return err
	}
	if err := os.Rename(to, filepath.Join(fresh, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(filepath.Join(fresh, "files"), to)
}

// sum is of all names and contents of a directory.
func sum(dir string) (string, error) {
	all := sha256.New()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%q %v\n", name, d.Type())
		switch d.Type() {
		case fs.ModeDir:
			return nil
		case fs.ModeSymlink:
			target, err := root.Readlink(name)
			fmt.Fprintf(all, "%q\n", target)
			return err
		case 0:
			file, err := root.Open(name)
			if err != nil {
				return err
			}
			one := sha256.New()
			_, err = io.Copy(one, file)
			fmt.Fprintf(all, "%x\n", one.Sum(nil))
			return errors.Join(err, file.Close())
		default:
			return fmt.Errorf("%s is no file, link or directory", name)
		}
	})
	return string(all.Sum(nil)), err
}
