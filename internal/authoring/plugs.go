package authoring

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/deployster-go/deployster/engine"
)

// mostFiles is how many files of plugs are looked at.
const mostFiles = 10_000

// files is what is in the plugs: what each file and directory is, by its path, but for what
// Deployster keeps there, which changes while it asks. It is nil
// where that is not known: on another machine, and of plugs with too much in them.
func (c *checker) files() map[string]string {
	if c.Workspace == "" {
		return nil
	}
	found := map[string]string{}
	kept := c.kept()
	for _, m := range c.mounts {
		err := filepath.WalkDir(m.Source, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if slices.ContainsFunc(kept, func(dir fs.FileInfo) bool { return os.SameFile(dir, info) }) {
				return fs.SkipDir
			}
			if len(found) == mostFiles {
				return fs.SkipAll
			}
			found[path] = fmt.Sprint(info.Mode(), info.Size())
			if !info.IsDir() {
				found[path] += info.ModTime().String()
			}
			return nil
		})
		if err != nil {
			return nil
		}
	}
	if len(found) >= mostFiles {
		return nil
	}
	return found
}

// kept are the directories of Deployster: that of the workspace, and the cache of its user.
func (c *checker) kept() (dirs []fs.FileInfo) {
	paths := []string{filepath.Join(c.Workspace, engine.StateDir)}
	if cache, err := os.UserCacheDir(); err == nil {
		paths = append(paths, filepath.Join(cache, "deployster"))
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			dirs = append(dirs, info)
		}
	}
	return dirs
}

// changed is the first path at which plugs are not what they were; "" is none.
func changed(before, after map[string]string) string {
	if before == nil || after == nil {
		return ""
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if before[path] != after[path] && (before[path] == "" || after[path] == "" || before[path][0] != 'd') {
			return path
		}
	}
	return ""
}
