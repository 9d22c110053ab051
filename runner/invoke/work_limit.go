package invoke

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

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

	next  map[string]time.Time // when each may be looked at again
	since map[string]bool      // those that were used since

	refused atomic.Bool // a resource, for what was left
}

// measurePause returns how long a work directory is not measured again that took so long: many calls share it, and
// each would measure what all before it have left.
func measurePause(took time.Duration) time.Duration {
	const short, share = 10 * time.Millisecond, 20
	if took < short {
		return 0
	}
	return share * took
}

func (l *leftBytes) add(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls += bytes
}

// use notes that a call has used a work directory that many calls share.
func (l *leftBytes) use(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == nil {
		l.since = map[string]bool{}
	}
	l.since[dir] = true
}

// measure looks at the work directories that were used since, if it is time for that, or in any case.
func (l *leftBytes) measure(anyway bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for dir := range l.since {
		began := time.Now()
		if began.Before(l.next[dir]) && !anyway {
			continue
		}
		if l.dirs == nil {
			l.dirs, l.next = map[string]int64{}, map[string]time.Time{}
		}
		l.dirs[dir] = diskuse.Tree(os.DirFS(dir), ".")
		l.next[dir] = time.Now().Add(measurePause(time.Since(began)))
		delete(l.since, dir)
	}
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
	v.left.measure(false)
	if excess := v.excess(); excess != "" {
		v.left.refused.Store(true)
		return fmt.Errorf("%s, and begins no other resource: have its programs write less there, or allow more with --max-work", excess)
	}
	return nil
}

// Excess says that a run that is over has left more than it may, which nothing was refused for; "" is that it has not.
func (v *Invoker) Excess() string {
	v.left.measure(true)
	if excess := v.excess(); excess != "" && !v.left.refused.Load() {
		return excess + ": have its programs write less there, or allow more with --max-work"
	}
	return ""
}

func (v *Invoker) excess() string {
	most := cmp.Or(v.containers.MaxWork, DefaultMaxWork)
	sum, shared := v.left.sum()
	if sum <= most {
		return ""
	}
	dir := v.containers.Work
	if rel, err := filepath.Rel(dir, shared); shared != "" && (err != nil || !filepath.IsLocal(rel)) {
		dir = shared // of a process that is kept for other runs
	}
	if rel, err := filepath.Rel(v.containers.Workspace, dir); err == nil && filepath.IsLocal(rel) {
		dir = rel
	}
	return fmt.Sprintf("run %s has left %s in %s%c, more than the %s of --max-work",
		v.containers.Run, phrase.Size(sum), dir, os.PathSeparator, phrase.Size(most))
}
