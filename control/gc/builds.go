package gc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/diskuse"
)

// buildsName is of the directory of what jobs of build groups leave: below the id of a group
// a log of each attempt, and in buildsWork what those need that are being done.
const (
	buildsName = "builds"
	buildsWork = "work"
)

// builds removes the logs of jobs, and what jobs left whose process died.
func (c *Collector) builds(ctx context.Context) (Removed, error) {
	r := Removed{Kind: Builds}
	root, err := os.OpenRoot(filepath.Join(c.Dir, buildsName))
	if errors.Is(err, fs.ErrNotExist) {
		return Removed{}, nil
	}
	if err != nil {
		return r, fmt.Errorf("removing what jobs left: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened for reading
	groups, err := c.groups(ctx)
	if err != nil {
		return r, fmt.Errorf("looking for build groups that are needed: %w", err)
	}
	var failed failures
	err = fs.WalkDir(root.FS(), ".", func(at string, e fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		id, ours := groupOf(at, e)
		if !ours {
			return nil
		}
		next := error(nil)
		if e.IsDir() {
			next = fs.SkipDir
		}
		info, err := e.Info()
		if err != nil || !info.ModTime().Before(c.Before) {
			return next
		}
		of, known := groups[id]
		if of.needed || !known && c.Now.Sub(info.ModTime()) < unknownAge {
			return next
		}
		bytes := diskuse.Tree(root.FS(), at)
		if !c.DryRun {
			if err := root.RemoveAll(at); err != nil {
				failed.add(err)
				return next
			}
			_ = root.Remove(path.Dir(at)) // if it was the last that is in it
		}
		r.Count, r.Bytes = r.Count+1, r.Bytes+bytes
		r.used(info.ModTime())
		return next
	})
	if err != nil {
		return r, fmt.Errorf("removing what jobs left: %w", err)
	}
	return r, failed.err()
}

// groupOf is the group that a log is of, or what is left of a job. All else is not ours.
func groupOf(at string, e fs.DirEntry) (id string, ours bool) {
	dir, name := path.Split(at)
	if dir == buildsWork+"/" {
		if i := strings.LastIndexByte(name, '~'); i > 0 { // of no group, or job, that has a log
			return strings.ReplaceAll(name[:i], "~", "/"), true
		}
	}
	attempt, isLog := strings.CutSuffix(strings.TrimSuffix(name, ".new"), ".log")
	job, number, found := strings.Cut(attempt, ".")
	if !isLog || !found || dir == "" || !e.Type().IsRegular() || !isNumber(job) || !isNumber(number) {
		return "", false
	}
	return path.Clean(dir), true
}

func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0 && strconv.Itoa(n) == text
}

// group is what counts of a build group.
type group struct {
	over   bool // it has ended
	needed bool // what its jobs left
}

// groups are the build groups that the log knows. Needed are those that have not ended, and of
// each name the last ones, and the last that built everything.
func (c *Collector) groups(ctx context.Context) (map[string]group, error) {
	var order []string
	names, ends := map[string]string{}, map[string]string{}
	for e, err := range c.Log.Read(ctx, deploylog.Filter{Target: record.GroupKind + "/"}) {
		if err != nil {
			return nil, err
		}
		id, _, ok := record.Parse(e.Target)
		if !ok {
			continue
		}
		switch e.Name {
		case record.GroupTriggered:
			order = append(order, id)
			names[id] = record.Decode[record.Triggered](e).Name
		case record.GroupFinished, record.GroupFailed, record.GroupCanceled:
			ends[id] = e.Name
		case record.GroupRetried:
			delete(ends, id)
		}
	}
	all, kept, complete := map[string]group{}, map[string]int{}, map[string]bool{}
	for i := len(order) - 1; i >= 0; i-- {
		id := order[i]
		name, end := names[id], ends[id]
		last := end == record.GroupFinished && !complete[name]
		all[id] = group{over: end != "", needed: end == "" || last || kept[name] < KeptRuns}
		complete[name] = complete[name] || last
		kept[name]++
	}
	return all, nil
}
