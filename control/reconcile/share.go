package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// share is which entities a loop is to control of those that several loops control together. Each
// of them holds a lock with its name, which ends with its process as the locks of its entities do;
// so all know who lives, and nobody is elected. From the names of those follows for each entity who
// is to control it, see drawn: where one comes or ends only the entities of that one change hands.
//
// This says who tries to take a lock, and who gives one up: who controls an entity is decided by
// its lock alone. So nothing is lost while loops do not agree yet on who lives. What nobody takes
// who is to take it, since its inventory is another one, others take after a while.
type share struct {
	among   deploylog.LockLister // nil is alone
	members []string             // names of the loops that live, sorted
	leave   func()               // nil where the loop is not one of them
	counted time.Time
	blind   bool // it was said that it cannot be seen who lives

	theirs  map[string]string  // entities that others are to control, and who
	looked  time.Time          // when it was seen last which of those are controlled
	due     DelayQueue[string] // when their locks are tried, because nobody seems to have taken them
	kept    map[string]string  // entities that nobody took who is to control them, and who that is
	leaving OrderedSet[string] // entities that others are to control once nothing is in flight here
	behind  bool               // there was no time to hand over all that could be
}

const (
	// joinTime is how long a loop waits for its name where who had that has ended, and the log does
	// not give it to another yet.
	joinTime = 30 * time.Second

	// recountPause is how long it may take until a loop is missed that has died.
	recountPause = 500 * time.Millisecond

	// lookTime is how long to find out who lives may keep a loop from all else.
	lookTime = 2 * time.Second

	// lookPause is how long it may take until it is seen that nobody controls an entity.
	lookPause = 5 * time.Second

	// takeTime is how long who is to control an entity has to take it: with thousands of others.
	takeTime = 10 * time.Second
)

// join has the loop share all entities with others, where it is to and the log can tell of them.
// Without a name it is none of them, and takes nothing while there are any.
func (l *Loop[S, K]) join(ctx context.Context) error {
	log, can := l.Log.(deploylog.LockLister)
	if _, all := l.Scope.named(); !can || !all {
		return nil
	}
	l.share = share{among: log, theirs: map[string]string{}, kept: map[string]string{}}
	if l.Name != "" && !l.UntilIdle {
		if err := l.joinAs(ctx, l.Name); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			return fmt.Errorf("joining those that control the %s: %w", l.Fold.Many, err)
		}
	}
	l.recount(ctx)
	return nil
}

// joinAs joins by a name, or by one like it where another has that: as who had it before and has
// died, of which the log does not know yet. What only seems to be taken is waited for, since who has
// another name controls other entities.
func (l *Loop[S, K]) joinAs(ctx context.Context, name string) error {
	const most = 100
	for n, started := 1, time.Now(); ; {
		leave, err := l.Log.TryLock(l.memberLock() + l.Name)
		if err == nil {
			if l.share.leave, l.share.members = leave, []string{l.Name}; n > 1 {
				l.notice("another %s shares the %s as %q, and this one does so as %q; each needs a name of its own to have the same again after a restart", l.Role, l.Fold.Many, name, l.Name)
			}
			return nil
		}
		if !errors.Is(err, deploylog.ErrLocked) || n == most {
			return err
		}
		if time.Since(started) > joinTime || l.lives(ctx, l.Name) {
			n++
			l.Name = fmt.Sprintf("%s (%d)", name, n)
			continue
		}
		select {
		case <-time.After(retryPause):
		case <-l.Drain:
			return nil // it ends before it controls anything
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lives reports whether a loop of that name shares the entities, as far as can be seen.
func (l *Loop[S, K]) lives(ctx context.Context, name string) bool {
	names, err := l.living(ctx)
	return err != nil || slices.Contains(names, name)
}

// memberLock is what the names of the locks begin with that loops have which share entities.
func (l *Loop[S, K]) memberLock() string { return l.Fold.Many + " are shared by " }

// leave has the entities of a loop that ends controlled by those that share them with it.
func (l *Loop[S, K]) leave() {
	if l.share.leave != nil {
		l.over = true
		l.share.leave()
	}
}

// recount finds out at times which loops live. When they are others, all entities are considered
// again. While it cannot be seen, those live that did; who cannot be reached for long has lost its
// locks, and learns of that otherwise.
func (l *Loop[S, K]) recount(ctx context.Context) {
	s := &l.share
	if s.among == nil || time.Since(s.counted) < recountPause {
		return
	}
	members, err := l.living(ctx)
	s.counted = time.Now()
	if err != nil {
		if !s.blind && ctx.Err() == nil {
			l.notice("it cannot be seen who else shares the %s, and is taken to be who did: %v", l.Fold.Many, err)
			s.blind = true
		}
		return
	}
	if s.blind = false; slices.Equal(members, s.members) {
		return
	}
	joined := len(members) > len(s.members)
	s.members = members
	s.leaving.Take()
	maps.DeleteFunc(s.kept, func(name, who string) bool { return l.drawn(name) != who })
	for name, who := range s.theirs {
		if now := l.drawn(name); now != who {
			s.theirs[name] = now
			s.due.Set(name, time.Now().Add(takeTime))
		}
	}
	l.considerAll()
	if text := l.shared(); s.leave != nil && joined {
		l.Notify(func() { Inform(l.Observer, text) })
	} else if s.leave != nil {
		l.notice("%s", text)
	}
}

// living are the names of the loops that live and share the entities.
func (l *Loop[S, K]) living(ctx context.Context) (names []string, err error) {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	locks, err := l.share.among.LocksHeld(looking, l.memberLock())
	if err != nil {
		return nil, err
	}
	for _, lock := range locks {
		names = append(names, strings.TrimPrefix(lock, l.memberLock()))
	}
	if l.share.leave != nil && !slices.Contains(names, l.Name) {
		names = append(names, l.Name)
		slices.Sort(names)
	}
	return names, nil
}

func (l *Loop[S, K]) shared() string {
	if n := len(l.share.members); n > 1 {
		return fmt.Sprintf("%d %ss share the %s now", n, l.Role, l.Fold.Many)
	}
	return fmt.Sprintf("no other %s shares the %s any more", l.Role, l.Fold.Many)
}

// drawn is who is to control an entity: each of those that live draws a number for it, and has it
// with the highest. It is "" where nobody shares entities.
func (l *Loop[S, K]) drawn(entity string) (best string) {
	highest := uint64(0)
	for _, name := range l.share.members {
		sum := sha256.Sum256([]byte(name + " " + entity))
		if drawn := binary.BigEndian.Uint64(sum[:]); best == "" || drawn > highest {
			best, highest = name, drawn
		}
	}
	return best
}

// mine reports whether this loop is to control an entity.
func (l *Loop[S, K]) mine(entity string) bool {
	who := l.drawn(entity)
	return who == "" || who == l.Name
}

// wants reports whether the loop is to take the lock of an entity, or to keep it.
func (l *Loop[S, K]) wants(entity string) bool { return l.share.kept[entity] != "" || l.mine(entity) }

// leaveTo leaves an entity to the loop that is to control it, for some time at least. Who is none
// of those that share entities stands by for it.
func (l *Loop[S, K]) leaveTo(name string) {
	s := &l.share
	if s.leave == nil {
		if !l.own.elsewhere.has[name] {
			l.own.elsewhere.Add(name)
			l.own.taken[name] = fmt.Errorf("the %s are shared by who controls all of them; name those to control here", l.Fold.Many)
		}
		return
	}
	l.own.elsewhere.remove(name)
	delete(l.own.taken, name)
	if s.theirs[name] == "" {
		s.theirs[name] = l.drawn(name)
		s.due.Set(name, time.Now().Add(takeTime))
	}
}

// standsBy reports whether the loop takes nothing now.
func (s *share) standsBy() bool { return s.leave == nil && len(s.members) > 0 }

// handOver gives up what others are to control, when nothing is in flight of it: so there is never
// a time in which nobody decides about it because its lock waits for work. Those for which there is
// no time now are controlled until then.
func (l *Loop[S, K]) handOver() {
	s := &l.share
	if s.behind = false; s.leaving.Len() == 0 || len(l.results) > 0 {
		return
	}
	var busy []string
	for started := time.Now(); s.leaving.Len() > 0 && !s.behind; s.behind = time.Since(started) >= acquireShare {
		var idle []string
		for s.leaving.Len() > 0 && len(idle) < l.lockedAtOnce() {
			switch name := s.leaving.Pop(); {
			case !l.own.controlled[name]:
			case l.slots.of[name] > 0:
				busy = append(busy, name)
			default:
				idle = append(idle, name)
			}
		}
		l.end(idle...)
		for _, name := range idle {
			l.leaveTo(name)
		}
	}
	s.behind = s.behind && s.leaving.Len() > 0
	s.leaving.Add(busy...)
}

// findUntaken looks at times whether what others are to control is controlled. The lock of what is
// not is tried when whoever is to have it had time to take it.
func (l *Loop[S, K]) findUntaken(ctx context.Context) {
	s := &l.share
	if len(s.theirs) == 0 || time.Since(s.looked) < lookPause {
		return
	}
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	locks, err := s.among.LocksHeld(looking, lockOf(l.Fold.One, ""))
	s.looked = time.Now()
	if err != nil {
		return // it is seen the next time, and recount says what is wrong
	}
	held := map[string]bool{}
	for _, lock := range locks {
		held[lock] = true
	}
	for name := range s.theirs {
		if s.due.At(name).IsZero() && !held[lockOf(l.Fold.One, name)] {
			s.due.Set(name, time.Now().Add(takeTime))
		}
	}
}

// takeUntaken has the locks tried that nobody seems to have taken.
func (l *Loop[S, K]) takeUntaken() {
	s := &l.share
	for name, due := s.due.Take(time.Now()); due; name, due = s.due.Take(time.Now()) {
		s.kept[name] = s.theirs[name]
		l.own.candidates.Add(name)
	}
}

// forget has entities no more left to others.
func (s *share) forget(names ...string) {
	s.leaving.remove(names...)
	for _, name := range names {
		delete(s.theirs, name)
		s.due.Set(name, never)
	}
}
