package build

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// DefaultMaxLost is how often a job may be lost, unless a group says otherwise.
const DefaultMaxLost = 3

const (
	maxName = 300 // bytes, so that the target of a job fits into the log

	// maxPart is how much of the jobs one event has, in bytes.
	maxPart = 900 << 10
)

func (c Submit) propose(s *State, _ time.Time) ([]deploylog.Event, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	id := s.newID(c.Name)
	make := func(name string, attempt int, data any) deploylog.Event {
		return newEvent(id, record.Group(id), name, attempt, data)
	}
	events := []deploylog.Event{make(record.GroupTriggered, 1, c.Triggered)}
	if size := len(events[0].Data); size > deploylog.MaxData {
		return nil, refusal.New(InvalidGroup, "submitting build group %s: what it is made of takes %s, at most %s are possible: name fewer packages with --touched, or none, which are all", c.Name, phrase.Size(int64(size)), phrase.Size(deploylog.MaxData))
	}
	parts, created, err := c.parts()
	if err != nil {
		return nil, err
	}
	events = append(events, make(record.GroupCreated, 1, created))
	if size := len(events[1].Data); size > deploylog.MaxData {
		return nil, refusal.New(InvalidGroup, "submitting build group %s: its jobs are for %s, which are too many: use fewer queries", c.Name, phrase.Count(len(c.Places), "place"))
	}
	for i, part := range parts {
		events = append(events, make(record.JobsCreated, i+1, part))
	}
	return append(events, make(record.GroupQueued, 1, struct{}{})), nil
}

// newID is the id of the next group of a name.
func (s *State) newID(name string) string {
	for n := len(s.byName[name]) + 1; ; n++ {
		id := name + "-" + strconv.Itoa(n)
		if s.byID[id] == nil {
			return id
		}
	}
}

// check refuses a group that could never be built.
func (c Submit) check() error {
	refuse := func(format string, args ...any) error {
		return refusal.New(InvalidGroup, "submitting build group %.60s: %w", c.Name, fmt.Errorf(format, args...))
	}
	switch {
	case c.Name == "" || len(c.Name) > maxName || strings.HasPrefix(c.Name, "/") || strings.HasSuffix(c.Name, "/"):
		return refuse("its name must have 1 to %d bytes, and neither begin nor end with a slash", maxName)
	case len(c.Jobs) == 0 && len(c.Unbuildable) > 0:
		return refusal.New(NothingToBuild, "submitting build group %s: none of what it would build can be built (%s); the first, %.100s: %.500s", c.Name, phrase.Count(len(c.Unbuildable), "package"), c.Unbuildable[0].Package, c.Unbuildable[0].Cause)
	case len(c.Jobs) == 0:
		return refusal.New(NothingToBuild, "submitting build group %s: it has no jobs", c.Name)
	case len(c.Jobs) > maxJobs:
		return refuse("it has %d jobs, at most %d are possible", len(c.Jobs), maxJobs)
	case c.MaxLost < 0:
		return refuse("max_lost is %d, it must not be negative", c.MaxLost)
	}
	for i, spec := range c.Jobs {
		if spec.Place < 0 || spec.Place >= len(c.Places) {
			return refuse("job %d (%.60s) is for place %d of %d", i+1, spec.Package, spec.Place, len(c.Places))
		}
		for _, u := range spec.Uses {
			if u.Job < 0 || u.Job > i {
				return refuse("job %d (%.60s) uses job %d, which does not come before it", i+1, spec.Package, u.Job)
			}
		}
		for _, n := range spec.Waits {
			if n < 1 || n > i {
				return refuse("job %d (%.60s) waits for job %d, which does not come before it", i+1, spec.Package, n)
			}
		}
	}
	return nil
}

// parts are the jobs in parts that the log can hold, and what of the rest it holds at once.
func (c Submit) parts() (parts []record.Jobs, created record.Created, err error) {
	created = record.Created{Jobs: len(c.Jobs), Places: c.Places}
	size, part := 0, record.Jobs{From: 1}
	room := func(value any) error {
		text, err := json.Marshal(value)
		if err != nil || len(text) > maxPart {
			return refusal.New(InvalidGroup, "submitting build group %s: one of its jobs, or cycles, takes %s, at most %s are possible: it needs fewer others", c.Name, phrase.Size(int64(len(text))), phrase.Size(maxPart))
		}
		if size += len(text) + 1; size > maxPart {
			parts = append(parts, part)
			part, size = record.Jobs{From: part.From + len(part.Jobs)}, len(text)
		}
		return nil
	}
	for _, spec := range c.Jobs {
		if err := room(spec); err != nil {
			return nil, created, err
		}
		part.Jobs = append(part.Jobs, spec)
	}
	for _, cycle := range c.Cycles {
		if err := room(cycle); err != nil {
			return nil, created, err
		}
		part.Cycles = append(part.Cycles, cycle)
	}
	for _, u := range c.Unbuildable {
		if err := room(u); err != nil {
			return nil, created, err
		}
		part.Unbuildable = append(part.Unbuildable, u)
	}
	return append(parts, part), created, nil
}
