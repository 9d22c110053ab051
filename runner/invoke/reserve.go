package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// maxAge is since the start of a process that is kept for another run. Its container has
// the /etc/hosts and /etc/resolv.conf that its host had then, and what runs leave in it
// adds up.
const maxAge = 10 * time.Minute

// Reserve keeps processes that serve from one run to the next: where many runs of one
// kind follow each other, as the steps of a pipeline do, starting a container for each
// would cost more than all else. A process is of one run at a time, and goes to one
// that would start the same: the same image, plugs and bounds. Its container belongs to
// the reserve, and carries the id of that as its run's. So it is for engines whose
// containers end with this process (engine.Info.Tied): after that no run has to look for
// a process that may still be at work.
type Reserve struct {
	owner   string // the id of a run, as which it is in the log while it is open
	dir     string // of the work directories
	most    int    // how many are kept
	crashed func(*crash.Error)
	views   engine.Views

	mu      sync.Mutex
	kept    map[string][]*process // those that no run has, by what they were started with
	known   map[*process]place    // all that have not ended
	origins map[string]*origin    // of questions that can be asked again
	idle    int                   // how many are kept
	count   int                   // of processes so far; numbers their directories
	touched time.Time             // the time that the directory was given
	closed  bool
}

// given is what a process is started with.
type given struct {
	key  string      // all that can be said
	view engine.View // and what its mounts lead to
}

// place is what a process was started with and when, and its work directory.
type place struct {
	given
	started time.Time
	work    string
}

// NewReserve returns a reserve of at most so many processes, which is a run by that
// id, to others at least as alive as it, with a directory of its own. crashed receives
// the panics that no run can report.
func NewReserve(owner, dir string, most int, crashed func(*crash.Error)) *Reserve {
	return &Reserve{owner: owner, dir: dir, most: most, crashed: crashed, kept: map[string][]*process{}, known: map[*process]place{}, origins: map[string]*origin{}}
}

// given is what the processes of a server are started with at present. It fails where
// they could not be.
func (s *server) given(image engine.Image) (given, error) {
	c := &s.invoker.containers
	if err := os.MkdirAll(c.StateDir(), 0o700); err != nil { // as where one is started
		return given{}, fmt.Errorf("making the directory that no type sees: %w", err)
	}
	view, err := s.view(s.views())
	if err != nil {
		return given{}, err
	}
	key, err := json.Marshal([]any{s.key, image.ID, c.Log, c.Workspace, c.Network, c.Memory, c.Pids})
	return given{string(key), view}, err
}

// view is what the mounts of the processes of a server lead to at present, which nobody knows here
// of an engine that is elsewhere: its mounts may be no paths of this machine.
func (s *server) view(views *engine.Views) (engine.View, error) {
	c := &s.invoker.containers
	if c.Remote {
		return engine.View{}, nil
	}
	return views.Of(s.seen())
}

// seen are the paths of this machine that the processes of a server see.
func (s *server) seen() []string {
	c := &s.invoker.containers
	paths := []string{c.Workspace, c.StateDir()}
	for _, m := range s.mounts {
		paths = append(paths, m.Source)
	}
	return paths
}

// invoker runs the containers of processes, whichever run they are for.
func (r *Reserve) invoker(v *Invoker) *Invoker {
	containers := v.containers
	containers.Run, containers.Work = r.owner, r.dir
	secrets := &Secrets{}
	return &Invoker{containers: containers, secrets: secrets, panics: NewPanics(secrets, r.crashed)}
}

// admit makes a process that is about to be started one that may be kept, and returns
// what its work directory begins with.
func (r *Reserve) admit(p *process, g given, name string, now time.Time) (path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used(now)
	r.count++
	path = filepath.Join(r.dir, servedDir, fmt.Sprintf("%02d-%s", r.count, name))
	r.known[p] = place{g, now, path + workSuffix}
	p.gone = func() { r.forget(p) }
	return path
}

// take gives a run a process that was kept, nil where there is none. One that sees what
// paths led to before is ended.
func (r *Reserve) take(g given, v *Invoker, transcript string) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		kept := r.kept[g.key]
		if len(kept) == 0 {
			return nil
		}
		p := kept[len(kept)-1]
		r.drop(g.key, len(kept)-1)
		if !p.view.Same(g.view) {
			p.close()
		}
		if p.assign(v, transcript) { // else it is about to end
			return p
		}
	}
}

// put keeps a process that a run does not need any more, if it can be kept. Nothing of
// that run is left in its work directory.
func (r *Reserve) put(p *process, now time.Time) bool {
	r.mu.Lock()
	at, admitted := r.known[p]
	full := r.closed || r.idle >= r.most
	r.mu.Unlock()
	if !admitted || full || now.Sub(at.started) > maxAge || empty(at.work) != nil || !p.rest() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, alive := r.known[p]; !alive || r.closed || r.idle >= r.most {
		return false
	}
	r.kept[at.key] = append(r.kept[at.key], p)
	r.idle++
	r.used(now)
	return true
}

// used gives the directory the time of now, once a minute. To who collects what old runs
// left on another log, which does not know whether the reserve is open, only that tells
// that it is not old. r.mu is held.
func (r *Reserve) used(now time.Time) {
	if since := now.Sub(r.touched); since >= 0 && since < time.Minute {
		return
	}
	if os.Chtimes(r.dir, now, now) == nil { // it may not be there yet
		r.touched = now
	}
}

// forget lets go of a process that has ended.
func (r *Reserve) forget(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.known[p]
	delete(r.known, p)
	if i := slices.Index(r.kept[at.key], p); i >= 0 {
		r.drop(at.key, i)
	}
	_ = os.RemoveAll(at.work) // at worst it stays
}

// drop takes a process out of those that are kept; r.mu is held.
func (r *Reserve) drop(key string, i int) {
	r.idle--
	if r.kept[key] = slices.Delete(r.kept[key], i, i+1); len(r.kept[key]) == 0 {
		delete(r.kept, key)
	}
}

// Close ends what is kept, at once when ctx is done, and keeps nothing more. No run may
// be left.
func (r *Reserve) Close(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	var all []*process
	for _, kept := range r.kept {
		all = append(all, kept...)
	}
	r.mu.Unlock()
	for _, p := range all {
		p.close()
	}
	for _, p := range all {
		p.wait(ctx)
	}
	r.views.Close()
	_ = os.RemoveAll(r.dir) // nothing in it is anybody's any more
}

// empty removes what is in a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// assign makes the process that of a run, whose transcript has that path, and reports
// whether it can still be asked.
func (p *process) assign(v *Invoker, path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.retired != nil || p.closing {
		return false
	}
	p.invoker, p.tail, p.transcript = v, Tail{}, transcript{path: path}
	p.stderr = &lines{secrets: v.secrets, each: func(line string) {
		p.tail.add("stderr", line)
		p.transcript.write(line + "\n")
	}}
	return true
}

// rest takes the process from its run, and reports whether it can be another's: it
// has answered all it was asked, and said nothing else. Nor may anything in it have
// failed: the process may be why, and whoever tries again is to get another.
func (p *process) rest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.retired != nil || p.failed || p.closing || len(p.open) > 0 || len(p.line) > 0 {
		return false
	}
	if p.keepOutput() != nil {
		return false
	}
	p.invoker, p.stderr = p.home, nil
	return true
}

// keepOutput ends the transcript of the process for its run; p.mu is held.
func (p *process) keepOutput() error {
	if p.stderr == nil {
		return nil
	}
	return p.invoker.panics.Try("keeping its output", func() error {
		p.stderr.flush()
		_ = p.transcript.close() // what is kept of it is of help, and nothing is lost without
		return nil
	})
}

// processErrors takes what the process writes on its stderr. What it writes while no run
// has it is nobody's.
type processErrors struct{ *process }

func (p processErrors) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stderr == nil {
		return len(data), nil
	}
	return p.stderr.Write(data)
}
