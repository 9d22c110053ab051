package invoke

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/deployster-go/deployster/internal/diskuse"
	"github.com/deployster-go/deployster/internal/phrase"
)

// DefaultMaxWork is how many bytes the calls of one run may have left in its directory when it begins
// another resource, unless it says otherwise.
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
	bytes := diskuse.Tree(os.DirFS(dir), ".")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dirs == nil {
		l.dirs = map[string]int64{}
	}
	l.dirs[dir] = bytes
}

// sum returns how much all have left, and the work directory that has more than half of it, if one
// that calls share has.
func (l *leftBytes) sum() (sum int64, most string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum = l.calls
	for _, bytes := range l.dirs {
		sum += bytes
	}
	for dir, bytes := range l.dirs {
		if bytes > sum/2 {
			most = dir
		}
	}
	return sum, most
}

// count adds what a call has left that is over.
func (v *Invoker) count(p *pendingCall) {
	bytes := int64(p.transcripts[0].size) + int64(p.transcripts[1].size) + p.inputSize
	if !v.containers.Remote {
		bytes += diskuse.Tree(os.DirFS(p.path+workSuffix), ".")
	}
	v.left.add(bytes)
}

// MayBegin refuses to begin another resource if the run has left more than it may. All calls of one that
// was begun are made: without them it may be destroyed and not created, or created and not verified.
func (v *Invoker) MayBegin() error {
	most := cmp.Or(v.containers.MaxWork, DefaultMaxWork)
	sum, shared := v.left.sum()
	if sum <= most {
		return nil
	}
	dir := v.containers.Work
	if rel, err := filepath.Rel(dir, shared); shared != "" && (err != nil || !filepath.IsLocal(rel)) {
		dir = shared // of a process that is kept for other runs
	}
	if rel, err := filepath.Rel(v.containers.Workspace, dir); err == nil && filepath.IsLocal(rel) {
		dir = rel
	}
	return fmt.Errorf("run %s has left %s in %s%c, more than the %s of --max-work, and begins no other resource: have its programs write less there, or allow more with --max-work",
		v.containers.Run, phrase.Size(sum), dir, os.PathSeparator, phrase.Size(most))
}
