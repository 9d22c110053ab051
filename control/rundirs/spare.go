package rundirs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/deployster-go/deployster/control/gc"
)

// spareDirs are the directories of runs whose files are not kept any more, one for each
// place. The next run in the place writes into the files that are there, which are empty
// by then: to make a file and remove it again can cost a file system many times as much as
// to write one, and a run of a pipeline makes more of them than it does anything else.
type spareDirs struct {
	in string // in which they lie; "" keeps none

	mu    sync.Mutex
	by    map[string]string // by place
	count int               // so far; numbers them
}

// put makes the directory of a run that is over a spare one, or removes it. The run has
// none from then on.
func (s *spareDirs) put(place, dir string) {
	if s.in == "" {
		_ = gc.RemoveRun(dir) // at worst it stays
		return
	}
	s.mu.Lock()
	s.count++
	spare, had := filepath.Join(s.in, fmt.Sprint(s.count)), s.by[place]
	s.mu.Unlock()
	if had != "" || os.MkdirAll(s.in, 0o700) != nil || os.Rename(dir, spare) != nil {
		_ = gc.RemoveRun(dir)
		return
	}
	if emptied(spare) != nil {
		_ = os.RemoveAll(spare) // so does this, until the controller ends
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]string{}
	}
	if s.by[place] != "" { // another run of the place ended meanwhile
		_ = os.RemoveAll(spare)
		return
	}
	s.by[place] = spare
}

// take makes a spare directory that of a run, which has none yet, and reports whether
// there was one.
func (s *spareDirs) take(place, dir string) bool {
	s.mu.Lock()
	spare := s.by[place]
	delete(s.by, place)
	s.mu.Unlock()
	if spare == "" {
		return false
	}
	if os.Rename(spare, dir) != nil {
		_ = os.RemoveAll(spare)
		return false
	}
	return true
}

// emptied leaves the files of a run's calls empty, and nothing else: a directory for each
// resource, with files of ours.
func emptied(run string) error {
	return eachFile(run, func(path string, entry fs.DirEntry) error {
		info, err := entry.Info()
		switch {
		case err != nil:
			return err
		case !ours(info):
			return os.RemoveAll(path)
		case info.Size() == 0:
			return nil
		default:
			return os.Truncate(path, 0)
		}
	})
}

// ours reports whether a file is as runs make them: nobody has it by another name, to
// keep what is in it.
func ours(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return known && info.Mode() == 0o600 && stat.Nlink == 1
}

// trim removes what a run has of a spare directory and did not write.
func trim(run string) error {
	return eachFile(run, func(path string, entry fs.DirEntry) error {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
			return err
		}
		return os.Remove(path)
	})
}

// eachFile has something done with what is in the directory of a run and in those of its
// resources, and removes of these in which there is nothing then.
func eachFile(run string, do func(path string, entry fs.DirEntry) error) error {
	resources, err := os.ReadDir(run)
	if err != nil {
		return err
	}
	for _, r := range resources {
		dir := filepath.Join(run, r.Name())
		if !r.IsDir() {
			err = errors.Join(err, do(dir, r))
			continue
		}
		entries, failed := os.ReadDir(dir)
		err = errors.Join(err, failed)
		for _, entry := range entries {
			err = errors.Join(err, do(filepath.Join(dir, entry.Name()), entry))
		}
		_ = os.Remove(dir) // fails unless it is empty
	}
	return err
}
