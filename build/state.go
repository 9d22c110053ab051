package build

import (
	"strings"
	"time"

	"github.com/deployster-go/deployster/build/block"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/reusable"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/heap"
)

// State is all build groups of a log. It is not safe for concurrent use, not even its methods
// that only read.
type State struct {
	name   string
	head   int64
	groups []*group // in order
	byID   map[string]*group
	last   *group // that was asked for by its id
	byName map[string][]*group

	queued []*group // in order
	active []*group // those of which jobs may run, in order

	places  []record.Place
	placeAt map[record.Place]int

	reusable reusable.Table                   // by input hash
	unpushed map[record.Hash]*record.Finished // of those, by a job that failed because it could not be pushed
	spoiled  map[record.Hash]bool             // digests that are missing or altered
	took     map[string]*lasted               // by name of groups
	backoffs heap.Heap[backoff]

	tries tries

	named  record.Numbers // room to read them
	uses   block.Of[Dependency]
	events block.Of[deploylog.Event]
	text   block.Of[byte]
	texts  block.Texts
}

// New returns the state of a log without build groups.
func New(name string) *State {
	return &State{
		name: name, byID: map[string]*group{}, byName: map[string][]*group{}, placeAt: map[record.Place]int{},
		unpushed: map[record.Hash]*record.Finished{}, spoiled: map[record.Hash]bool{}, took: map[string]*lasted{},
	}
}

// Name is the one that it was made with.
func (s *State) Name() string { return s.name }

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Apply folds an event. One that does not fit changes nothing: history is never refused.
func (s *State) Apply(e deploylog.Event) {
	s.head = e.Seq
	if s.keep(&e) {
		return
	}
	s.takeBack()
	id, number, ok := record.Parse(e.Target)
	if !ok {
		return
	}
	g := s.group(id)
	switch {
	case g == nil:
		if number == 0 && e.Name == record.GroupTriggered {
			s.trigger(id, &e)
		}
	case number == 0:
		s.applyToGroup(g, &e)
	case number <= len(g.jobs):
		s.applyToJob(g, int32(number-1), &e)
	}
}

// group is the group with an id, nil without one. Most are asked for again at once.
func (s *State) group(id string) *group {
	if s.last == nil || s.last.id != id {
		if g := s.byID[id]; g != nil {
			s.last = g
		} else {
			return nil
		}
	}
	return s.last
}

// trigger adds a group.
func (s *State) trigger(id string, e *deploylog.Event) {
	data := record.Decode[record.Triggered](*e)
	if data.Name == "" {
		data.Name = id
		if i := strings.LastIndexByte(id, '-'); i > 0 {
			data.Name = id[:i]
		}
	}
	g := &group{
		id: id, name: data.Name, at: len(s.groups), triggered: data, seq: e.Seq, createdAt: e.CreatedAt,
		attempts: map[string]int{}, notes: map[note]int{},
	}
	s.groups, s.byID[id] = append(s.groups, g), g
	s.byName[g.name] = append(s.byName[g.name], g)
	s.applyToGroup(g, e)
}

// place is the index of a place among those of all groups.
func (s *State) place(p record.Place) int {
	i, known := s.placeAt[p]
	if !known {
		i = len(s.places)
		s.places, s.placeAt[p] = append(s.places, p), i
	}
	return i
}

// The most that one piece of memory has room for.
const (
	usesBlock   = 256
	eventsBlock = 64
	textBlock   = 16 << 10
)

// backoff is that a job is not dispatched before a time.
type backoff struct {
	until   time.Time
	pause   time.Duration
	g       *group
	job     int32
	attempt int32
}

// Before reports whether a backoff ends before another.
func (r backoff) Before(o backoff) bool { return r.until.Before(o.until) }
