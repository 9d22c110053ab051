package gc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/diskuse"
)

// unknownAge is how long what a run left that the log does not know stays at least: it
// may be of another log, whose locks do not tell whether it is alive.
const unknownAge = 7 * 24 * time.Hour

// workName is the directory of what runs leave, below that of the state.
const workName = "work"

// removedPrefix begins the name of what is being removed: no run is named so.
const removedPrefix = ".removed-"

// work removes what old runs left.
func (c *Collector) work(ctx context.Context) (Removed, error) {
	r := Removed{Kind: Work}
	root, err := os.OpenRoot(filepath.Join(c.Dir, workName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("removing what runs left: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened for reading
	old, kept, err := c.oldRuns(root)
	if err != nil {
		return r, err
	}
	all := slices.Concat(old, kept)
	excess, known := c.excess(root, all)
	r.more = !known
	if len(old) == 0 && excess <= 0 {
		return r, nil
	}
	w := workRemoval{Collector: c, root: root, over: c.timer(), removed: &r}
	if w.last, err = runs.Last(ctx, c.Log, KeptRuns); err != nil {
		return r, err
	}
	for i := range old {
		removed, stop, err := w.remove(ctx, &all[i], w.last)
		if stop || err != nil {
			return r, errors.Join(err, w.failed.err())
		}
		if all[i].run != "" { // else it was not counted
			excess -= removed
		}
	}
	if excess > 0 && known {
		err = w.shrink(ctx, all, len(old), excess)
	}
	return r, errors.Join(err, w.failed.err())
}

// workRemoval removes what runs left.
type workRemoval struct {
	*Collector
	root    *os.Root
	over    func() bool
	last    map[string]bool // runs of each target
	removed *Removed
	failed  failures
}

// remove removes what a run left unless it is needed, and returns its bytes. stop is true if no more may
// be removed at present.
func (w *workRemoval) remove(ctx context.Context, d *directory, last map[string]bool) (bytes int64, stop bool, err error) {
	r := w.removed
	if w.most > 0 && r.Count >= w.most || w.over() {
		r.more = true
		return 0, true, nil
	}
	if ctx.Err() != nil {
		return 0, true, fmt.Errorf("removing what runs left: %w", ctx.Err())
	}
	needed, err := w.needed(ctx, *d, last)
	if err != nil || needed {
		return 0, err != nil, err
	}
	if d.bytes == 0 {
		d.bytes = diskuse.Tree(w.root.FS(), d.name)
	}
	d.tried = true
	if !w.DryRun {
		if err := remove(w.root, d.name); err != nil {
			w.failed.add(err)
			return 0, false, nil
		}
	}
	r.Count, r.Bytes = r.Count+1, r.Bytes+d.bytes
	r.used(d.used)
	return d.bytes, false, nil
}

// shrink removes runs, oldest first, until all have so many bytes less: those that nothing else keeps,
// and then of the last of each target all but the last. The old ones come first in all: of these, no
// others than the last of each target are left.
func (w *workRemoval) shrink(ctx context.Context, all []directory, old int, excess int64) error {
	newest, err := runs.Last(ctx, w.Log, 1)
	if err != nil {
		return err
	}
	for _, pass := range []struct {
		of   []directory
		last map[string]bool
	}{{all[old:], w.last}, {all, newest}} {
		for i := range pass.of {
			d := &pass.of[i]
			if excess <= 0 {
				return nil
			}
			if d.tried {
				continue
			}
			removed, stop, err := w.remove(ctx, d, pass.last)
			if stop || err != nil {
				return err
			}
			excess -= removed
		}
	}
	return nil
}

// timer returns a function that reports whether mostTime has passed since.
func (c *Collector) timer() (over func() bool) {
	if c.mostTime <= 0 {
		return func() bool { return false }
	}
	end := c.clock().Add(c.mostTime)
	return func() bool { return c.clock().After(end) }
}

// measured is how much a run has left that was over when it was measured.
type measured struct {
	Used  time.Time `json:"used"`
	Bytes int64     `json:"bytes"`
}

// excess measures the directories of runs, and returns by how much all exceed MaxWork. known is false if
// there was no time to measure all. The next call goes on: it measures again only what was used since.
func (c *Collector) excess(root *os.Root, all []directory) (bytes int64, known bool) {
	if c.MaxWork <= 0 {
		return 0, true
	}
	path := filepath.Join(c.Dir, sizesName)
	var before map[string]measured
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, &before) // at worst all is measured again
	}
	now := make(map[string]measured, len(all))
	known = true
	for i, over := 0, c.timer(); i < len(all); i++ {
		d := &all[i]
		if d.run == "" {
			continue // it goes in any case
		}
		m, ok := before[d.name]
		if ok = ok && m.Used.Equal(d.used); !ok {
			if known = known && !over(); !known {
				continue // what is known of later ones is kept
			}
			ok = !runs.Alive(c.Log, d.run)
			m = measured{d.used, diskuse.Tree(root.FS(), d.name)}
		}
		if ok {
			now[d.name] = m
		}
		d.bytes = m.Bytes
		bytes += m.Bytes
	}
	if text, err := json.Marshal(now); err == nil && !c.DryRun {
		_ = atomicfile.WriteFile(path, text) // at worst all is measured again
	}
	if !known {
		return 0, false
	}
	return bytes - c.MaxWork, true
}

// directory is what a run left.
type directory struct {
	name string
	run  string // "" of what another process began to remove
	used time.Time

	bytes int64 // as far as it was measured
	tried bool  // it was removed, or cannot be
}

// oldRuns returns the directories of runs that were not used since Before, and the oldest of
// those that are too many, oldest first, and then what another process did not remove to
// the end: it may be what cannot be removed, which is not to take the time of the rest.
// kept are the other runs, oldest first. All else that lies there is not ours to remove.
func (c *Collector) oldRuns(root *os.Root) (remove, kept []directory, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, nil, fmt.Errorf("looking for what runs left: %w", err)
	}
	var all, begun []directory
	for _, e := range entries {
		d := directory{name: e.Name(), run: e.Name()}
		if rest, removed := strings.CutPrefix(d.name, removedPrefix); removed {
			d.run = rest
		}
		id, err := ulid.ParseStrict(d.run)
		if err != nil || id.String() != d.run || !e.IsDir() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removed it
		}
		if err != nil {
			return nil, nil, fmt.Errorf("looking for what runs left: %w", err)
		}
		d.used = info.ModTime()
		if began := ulid.Time(id.Time()); began.After(d.used) {
			d.used = began
		}
		if d.run != d.name {
			begun = append(begun, directory{name: d.name})
			continue
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b directory) int { return a.used.Compare(b.used) })
	old := 0
	for old < len(all) && (all[old].used.Before(c.Before) || c.mostLeft > 0 && len(all)-old > c.mostLeft) {
		old++
	}
	return append(slices.Clone(all[:old]), begun...), all[old:], nil
}

// needed reports whether what a run left is needed to explain what happened, or by the
// run itself.
func (c *Collector) needed(ctx context.Context, d directory, last map[string]bool) (bool, error) {
	if d.run == "" {
		return false, nil
	}
	if last[d.run] || runs.Alive(c.Log, d.run) {
		return true, nil
	}
	known, ended, err := runs.Ended(ctx, c.Log, d.run)
	if err != nil {
		return true, err
	}
	return known && !ended || !known && c.Now.Sub(d.used) < unknownAge, nil
}

// remove removes a directory, which is gone at once.
func remove(root *os.Root, name string) error {
	removed := name
	if !strings.HasPrefix(name, removedPrefix) {
		removed = removedPrefix + name
		if err := root.Rename(name, removed); err != nil {
			return err
		}
	}
	return root.RemoveAll(removed)
}

// RemoveRun removes the directory of a run that is over, which is gone at once.
func RemoveRun(dir string) error {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	return remove(root, filepath.Base(dir))
}

// failures are the errors of what could not be removed, of which the first is told.
type failures struct {
	first error
	count int
}

func (f *failures) add(err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return // another process removed it
	}
	if f.count++; f.first == nil {
		f.first = err
	}
}

func (f *failures) err() error {
	if f.count == 0 {
		return nil
	}
	return fmt.Errorf("what %d runs left could not be removed (%w): files of containers belong to the users of these, so run gc as root, or as who ran them", f.count, f.first)
}
