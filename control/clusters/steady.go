package clusters

import (
	"reflect"
	"slices"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// Controllers say of an object many times a day that they are at work on it. What is recorded, and
// ends a time for which a stage is to be well, is only what lasts.
const (
	mostWork = 2 * time.Minute // for which an object that is at work is what it was before
	pause    = 5 * time.Second // between sightings that differ only in how well objects are
)

// steady is what an object is taken to be.
type steady struct {
	shown *object.Reading // nil before anything was seen
	works *object.Reading // what it says where that is only that it is at work; nil otherwise
	since time.Time       // of works
}

// says is what it says from now on.
func (s *steady) says(r object.Reading, now time.Time) {
	if r.Working && s.shown != nil && !s.shown.Working && !s.shown.Unknown && s.shown.Revision == r.Revision {
		if s.works == nil {
			s.since = now
		}
		s.works = &r
		return
	}
	s.shown, s.works = &r, nil
}

// at is what it is taken to be now, and when that may be something else without its saying so.
func (s *steady) at(now time.Time) (r *object.Reading, again time.Time) {
	if s.works == nil {
		return s.shown, again
	}
	if end := s.since.Add(mostWork); now.Before(end) {
		return s.shown, end
	}
	s.shown, s.works = s.works, nil
	return s.shown, again
}

// told is what was told last of a stage.
type told struct {
	seen *promotion.Sighting // nil is nothing
	when time.Time
}

// next reports whether a sighting is to be told now, and if not, when.
func (t *told) next(seen promotion.Sighting, now time.Time) (tell bool, again time.Time) {
	if t.seen != nil {
		if reflect.DeepEqual(*t.seen, seen) {
			return false, again
		}
		same := slices.EqualFunc(t.seen.Hosts, seen.Hosts, func(a, b promotion.HostSighting) bool {
			return a.Revision == b.Revision && a.Unknown == b.Unknown
		})
		if at := t.when.Add(pause); same && now.Before(at) {
			return false, at
		}
	}
	t.seen, t.when = &seen, now
	return true, again
}

// sooner is the first of two times; a zero one is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
