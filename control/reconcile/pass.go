package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// transition is what is recorded of an entity at once, and the work that begins then.
type transition[K comparable] struct {
	Observation
	head     int64 // of the entity when this was decided
	works    []*Work[K]
	fact     bool // it has happened, whoever records it
	recorded bool
}

const (
	// batchSize is how many events are appended at once, about.
	batchSize = 1000

	// passShare is how long a pass holds the decide lock, about.
	passShare = 20 * time.Millisecond
)

// advance records what has ended, decides, and begins what may be done.
func (l *Loop[S, K]) advance(ctx context.Context) error {
	if l.news && !l.undecided() { // perhaps of what others control
		if err := l.Fold.Follow(ctx, 0); err != nil {
			return err
		}
		l.news = false
	}
	works, err := l.settleAndDecide(ctx)
	l.begin(ctx, works)
	if err := errors.Join(err, l.acquire(ctx)); err != nil {
		return err
	}
	l.release()
	l.flush()
	if ctx.Err() != nil || l.Drain.Started() {
		return nil
	}
	l.found = l.Tenant.Observe()
	now := l.Now()
	for name, ok := l.wakes.Take(now); ok; name, ok = l.wakes.Take(now) {
		l.Enqueue(name)
	}
	if l.pending() && l.mayPass() {
		works, err := l.pass(ctx)
		l.begin(ctx, works)
		if err != nil {
			return err
		}
	}
	l.next, l.seen = l.Tenant.Probe()
	return nil
}

// settleAndDecide records what has ended and, where that takes the decide lock, what may be done
// then, and returns the work of that: who takes a lock twice, or makes something durable twice,
// waits twice.
func (l *Loop[S, K]) settleAndDecide(ctx context.Context) (works []*Work[K], err error) {
	if l.Together && l.mayPass() {
		return nil, nil // the pass does
	}
	decides := l.Conditional && len(l.results) > 0 && l.mayPass() && ctx.Err() == nil && !l.Drain.Started()
	if decides {
		l.found = l.Tenant.Observe()
	}
	err = l.settle(ctx, func(recording context.Context, facts []*transition[K]) (err error) {
		if !decides || l.found || ctx.Err() != nil {
			err = l.record(recording, facts)
		} else {
			works, err = l.recordAndDecide(recording, facts)
		}
		if err == nil && decides && ctx.Err() == nil {
			var more []*Work[K]
			more, err = l.decideAll(ctx)
			works = append(works, more...)
		}
		return err
	})
	return works, err
}

// recordAndDecide records facts and, at once with them, what may be done then; where all is made durable
// Together, also what may be done after that. It returns the work of that. Where the facts are refused
// nothing is decided.
func (l *Loop[S, K]) recordAndDecide(ctx context.Context, facts []*transition[K]) ([]*Work[K], error) {
	if len(facts) == 0 {
		return nil, nil
	}
	var decided []*transition[K]
	untold, started := len(l.deferred), time.Now()
	l.asOf(facts)
	observed := eventsOf(facts)
	written, err := l.Fold.AppendThen(ctx, observed, func() []deploylog.Event {
		full := len(decided) > 0 && (!l.Together || len(decided) >= batchSize || time.Since(started) >= passShare)
		if full || l.Drain.Started() { // while the lock was waited for
			return nil
		}
		some := l.decideQueued()
		l.asOf(some)
		decided = append(decided, some...)
		return eventsOf(some)
	})
	switch {
	case err == nil:
		recorded(facts)
		recorded(decided)
	case len(written) > 0:
		recorded(facts)
		err = l.recordRefused(ctx, unrecorded(decided, len(written)-len(observed)), err)
	case decided == nil && isRefusal(err):
		return nil, l.recordRefused(ctx, facts, err)
	default:
		l.deferred = l.deferred[:untold] // nobody is notified of what is not in the log
	}
	return l.begun(decided), err
}

// mayPass reports whether the decide lock need not be left to others now.
func (l *Loop[S, K]) mayPass() bool {
	now := time.Now()
	return !l.yieldTo.After(now) && l.Commands.until(now, l.passed).IsZero()
}

// begin has work done whose beginning is recorded, once the observer is notified of that.
func (l *Loop[S, K]) begin(ctx context.Context, works []*Work[K]) {
	l.flush()
	for _, w := range works {
		l.start(ctx, w)
	}
}

// more reports whether there is anything to do already.
func (l *Loop[S, K]) more() bool {
	return l.pending() || l.own.candidates.Len() > 0 || l.own.behind || l.share.behind
}

// pending reports whether there is anything to hold a pass for.
func (l *Loop[S, K]) pending() bool {
	return l.news || l.found || len(l.results) > 0 && !time.Now().Before(l.due) || l.undecided()
}

func (l *Loop[S, K]) undecided() bool { return l.queue.Len() > 0 || l.slots.room() }

// pass records what was observed and what may be done now, and returns the work of
// that. It holds the decide lock, so what is decided is still so when it is in the log.
// When there is more to do than it has time for it leaves the lock to others for as long
// as it held it: so people's commands come through whatever goes on. Otherwise the lock
// is free while results are recorded, unless these need it: then that is a part of the pass.
func (l *Loop[S, K]) pass(ctx context.Context) (works []*Work[K], err error) {
	err = l.Fold.Hold(ctx, func() (err error) {
		works, err = l.decideAll(ctx)
		return err
	})
	return works, err
}

// decideAll is a pass for who Holds.
func (l *Loop[S, K]) decideAll(ctx context.Context) (works []*Work[K], err error) {
	if l.Drain.Started() { // while the lock was waited for
		return nil, nil
	}
	l.news, l.passed = false, time.Now()
	for started := time.Now(); ; {
		begun, err := l.observedOrDecided(ctx)
		works = append(works, begun...)
		if err != nil || !l.found && !l.undecided() {
			return works, err
		}
		if held := time.Since(started); held > passShare {
			l.yieldTo = time.Now().Add(held)
			return works, nil
		}
	}
}

// observedOrDecided records a batch of what was observed and, when that was all of it,
// what may be done then. It returns the work of that.
func (l *Loop[S, K]) observedOrDecided(ctx context.Context) (begin []*Work[K], err error) {
	var observed []Observation
	var all []*transition[K]
	recording := ctx
	if l.Together && len(l.results) > 0 { // how work ended is recorded also by who is to end at once
		all, recording = l.judgeAll(), context.WithoutCancel(ctx)
	}
	observed, l.found = l.Tenant.Observed(batchSize)
	for _, o := range observed {
		all = append(all, &transition[K]{Observation: o})
	}
	if l.Together && !l.found && len(all) > 0 && ctx.Err() == nil {
		return l.recordAndDecide(recording, all)
	}
	switch err := l.record(recording, all); {
	case err != nil || l.found:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return l.decide(ctx)
}

// decide records what may be done about the queued entities, and about those for
// whose work there may be a slot now, and returns the work.
func (l *Loop[S, K]) decide(ctx context.Context) (begin []*Work[K], err error) {
	all := l.decideQueued()
	err = l.record(ctx, all)
	return l.begun(all), err
}

// decideQueued returns what may be done about the queued entities, and about those for whose
// work there may be a slot now.
func (l *Loop[S, K]) decideQueued() (all []*transition[K]) {
	var names OrderedSet[string] // no entity is decided about twice before that is recorded
	names.Add(l.slots.next()...)
	names.Add(l.queue.Take()...)
	for room := batchSize; names.Len() > 0 && room > 0; {
		d := l.decideOne(names.Pop(), room)
		all, room = append(all, d.all...), d.most
	}
	l.queue.Add(names.Take()...)
	return all
}

// begun returns the work of what was decided and is recorded. Of the rest the slots are free again.
func (l *Loop[S, K]) begun(all []*transition[K]) (begin []*Work[K]) {
	refused := map[string]bool{}
	for _, t := range all {
		if t.recorded {
			begin = append(begin, t.works...)
			continue
		}
		refused[t.Entity] = true
		for _, w := range t.works {
			l.slots.end(w)
			l.slots.release(w.Host, w.Holder)
		}
	}
	for _, t := range all {
		if !refused[t.Entity] {
			delete(l.refused, t.Entity)
		}
	}
	return begin
}

// decideOne finds out what may be done about an entity, about so many events at most.
func (l *Loop[S, K]) decideOne(name string, most int) *Decision[K] {
	d := &Decision[K]{Now: l.Now(), name: name, slots: &l.slots, failures: l.failures, most: most}
	if !l.own.controlled[name] || l.LeftOut(name) {
		return d
	}
	last := l.scans[name]
	d.whole = d.Now.Sub(last.ended) >= scanPart*last.took
	l.Tenant.Decide(name, l.Fold.States[name], d)
	if d.whole && !d.Full() {
		now := l.Now()
		l.scans[name] = scan{ended: now, took: now.Sub(d.Now)}
	}
	l.wakes.Set(name, d.wake)
	return d
}

// record appends transitions, all at once if that can be. One that is there already,
// because somebody came that far without the decide lock, is decided about again; one
// that the log cannot take is of an entity that is left out.
func (l *Loop[S, K]) record(ctx context.Context, all []*transition[K]) (err error) {
	l.asOf(all)
	if events := eventsOf(all); len(events) > 0 {
		_, err = l.Fold.Append(ctx, events)
	}
	if err == nil {
		recorded(all)
		return nil
	}
	return l.recordRefused(ctx, all, err)
}

// asOf notes as of which event transitions were decided.
func (l *Loop[S, K]) asOf(all []*transition[K]) {
	for _, t := range all {
		if t.head == 0 {
			t.head = l.Fold.States[t.Entity].Head()
		}
	}
}

func eventsOf[K comparable](all []*transition[K]) (events []deploylog.Event) {
	for _, t := range all {
		events = append(events, t.Events...)
	}
	return events
}

// unrecorded notes which transitions are recorded whose events are the first so many, and returns the others.
func unrecorded[K comparable](all []*transition[K], events int) []*transition[K] {
	for i, t := range all {
		if events -= len(t.Events); events < 0 {
			return all[i:]
		}
		t.recorded = true
	}
	return nil
}

func recorded[K comparable](all []*transition[K]) {
	for _, t := range all {
		t.recorded = true
	}
}

// isRefusal reports whether the log refuses what was to be appended, and takes other events.
func isRefusal(err error) bool {
	return errors.Is(err, deploylog.ErrDuplicate) || errors.Is(err, deploylog.ErrInvalid)
}

// recordRefused records transitions one by one of which some are refused.
func (l *Loop[S, K]) recordRefused(ctx context.Context, all []*transition[K], err error) error {
	duplicate := errors.Is(err, deploylog.ErrDuplicate)
	switch half := len(all) / 2; {
	case !isRefusal(err) || len(all) == 0:
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
		if len(t.Events) == 1 {
			return nil
		}
		var single []*transition[K]
		for i := range t.Events {
			single = append(single, &transition[K]{Observation: Observation{t.Entity, t.Events[i : i+1]}, fact: true})
		}
		return l.record(ctx, single)
	}
	if duplicate {
		if err := l.Fold.catchUp(ctx, 0); err != nil || l.Fold.States[t.Entity].Head() > t.head {
			return err
		}
	}
	l.leaveOut(t.Entity, cause)
	return nil
}

// refusal is why an entity is left out: the log refuses for good what is to be
// recorded of it. Whatever is wrong with it, the others go on.
type refusal struct {
	head  int64 // of the entity, when it was refused
	cause error
}

// leaveOut leaves an entity out until something new of it is in the log. The observer is
// notified only once, also when what is new does not help.
func (l *Loop[S, K]) leaveOut(name string, cause error) {
	if _, known := l.refused[name]; !known {
		l.notice("%s %s is left out until something new of it is in the log: %v", l.Fold.One, name, cause)
	}
	l.refused[name] = refusal{l.Fold.States[name].Head(), cause}
}

// LeftOut reports whether an entity is left out, because the log refuses its events.
func (l *Loop[S, K]) LeftOut(name string) bool {
	r, refused := l.refused[name]
	return refused && l.Fold.States[name].Head() == r.head
}

// leftOut is the error about all that is left out.
func (l *Loop[S, K]) leftOut() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(l.refused)) {
		if l.LeftOut(name) {
			all = append(all, fmt.Errorf("%s %s was left out: %w", l.Fold.One, name, l.refused[name].cause))
		}
	}
	return errors.Join(all...)
}
