package clusters

import (
	"reflect"
	"slices"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// Controllers say of an object many times a day that they are at work on it, and write what they
// say in several steps. What is recorded, and what ends a time for which a stage is to be well, is
// only what lasts.
const (
	mostWork = 2 * time.Minute // for which an object that is at work is what it was before
	pause    = 5 * time.Second // between sightings that differ only in how well objects are

	// mostSettles is how many times the settle time an object has to be well that is written all the
	// time. The time for which its controller is at work does not count.
	mostSettles = 5
)

// steady is what an object is taken to be.
type steady struct {
	settle time.Duration // for which it must be well, and not be written, before that counts

	shown *object.Reading // nil before anything was seen
	well  object.Reading  // the last time that it was
	fewer time.Time       // since when it is given more Pods, or fewer; zero where it is not
	works *object.Reading // what it says where that is only that it is at work; nil otherwise
	since time.Time       // of works

	next    *object.Reading // what it says where that is well, and does not count yet; nil otherwise
	began   time.Time       // of next, later by the time for which its controller was at work since
	written time.Time       // the last time that the object was, of next
}

// says is what it says from now on.
func (s *steady) says(r object.Reading, now time.Time) {
	if r.Working && s.worksOn(r, now) {
		return
	}
	if s.works != nil {
		s.began, s.works = s.began.Add(now.Sub(s.since)), nil // it was not well meanwhile
	}
	if r.Healthy {
		s.fewer = time.Time{}
	}
	// A revision that is only declared does not run yet, so it settles after somebody has resumed the object.
	if r.Healthy && !r.Declared && s.settle > 0 && (s.shown == nil || !s.shown.Healthy || s.shown.Declared || s.shown.Revision != r.Revision) {
		s.settles(r, now)
		return
	}
	s.next = nil
	if r.Healthy && !r.Declared {
		s.well = r
	}
	switch scales := !r.Healthy && s.scales(r); {
	case !scales:
		s.fewer = time.Time{}
	case s.fewer.IsZero():
		s.fewer = now
	}
	r.Changing = r.Changing || !s.fewer.IsZero()
	s.shown = &r
}

// worksOn notes that its controller says that it is at work; false is that this is news.
func (s *steady) worksOn(r object.Reading, now time.Time) bool {
	settling := s.next != nil && s.next.Revision == r.Revision
	if !settling && (s.shown == nil || s.shown.Working || s.shown.Unknown || s.shown.Revision != r.Revision) {
		return false
	}
	if s.works == nil {
		s.since = now
	}
	s.works, s.written = &r, now
	if !settling {
		s.next = nil
	}
	return true
}

// settles notes that it says that it is well, which does not count yet.
func (s *steady) settles(r object.Reading, now time.Time) {
	if s.next == nil || s.next.Revision != r.Revision {
		s.began = now
	}
	s.next, s.written = &r, now
	if s.shown != nil && !s.shown.Unknown && s.shown.Revision != r.Revision {
		s.shown = &object.Reading{Revision: r.Revision, Why: "it has been well for less than " + definition.Duration(s.settle).String()}
	}
}

// scales reports whether as many Pods serve as before or as are wanted now: then the revision runs as
// well as it did, though it is given more Pods, or fewer.
func (s *steady) scales(r object.Reading) bool {
	return r.Revision != "" && r.Revision == s.well.Revision && r.Pods.Wanted > 0 && r.Pods.Serving >= min(s.well.Pods.Wanted, r.Pods.Wanted)
}

// at is what it is taken to be now, and when that may be something else without its saying so.
func (s *steady) at(now time.Time) (r *object.Reading, again time.Time) {
	if s.next != nil {
		end := s.written.Add(s.settle)
		if most := s.began.Add(mostSettles * s.settle); most.Before(end) {
			end = most
		}
		// What its controller is at work on may end otherwise.
		if works := s.since.Add(mostWork); s.works != nil && works.After(end) {
			end = works
		}
		if now.Before(end) {
			return s.shown, end
		}
		if s.works == nil {
			s.shown, s.well = s.next, *s.next
		}
		s.next = nil
	}
	switch {
	case s.works != nil:
		if end := s.since.Add(mostWork); now.Before(end) {
			return s.shown, end
		}
		s.works.Changing = false // it was to end by now
		s.shown, s.works = s.works, nil
	case !s.fewer.IsZero() && s.shown.Changing:
		if end := s.fewer.Add(mostWork); now.Before(end) {
			return s.shown, end
		}
		late := *s.shown
		late.Changing = false
		s.shown = &late
	}
	return s.shown, again
}

// told is what was told last of a stage.
type told struct {
	seen *promotion.Sighting // nil is nothing
	when time.Time
	well []string // the revision that each object was told to run well
}

// next reports whether a sighting is to be told now, and if not, when. What makes a stage less than it
// was is told at once, or it could go on meanwhile with what is not there any more; that the same
// revision is well again is told after a pause.
func (t *told) next(seen promotion.Sighting, now time.Time) (tell bool, again time.Time) {
	if t.seen != nil {
		if reflect.DeepEqual(*t.seen, seen) {
			return false, again
		}
		i := -1
		waits := slices.EqualFunc(t.seen.Hosts, seen.Hosts, func(before, now promotion.HostSighting) bool {
			i++
			better := before.Unhealthy && !now.Unhealthy && t.well[i] != now.Revision
			return before.Revision == now.Revision && before.Unknown == now.Unknown && !worse(before, now) && !better
		})
		if at := t.when.Add(pause); waits && now.Before(at) {
			return false, at
		}
	}
	t.seen, t.when = &seen, now
	if t.well == nil {
		t.well = make([]string, len(seen.Hosts))
	}
	for i, h := range seen.Hosts {
		if h.Revision != "" && !h.Unhealthy && !h.Unknown {
			t.well[i] = h.Revision
		}
	}
	return true, again
}

// worse reports whether an object that runs what it ran is less well than it was.
func worse(before, now promotion.HostSighting) bool {
	return now.Unhealthy && !before.Unhealthy || before.Changing && now.Unhealthy && !now.Changing || lacks(now) && !lacks(before)
}

// lacks reports whether a suspended workload has fewer Pods than it is to have.
func lacks(h promotion.HostSighting) bool { return h.Fewer != nil && *h.Fewer != "" }

// sooner is the first of two times; a zero one is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
