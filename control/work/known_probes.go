package work

import (
	"context"
	"hash/fnv"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// To probe a task its manifest is loaded with its variables, the types of its resources are
// initialized, and each is asked for its state. A healthy task is probed again and again, and all
// but the last is the same each time, for a revision does not change. So a worker keeps the
// questions of a probe that found a task healthy, with hashes of their answers, and asks them again.
//
// That can only confirm that the task is still healthy. If any answer differs, or what the
// questions were made from may have changed, they are forgotten, and the task is probed anew.

const (
	// longest is how long the questions of a probe are asked again at most; at least half of that.
	// A change that is in no input of the task goes unnoticed so long, such as of a file that its
	// revision carries.
	longest = time.Hour

	// mostBytes is how many bytes all questions may take.
	mostBytes = 64 << 20
)

// probed is what a probe was made from. It is made anew from anything else.
type probed struct {
	task   tasks.Task
	hosts  int // the version of the inventory
	engine any // the connection, which can be compared
}

// is reports whether two probes are made from the same. Of an engine only which one it is counts:
// others are at work with it meanwhile.
func (p probed) is(other probed) bool {
	return p.engine == other.engine && p.hosts == other.hosts && reflect.DeepEqual(p.task, other.task)
}

// knownProbe is a probe that found its task healthy.
type knownProbe struct {
	from      probed
	plugs     []plugPath
	questions []invoke.Asked
	found     tasks.ProbeResult
	until     time.Time // it is asked again
	since     time.Time
	bytes     int
}

// plugPath is where the path of a plug leads.
type plugPath struct{ path, real string }

// knownProbes are those of a process. It is safe for concurrent use.
type knownProbes struct {
	mu     sync.Mutex
	byTask map[string]knownProbe
	bytes  int // of those
}

// add keeps a probe that found its task healthy, unless there are too many.
func (k *knownProbes) add(p knownProbe, now time.Time) {
	const each = 512 // beside its questions
	p.bytes = each
	for _, q := range p.questions {
		p.bytes += q.Bytes()
	}
	name := p.from.task.Name()
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))
	p.since, p.until = now, now.Add(longest/2+time.Duration(hash.Sum64()%uint64(longest/2))) // not all of them at once
	k.put(p)
}

func (k *knownProbes) put(p knownProbe) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := p.from.task.Name()
	k.drop(name)
	if k.bytes+p.bytes > mostBytes {
		for other, old := range k.byTask {
			if old.until.Before(p.since) {
				k.drop(other)
			}
		}
	}
	if k.bytes+p.bytes <= mostBytes {
		k.byTask[name] = p
		k.bytes += p.bytes
	}
}

// take takes out a probe that was made from the same a while ago. A clock may have been set back.
func (k *knownProbes) take(from probed, now time.Time) (knownProbe, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := from.task.Name()
	p, some := k.byTask[name]
	k.drop(name)
	return p, some && now.Before(p.until) && !now.Before(p.since) && p.from.is(from)
}

func (k *knownProbes) drop(name string) {
	k.bytes -= k.byTask[name].bytes
	delete(k.byTask, name)
}

// lead returns where the paths of the plugs of a manifest lead; false if one leads nowhere.
func lead(m *manifest.Manifest) (all []plugPath, ok bool) {
	for _, p := range m.Plugs {
		real, err := filepath.EvalSymlinks(p.Path)
		if err != nil {
			return nil, false
		}
		all = append(all, plugPath{p.Path, real})
	}
	return all, true
}

// Confirm implements environments.Confirming.
func (w *TaskWorker) Confirm(ctx context.Context, host string, all []tasks.Task) map[int]tasks.ProbeResult {
	if w.Reserve == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.ProbeTimeout)
	defer cancel()
	var err error // of a panic: the tasks are probed one by one
	defer w.guard(&err, "probing tasks on host "+host)
	on, failed := w.pool.Answering(ctx, host)
	if failed != nil {
		return nil
	}
	leads := map[string]string{} // paths of plugs, now
	from := probed{engine: on, hosts: w.pool.hosts.Version()}
	var asked []invoke.Asked
	var probes []knownProbe
	var at []int
	for i, t := range all {
		from.task = t
		p, known := w.known.take(from, w.Now())
		if !known || !p.unmoved(leads) {
			continue
		}
		probes, at, asked = append(probes, p), append(at, i), append(asked, p.questions...)
	}
	same := w.Reserve.processes.Again(ctx, w.Now(), asked)
	well := map[int]tasks.ProbeResult{}
	for n, p := range probes {
		healthy := true
		for range p.questions {
			healthy, same = healthy && same[0], same[1:]
		}
		if healthy {
			well[at[n]] = p.found
			w.known.put(p)
		}
	}
	return well
}

// unmoved reports whether all plugs lead where they led. leads holds what is known of that.
func (p knownProbe) unmoved(leads map[string]string) bool {
	for _, plug := range p.plugs {
		now, known := leads[plug.path]
		if !known {
			now, _ = filepath.EvalSymlinks(plug.path)
			leads[plug.path] = now
		}
		if now != plug.real {
			return false
		}
	}
	return true
}
