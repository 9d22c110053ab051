package reconcile

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// share is which entities a loop is to control of those that several loops control together. Each
// of them holds a lock with its name, which ends with its process as the locks of its entities do;
// so all know who lives, and nobody is elected. From the names of those follows for each entity who
// is to control it, see mine: where one comes or ends only the entities of that one change hands.
//
// This says who tries to take a lock, and who gives one up: who controls an entity is decided by
// its lock alone. So nothing is lost while loops do not agree yet on who lives. What nobody takes
// who is to take it, since its inventory is another one, others take after a while.
type share struct {
	among   deploylog.LockLister // nil is alone
	members []string             // names of the loops that live, sorted
	leave   func()
	counted time.Time

	theirs  OrderedSet[string] // entities that others are to control
	due     DelayQueue[string] // when their locks are tried, because nobody seems to have taken them
	kept    map[string]bool    // entities that others are to control, and nobody took
	leaving OrderedSet[string] // entities that others are to control once nothing is in flight here
}

const (
	// recountPause is how long it may take until a loop is missed that has died.
	recountPause = 500 * time.Millisecond

	// takeTime is how long who is to control an entity has to take it: with thousands of others.
	takeTime = 10 * time.Second
)

// join has the loop share all entities with others, where it is to and the log can tell of them.
func (l *Loop[S, K]) join() error {
	log, can := l.Log.(deploylog.LockLister)
	if _, all := l.Scope.named(); !can || !all || l.Name == "" || l.UntilIdle {
		return nil
	}
	leave, err := l.Log.TryLock(l.memberLock() + l.Name)
	if err != nil {
		return fmt.Errorf("joining those that control the %s: %w", l.Fold.Many, err)
	}
	l.share = share{among: log, leave: leave, members: []string{l.Name}, kept: map[string]bool{}}
	return l.recount()
}

// memberLock is what the names of the locks begin with that loops have which share entities.
func (l *Loop[S, K]) memberLock() string { return l.Fold.Many + " are shared by " }

// leave has the entities of a loop that ends controlled by others.
func (l *Loop[S, K]) leave() {
	l.over = true
	if l.share.among != nil {
		l.share.leave()
	}
}

// recount finds out at times which loops live. When they are others, all entities are considered
// again.
func (l *Loop[S, K]) recount() error {
	s := &l.share
	if s.among == nil || time.Since(s.counted) < recountPause {
		return nil
	}
	s.counted = time.Now()
	members, err := s.among.LocksHeld(l.memberLock())
	if err != nil {
		return fmt.Errorf("finding out who shares the %s: %w", l.Fold.Many, err)
	}
	for i, lock := range members {
		members[i] = strings.TrimPrefix(lock, l.memberLock())
	}
	if !slices.Contains(members, l.Name) {
		members = append(members, l.Name)
		slices.Sort(members)
	}
	if slices.Equal(members, s.members) {
		return nil
	}
	s.members = members
	clear(s.kept)
	s.leaving.Take()
	for _, name := range s.theirs.members {
		s.due.Set(name, time.Now().Add(takeTime))
	}
	l.considerAll()
	l.notice("%s", l.shared())
	return nil
}

func (l *Loop[S, K]) shared() string {
	if n := len(l.share.members); n > 1 {
		return fmt.Sprintf("%d %ss share the %s now", n, l.Role, l.Fold.Many)
	}
	return fmt.Sprintf("no other %s shares the %s any more", l.Role, l.Fold.Many)
}

// mine reports whether this loop is to control an entity: each of those that live draws a number
// for it, and has it with the highest.
func (l *Loop[S, K]) mine(entity string) bool {
	best, highest := "", uint64(0)
	for _, name := range l.share.members {
		sum := sha256.Sum256([]byte(name + " " + entity))
		if drawn := binary.BigEndian.Uint64(sum[:]); best == "" || drawn > highest {
			best, highest = name, drawn
		}
	}
	return l.share.among == nil || best == l.Name
}

// wants reports whether the loop is to take the lock of an entity, or to keep it.
func (l *Loop[S, K]) wants(entity string) bool { return l.share.kept[entity] || l.mine(entity) }

// leaveTo leaves an entity to the loop that is to control it, for some time at least.
func (l *Loop[S, K]) leaveTo(name string) {
	l.own.elsewhere.remove(name)
	delete(l.own.taken, name)
	if !l.share.theirs.has[name] {
		l.share.theirs.Add(name)
		l.share.due.Set(name, time.Now().Add(takeTime))
	}
}

// handOver gives up what others are to control, when nothing is in flight of it: so there is never
// a time in which nobody decides about it because its lock waits for work.
func (l *Loop[S, K]) handOver() {
	if l.share.leaving.Len() == 0 || len(l.results) > 0 {
		return
	}
	for _, name := range l.share.leaving.Take() {
		switch {
		case !l.own.controlled[name]:
		case l.slots.of[name] > 0:
			l.share.leaving.Add(name)
		default:
			l.giveUp(name)
			l.leaveTo(name)
		}
	}
}

// findUntaken looks at some of the locks of what others are to control. When one is free, all are
// tried that are free still when whoever is to have them had time to take them.
func (l *Loop[S, K]) findUntaken() {
	s := &l.share
	some := s.theirs.First(retriedAtOnce)
	s.theirs.Add(some...)
	free := func(name string) bool {
		held, err := l.Log.Locked(lockOf(l.Fold.One, name))
		return err == nil && !held
	}
	if !slices.ContainsFunc(some, func(name string) bool { return s.due.At(name).IsZero() && free(name) }) {
		return
	}
	for _, name := range s.theirs.members {
		if s.due.At(name).IsZero() {
			s.due.Set(name, time.Now().Add(takeTime))
		}
	}
}

// takeUntaken has the locks tried that nobody seems to have taken.
func (l *Loop[S, K]) takeUntaken() {
	s := &l.share
	for name, due := s.due.Take(time.Now()); due; name, due = s.due.Take(time.Now()) {
		s.kept[name] = true
		l.own.candidates.Add(name)
	}
}

// forget has entities no more left to others.
func (s *share) forget(names ...string) {
	s.theirs.remove(names...)
	s.leaving.remove(names...)
	for _, name := range names {
		s.due.Set(name, never)
	}
}
