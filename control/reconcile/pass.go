package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// transition is what is recorded of an entity at once, and the work that begins then.
type transition[K comparable] struct {
	entity   string
	head     int64 // of the entity when it was decided
	events   []deploylog.Event
	works    []*Work[K]
	fact     bool // it has happened, whoever records it
	recorded bool
}

// Observation is what is to be recorded of something that was observed.
type Observation struct {
	Entity string
	Events []deploylog.Event
}

const (
	// batchSize is how many events are appended at once, about.
	batchSize = 1000

	// passShare is how long a pass holds the decide lock, about.
	passShare = 20 * time.Millisecond
)

// advance records what has ended, decides, and begins what may be done. It reports
// whether there is more to do already.
func (l *Loop[S, K]) advance(ctx context.Context) (more bool, err error) {
	if l.news && !l.undecided() { // perhaps of what others control
		if err := l.fold.Follow(ctx, 0); err != nil {
			return false, err
		}
		l.news = false
	}
	if err := errors.Join(l.settle(ctx), l.acquire(ctx)); err != nil {
		return false, err
	}
	l.release()
	l.flush()
	if ctx.Err() != nil || l.Drain.Started() {
		return false, nil
	}
	l.found = l.tenant.Observe()
	now := l.Now()
	for name, ok := l.wakes.Take(now); ok; name, ok = l.wakes.Take(now) {
		l.Enqueue(name)
	}
	if l.pending() {
		l.yield(ctx)
		works, err := l.pass(ctx)
		l.flush()
		for _, w := range works {
			l.start(ctx, w)
		}
		if err != nil {
			return false, err
		}
	}
	l.next, l.seen = l.tenant.Probe()
	return l.more(), nil
}

// more reports whether there is anything to do already.
func (l *Loop[S, K]) more() bool { return l.pending() || l.own.candidates.Len() > 0 }

// pending reports whether there is anything to hold a pass for.
func (l *Loop[S, K]) pending() bool {
	return l.news || l.undecided() || len(l.results) > 0 || l.found
}

func (l *Loop[S, K]) undecided() bool { return l.queue.Len() > 0 || l.slots.room() }

// pass records what was observed and what may be done now, and returns the work of
// that. It holds the decide lock, so what is decided is still so when it is in the log.
func (l *Loop[S, K]) pass(ctx context.Context) (works []*Work[K], err error) {
	err = l.fold.Hold(ctx, func() error {
		if l.Drain.Started() { // while the lock was waited for
			return nil
		}
		started := time.Now()
		defer func() {
			if l.undecided() { // it had not enough time
				l.yieldTo = time.Now().Add(time.Since(started))
			}
		}()
		l.news, l.found = false, false
		for seen := l.tenant.Observed(); len(seen) > 0; seen = l.tenant.Observed() {
			var all []*transition[K]
			for _, o := range seen {
				all = append(all, &transition[K]{entity: o.Entity, head: l.fold.States[o.Entity].Head(), events: o.Events})
			}
			if err := l.record(ctx, all); err != nil {
				return err
			}
		}
		for {
			begun, err := l.decide(ctx)
			works = append(works, begun...)
			if err != nil || !l.undecided() || time.Since(started) > passShare {
				return err
			}
		}
	})
	return works, err
}

// yield leaves the decide lock to others for as long as the last pass held it, when
// that had more to decide than it had time for: so people's commands come through
// whatever goes on. What comes meanwhile is received. Otherwise the lock is free while
// results are recorded.
func (l *Loop[S, K]) yield(ctx context.Context) {
	left := time.Until(l.yieldTo)
	if left <= 0 {
		return
	}
	over := time.NewTimer(left)
	defer over.Stop()
	for {
		select {
		case receive := <-l.inbox:
			receive()
		case <-over.C:
			return
		case <-ctx.Done():
			return
		case <-l.Drain:
			return
		}
	}
}

// decide records what may be done about the queued entities, and about those for
// whose work there may be a slot now, and returns the work.
func (l *Loop[S, K]) decide(ctx context.Context) (begin []*Work[K], err error) {
	var names OrderedSet[string] // no entity is decided about twice before that is recorded
	names.Add(l.slots.next()...)
	names.Add(l.queue.Take()...)
	var all []*transition[K]
	for room := batchSize; names.Len() > 0 && room > 0; {
		decided := l.decideOne(names.Pop(), room)
		for _, t := range decided {
			room -= max(1, len(t.events))
		}
		all = append(all, decided...)
	}
	l.queue.Add(names.Take()...)
	err = l.record(ctx, all)
	refused := map[string]bool{}
	for _, t := range all {
		refused[t.entity] = refused[t.entity] || !t.recorded
		for _, w := range t.works {
			if t.recorded {
				begin = append(begin, w)
			} else {
				l.slots.end(w)
			}
		}
	}
	for name, any := range refused {
		if !any {
			l.refused.Clear(name)
		}
	}
	return begin, err
}

// decideOne is what may be done about an entity, about so many events at most.
func (l *Loop[S, K]) decideOne(name string, most int) []*transition[K] {
	if !l.own.controlled[name] || l.refused.Out(name) {
		delete(l.moving, name)
		return nil
	}
	s := l.fold.States[name]
	d := &Decision[K]{Now: l.Now(), name: name, head: s.Head(), slots: &l.slots, failures: l.failures, most: most}
	last := l.scans[name]
	d.whole = last.tick != l.ticks || d.Now.Sub(last.ended) >= scanPart*last.took
	l.tenant.Decide(name, s, d)
	if d.whole && !d.Full() {
		now := l.Now()
		l.scans[name] = scan{tick: l.ticks, ended: now, took: now.Sub(d.Now)}
	}
	l.wakes.Set(name, d.wake)
	if l.UntilIdle && !l.tenant.Idle(s) {
		l.moving[name] = true
	} else {
		delete(l.moving, name)
	}
	return d.all
}

// record appends transitions, all at once if that can be. One that is there already,
// because somebody came that far without the decide lock, is decided about again; one
// that the log cannot take is of an entity that is left out.
func (l *Loop[S, K]) record(ctx context.Context, all []*transition[K]) error {
	var events []deploylog.Event
	for _, t := range all {
		events = append(events, t.events...)
	}
	var err error
	if len(events) > 0 {
		l.recording = true
		_, err = l.fold.Append(ctx, events)
		l.recording = false
	}
	duplicate, invalid := errors.Is(err, deploylog.ErrDuplicate), errors.Is(err, deploylog.ErrInvalid)
	switch half := len(all) / 2; {
	case err == nil:
		for _, t := range all {
			t.recorded = true
		}
		return nil
	case !duplicate && !invalid:
		return err
	case half > 0:
		if err := l.record(ctx, all[:half]); err != nil {
			return err
		}
		return l.record(ctx, all[half:])
	default:
		return l.refuse(ctx, all[0], duplicate, err)
	}
}

// refuse leaves an entity out whose events the log refuses, unless something has
// happened to it since they were decided. Of a fact, what is there already is left out.
func (l *Loop[S, K]) refuse(ctx context.Context, t *transition[K], duplicate bool, cause error) error {
	if duplicate && t.fact {
		if len(t.events) == 1 {
			return nil
		}
		var single []*transition[K]
		for i := range t.events {
			single = append(single, &transition[K]{entity: t.entity, head: t.head, events: t.events[i : i+1], fact: true})
		}
		return l.record(ctx, single)
	}
	if duplicate {
		if err := l.fold.CatchUp(ctx, 0); err != nil || l.fold.States[t.entity].Head() > t.head {
			return err
		}
	}
	delete(l.moving, t.entity)
	if text := l.refused.Add(t.entity, cause); text != "" {
		l.notice(text)
	}
	return nil
}
