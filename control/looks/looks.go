// Package looks repeats looks at the tasks of environments.
//
// To look at a task its manifest is loaded with its variables, the types of its resources
// are initialized, and each is asked for its state. A task that is well is looked at again
// and again, and what comes before the question is the same each time, and most of the
// work: a revision does not change. So whoever has looked at a task keeps that look, and
// repeats it for a while, which only asks.
//
// What is repeated can only confirm that a task is still well, by what its types answer
// now. Where it finds anything else, or what it was made from may have changed, it is
// forgotten, and the task is looked at anew, which tells why.
package looks

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/health"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner"
)

const (
	// longest is how long a look is repeated: so long goes unnoticed what is no input of
	// the task, such as that an object was altered that its revision carries.
	longest = time.Minute

	// most is how many are kept, and mostBytes how many bytes they may take in all: each has the
	// manifest of its task, and its variables.
	most      = 1000
	mostBytes = 64 << 20
)

// Look is a look at a task.
type Look interface {
	// Look looks at the task.
	Look(ctx context.Context) (tasks.ProbeResult, error)

	// Bytes is about how many bytes it takes to keep it.
	Bytes() int

	// Repeatable reports whether another Look would do what one that is made anew does.
	Repeatable() bool
}

// From is what a look was made from. It is made anew from anything else.
type From struct {
	Task   tasks.Task
	Hosts  int // the version of the inventory
	Engine any // the connection, which can be compared
}

// is reports whether two looks are made from the same. Of an engine only which one it is counts:
// others are at work with it meanwhile.
func (f From) is(other From) bool {
	return f.Engine == other.Engine && f.Hosts == other.Hosts && reflect.DeepEqual(f.Task, other.Task)
}

// Kept are the looks of a process. It is safe for concurrent use.
type Kept struct {
	now func() time.Time

	mu     sync.Mutex
	byTask map[string]kept
	bytes  int // of those
}

type kept struct {
	Look
	from  From
	found tasks.ProbeResult
	since time.Time
	bytes int
}

// Keep returns that of a process.
func Keep(now func() time.Time) *Kept { return &Kept{now: now, byTask: map[string]kept{}} }

// Again repeats the look that was made from this, and reports whether there is one that
// found the task as well as before.
func (k *Kept) Again(ctx context.Context, from From) (found tasks.ProbeResult, well bool) {
	l, some := k.take(from)
	if !some || !l.Repeatable() {
		return found, false
	}
	found, err := l.Look.Look(ctx)
	if err != nil || found.Health != l.found.Health || !reflect.DeepEqual(found.Restarts, l.found.Restarts) {
		return found, false
	}
	k.put(l)
	return found, true
}

// Add keeps a look that found its task well.
func (k *Kept) Add(from From, l Look, found tasks.ProbeResult) {
	k.put(kept{l, from, found, k.now(), l.Bytes()})
}

// take takes a look out, so that only one repeats it.
func (k *Kept) take(from From) (kept, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := from.Task.Name()
	l, some := k.byTask[name]
	k.drop(name)
	return l, some && k.fresh(l) && l.from.is(from)
}

func (k *Kept) put(l kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(l.from.Task.Name())
	room := func() bool { return len(k.byTask) < most && k.bytes+l.bytes <= mostBytes }
	if !room() {
		for name, other := range k.byTask {
			if !k.fresh(other) {
				k.drop(name)
			}
		}
	}
	if room() {
		k.byTask[l.from.Task.Name()] = l
		k.bytes += l.bytes
	}
}

func (k *Kept) drop(name string) {
	k.bytes -= k.byTask[name].bytes
	delete(k.byTask, name)
}

// fresh reports whether a look may be repeated still. A clock may have been set back.
func (k *Kept) fresh(l kept) bool {
	age := k.now().Sub(l.since)
	return age >= 0 && age < longest
}

// Drift is a look that asks a manifest for its drift.
type Drift struct {
	Runner *runner.Runner
	Caller runner.Caller
	Doubts func(resource string) bool // of which it is not known what it should be
	Plugs  func() error               // whether they are there
	Forget func()                     // removes the files of a look
	Size   int                        // see Weight
}

// Bytes implements Look.
func (d Drift) Bytes() int { return d.Size }

// Weight is about how many bytes values take that were read from a file.
func Weight(values ...any) (bytes int) {
	const each = 32
	for _, v := range values {
		bytes += each
		switch v := v.(type) {
		case string:
			bytes += len(v)
		case []any:
			bytes += Weight(v...)
		case map[string]any:
			for key, one := range v {
				bytes += each + len(key) + Weight(one)
			}
		}
	}
	return bytes
}

// Repeatable implements Look.
func (d Drift) Repeatable() bool { return d.Plugs() == nil && d.Runner.Repeatable() }

// Look implements Look.
func (d Drift) Look(ctx context.Context) (tasks.ProbeResult, error) {
	defer d.Forget()
	report, err := d.Runner.Drift(ctx, d.Caller)
	if report == nil {
		return tasks.ProbeResult{}, err
	}
	found := health.Probed(report, d.Runner.State, d.Doubts) // the report holds what failed, too
	if found.Health == tasks.Unknown && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return found, health.Unanswered(report)
	}
	return found, nil
}
