package step

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Work is the work of a step that has begun and, as far as the log tells, not ended. It
// keeps its deployment in the batches of its stage, whatever became of the deployment or
// of the definition in the meantime.
type Work struct {
	Deployment string
	Revision   string
	Target     deploylog.Target
	Event      string
	Attempt    int
	Manifest   string // "" of an environment, or where a former version began it
	Host       string // "" of what is no host's
	Seq        int64  // event of its beginning, or the first that tells of it
	Since      time.Time

	// Run is one that may still be at work, though who had it done has given up; "" is
	// none. Cause is why that is not known.
	Run, Cause string

	Told  string           // name of the event Seq
	Place deployment.Place // in the present layout; its stage is none where the definition has lost it
}

// Key knows work, which is not done twice at once.
type Key struct {
	Deployment string
	Target     deploylog.Target
	Event      string
}

func (w *Work) key() Key { return Key{w.Deployment, w.Target, w.Event} }

// Key knows the work of a step, if it has any.
func (s Step) Key() Key { return Key{s.Deployment, s.Target, s.Event} }

// Underway is all work of a pipeline.
type Underway struct {
	All map[Key]*Work
	At  map[deploylog.Target][]*Work // the same, by its target
}

// Begin adds work.
func (u *Underway) Begin(w *Work) {
	if u.All == nil {
		*u = Underway{map[Key]*Work{}, map[deploylog.Target][]*Work{}}
	}
	u.End(w.key()) // what is told of again takes the place of what was known
	u.All[w.key()] = w
	u.At[w.Target] = append(u.At[w.Target], w)
}

// End removes work, if it is known.
func (u *Underway) End(k Key) {
	was, known := u.All[k]
	if !known {
		return
	}
	delete(u.All, k)
	if u.At[k.Target] = slices.DeleteFunc(u.At[k.Target], func(w *Work) bool { return w == was }); len(u.At[k.Target]) == 0 {
		delete(u.At, k.Target)
	}
}

// Clone is a copy that can be changed.
func (u *Underway) Clone() (c Underway) {
	for _, w := range u.All {
		copied := *w
		c.Begin(&copied)
	}
	return c
}

// Sorted is all work, in the order of its beginning.
func (u *Underway) Sorted() []*Work {
	return slices.SortedFunc(maps.Values(u.All), func(a, b *Work) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Event, b.Event))
	})
}

// First is the work that began first of such; nil is none.
func (u *Underway) First(such func(*Work) bool) *Work { return firstOf(maps.Values(u.All), such) }

// FirstAt is the same of what is at a target, which costs nothing for what is elsewhere.
func (u *Underway) FirstAt(t deploylog.Target, such func(*Work) bool) *Work {
	return firstOf(slices.Values(u.At[t]), such)
}

func firstOf(all iter.Seq[*Work], such func(*Work) bool) (first *Work) {
	for w := range all {
		if such(w) && (first == nil || w.Seq < first.Seq || w.Seq == first.Seq && w.Target < first.Target) {
			first = w
		}
	}
	return first
}

// Data is the work in the data of an EventStepsEnded.
func (w Work) data() record.Work {
	return record.Work{Deployment: w.Deployment, Revision: w.Revision, Target: w.Target, Event: w.Event, Attempt: w.Attempt, Manifest: w.Manifest}
}

// Settled is the event that records that nothing of the work is running any more, whoever
// began it. It has an ID of its own.
func (w Work) Settled(id, by string) deploylog.Event {
	return ended(id, by, w.data(), record.WorkSettled, "", "")
}

// Lost is the event that records that a run of the work may still be at work, and why
// that is not known.
func (w Work) Lost(id, by, run, cause string) deploylog.Event {
	return ended(id, by, w.data(), record.WorkLost, run, cause)
}

// Reason is why something waits for the work.
func (w *Work) Reason() reason.Reason {
	name, _ := record.NameOf(w.Target)
	return reason.Reason{
		Code: reason.AwaitsWork, By: record.Target(name), ByEvent: w.Told, Seq: w.Seq, Holder: w.Revision,
		Work: w.Event, WorkTarget: w.Target, Since: w.Since, Run: w.Run, Cause: w.Cause,
	}
}
