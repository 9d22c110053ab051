package invoke

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/deployster-go/deployster/internal/phrase"
)

// DefaultMaxWork is how many bytes the calls of one run leave in its directory, unless it says
// otherwise.
const DefaultMaxWork = 1 << 30

// leftBytes is how much the calls of a run have left. It is safe for concurrent use.
type leftBytes struct {
	mu    sync.Mutex
	calls int64            // input and output of the calls that have ended, and their work directories
	dirs  map[string]int64 // work directories of processes that serve, when they were last looked at
}

func (l *leftBytes) add(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls += bytes
}

// measure looks at a work directory that many calls share.
func (l *leftBytes) measure(dir string) {
	bytes := directorySize(dir)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dirs == nil {
		l.dirs = map[string]int64{}
	}
	l.dirs[dir] = bytes
}

func (l *leftBytes) sum() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := l.calls
	for _, bytes := range l.dirs {
		sum += bytes
	}
	return sum
}

// directorySize returns how many bytes the files in a directory have, as far as they can be read.
func directorySize(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// count adds what a call has left that is over.
func (v *Invoker) count(p *pendingCall) {
	bytes := int64(p.transcripts[0].size) + int64(p.transcripts[1].size) + p.inputSize
	if !v.containers.Remote {
		bytes += directorySize(p.path + workSuffix)
	}
	v.left.add(bytes)
}

// checkWork refuses a call whose run has left too much.
func (v *Invoker) checkWork(action string) error {
	most := cmp.Or(v.containers.MaxWork, DefaultMaxWork)
	sum := v.left.sum()
	if sum <= most {
		return nil
	}
	dir := v.containers.Work
	if rel, err := filepath.Rel(v.containers.Workspace, dir); err == nil && filepath.IsLocal(rel) {
		dir = rel
	}
	return fmt.Errorf("%s: run %s has left %s in %s%c, more than the %s that one run may: have its programs write less there, or allow more with --max-work",
		action, v.containers.Run, phrase.Size(sum), dir, os.PathSeparator, phrase.Size(most))
}
