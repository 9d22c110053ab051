package pipeline

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
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

	told  string // name of the event Seq
	place place  // in the present layout; its stage is none where the definition has lost it
}

// workKey knows work, which is not done twice at once.
type workKey struct {
	deployment string
	target     deploylog.Target
	event      string
}

func (w *Work) key() workKey { return workKey{w.Deployment, w.Target, w.Event} }

// underway is all work of a pipeline.
type underway struct {
	all map[workKey]*Work
	at  map[deploylog.Target][]*Work // the same, by its target
}

func (u *underway) begin(w *Work) {
	if u.all == nil {
		*u = underway{map[workKey]*Work{}, map[deploylog.Target][]*Work{}}
	}
	u.end(w.key()) // what is told of again takes the place of what was known
	u.all[w.key()] = w
	u.at[w.Target] = append(u.at[w.Target], w)
}

func (u *underway) end(k workKey) {
	was, known := u.all[k]
	if !known {
		return
	}
	delete(u.all, k)
	if u.at[k.target] = slices.DeleteFunc(u.at[k.target], func(w *Work) bool { return w == was }); len(u.at[k.target]) == 0 {
		delete(u.at, k.target)
	}
}

func (u *underway) clone() (c underway) {
	for _, w := range u.all {
		copied := *w
		c.begin(&copied)
	}
	return c
}

// sorted is all work, in the order of its beginning.
func (u *underway) sorted() []*Work {
	return slices.SortedFunc(maps.Values(u.all), func(a, b *Work) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Event, b.Event))
	})
}

// first is the work that began first of such; nil is none.
func (u *underway) first(such func(*Work) bool) *Work { return firstOf(maps.Values(u.all), such) }

// firstAt is the same of what is at a target, which costs nothing for what is elsewhere.
func (u *underway) firstAt(t deploylog.Target, such func(*Work) bool) *Work {
	return firstOf(slices.Values(u.at[t]), such)
}

func firstOf(all iter.Seq[*Work], such func(*Work) bool) (first *Work) {
	for w := range all {
		if such(w) && (first == nil || w.Seq < first.Seq || w.Seq == first.Seq && w.Target < first.Target) {
			first = w
		}
	}
	return first
}

// applyBegun folds in that work begins.
func (s *State) applyBegun(e deploylog.Event) {
	for _, b := range read(e.Data).Steps {
		s.begin(&Work{
			Deployment: b.Deployment, Revision: b.Revision, Target: b.Target, Event: b.Event, Attempt: b.Attempt, Manifest: b.Manifest,
			Seq: e.Seq, Since: e.CreatedAt, told: e.Name,
		})
	}
}

func (s *State) begin(w *Work) {
	_, w.Host, _ = groupOf(w.Target)
	if s.layout != nil {
		w.place = s.layout.placeOfWork(w.Target)
	}
	s.work.begin(w)
}

// applyWorkEnded folds in how work ended.
func (s *State) applyWorkEnded(e deploylog.Event) {
	for _, b := range read(e.Data).Steps {
		k := workKey{b.Deployment, b.Target, b.Event}
		switch was := s.work.all[k]; {
		case b.Outcome != workLost:
			s.work.end(k)
		case was != nil:
			changed := *was
			changed.Run, changed.Cause = b.Run, b.Error
			s.work.begin(&changed)
		default:
			s.begin(&Work{
				Deployment: b.Deployment, Revision: b.Revision, Target: b.Target, Event: b.Event, Attempt: b.Attempt, Manifest: b.Manifest,
				Seq: e.Seq, Since: e.CreatedAt, Run: b.Run, Cause: b.Error, told: e.Name,
			})
		}
		if b.Try > 0 {
			s.countTry(b, e)
		}
	}
}

// placeOfWork is where work at a target is: of a host that has left its group, the group.
func (l *layout) placeOfWork(t deploylog.Target) place {
	if at, ok := l.place(t); ok {
		return at
	}
	group, _, _ := groupOf(t)
	if at, ok := l.groupAt[group]; ok {
		return at
	}
	return place{none, none, none}
}

// includes reports whether a stage is in a batch.
func (l *layout) includes(b span, stage int) bool {
	return stage == b.from || stage == b.to ||
		slices.Contains(l.stages[stage].ancestors, b.from) && slices.Contains(l.stages[b.to].ancestors, stage)
}

// stragglers are, for each batch, the work in it of revisions that are not in it any more:
// their deployments ended, or the definition changed. What the definition has lost the
// place of is in every batch, since nobody knows what is done at the same time as it.
func (s *State) stragglers() [][]*Work {
	var in [][]*Work
	for _, w := range s.work.all {
		d := s.byID[w.Deployment]
		if d != nil && d.status == Running && w.place.stage != none && !d.stages[w.place.stage].passed {
			continue // it is in the batches itself
		}
		if in == nil {
			in = make([][]*Work, len(s.layout.batches))
		}
		for b, batch := range s.layout.batches {
			if w.place.stage == none || s.layout.includes(batch, w.place.stage) {
				in[b] = append(in[b], w)
			}
		}
	}
	return in
}

// straggler is the first work of another deployment in a batch.
func straggler(in [][]*Work, batch int, d *deployment) (first *Work) {
	if in == nil {
		return nil
	}
	for _, w := range in[batch] {
		if w.Deployment != d.id && (first == nil || w.Seq < first.Seq || w.Seq == first.Seq && w.Target < first.Target) {
			first = w
		}
	}
	return first
}

// Left is work that nobody does any more: it is not mine, and Decide will not have it
// done again. Who left it may have died while it was done.
func (s *State) Left(mine func(Work) bool) (left []Work) {
	others := map[workKey]bool{}
	for k, w := range s.work.all {
		if !mine(*w) {
			others[k] = true
		}
	}
	if len(others) == 0 {
		return nil
	}
	s.doable(func(step Step) bool {
		delete(others, workKey{step.Deployment, step.Target, step.Event})
		return true
	})
	for k := range others {
		left = append(left, *s.work.all[k])
	}
	slices.SortFunc(left, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Event, b.Event))
	})
	return left
}

// Underway reports whether work of a step has begun and not ended.
func (s *State) Underway(deployment string, t deploylog.Target, event string) bool {
	return s.work.all[workKey{deployment, t, event}] != nil
}

// At reports whether any work of a deployment has begun at a target and not ended.
func (s *State) At(deployment string, t deploylog.Target) bool {
	return s.work.firstAt(t, func(w *Work) bool { return w.Deployment == deployment }) != nil
}

// data is the work in the data of an EventStepsEnded.
func (w Work) data() stepWork {
	return stepWork{Deployment: w.Deployment, Revision: w.Revision, Target: w.Target, Event: w.Event, Attempt: w.Attempt, Manifest: w.Manifest}
}

// Settled is the event that records that nothing of the work is running any more, whoever
// began it. It has an ID of its own.
func (w Work) Settled(id, by string) deploylog.Event {
	return ended(id, by, w.data(), workSettled, "", "")
}

// Lost is the event that records that a run of the work may still be at work, and why
// that is not known.
func (w Work) Lost(id, by, run, cause string) deploylog.Event {
	return ended(id, by, w.data(), workLost, run, cause)
}

// reason is why something waits for the work.
func (w *Work) reason() Reason {
	name, _ := NameOf(w.Target)
	return Reason{
		Code: AwaitsWork, By: Target(name), ByEvent: w.told, Seq: w.Seq, Holder: w.Revision,
		Work: w.Event, WorkTarget: w.Target, Since: w.Since, Run: w.Run, Cause: w.Cause,
	}
}

// workChange names the end of work. Nobody else can end work that hangs in a scheduler which is
// alive, so that says what can be done about it.
func (r Reason) workChange() string {
	const hangs = "; where it hangs, pipeline cancel of its revision frees its slots after a minute, and a second Ctrl-C ends its scheduler"
	switch {
	case r.Code == InRun && r.Quiet.IsZero():
		return r.Event + ", once the scheduler has done it"
	case r.Code == InRun:
		return r.Event + ", once the scheduler has done it" + hangs
	case r.WorkTarget.Kind() == "host" && r.Run == "":
		return "the end of that work" + hangs
	default:
		return "the end of that work"
	}
}

// workText says what waits for which work.
func (r Reason) workText() string {
	text := fmt.Sprintf("%s of %s is still being done for revision %s", r.Work, r.WorkTarget, r.Holder)
	if !r.Since.IsZero() {
		text += ", since " + r.Since.UTC().Format("2006-01-02 15:04:05 MST")
	}
	if r.Run == "" {
		return text
	}
	cause, _, _ := strings.Cut(r.Cause, "\n")
	return fmt.Sprintf("%s: run %s may still be at work (%s). Where you know that nothing of it is, say pipeline run --abandon %s", text, r.Run, cause, r.Run)
}
