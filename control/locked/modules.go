package locked

import (
	"context"
	"os"
	"path/filepath"
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
