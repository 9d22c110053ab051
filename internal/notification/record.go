package notification

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// The events of a notification, whose target is Target.
const (
	Begun     = "notification-begun"     // what comes later is told
	Delivered = "notification-delivered" //
	Abandoned = "notification-abandoned" // it was tried as often as is possible
	Retried   = "notification-retried"   // somebody wants what was abandoned to be told again
	Ended     = "notification-ended"     // there is no such rule any more
)

const kind = "notification"

// Target is the target of the events of a rule.
func Target(rule string) deploylog.Target { return deploylog.Target(kind + "/" + rule) }

// payload is the data of the events. Fields are only ever added.
type payload struct {
	Version int    `json:"version"`
	Event   int64  `json:"told,omitempty"`    // that is told
	Through int64  `json:"through,omitempty"` // nothing up to this event is to be told any more
	Tries   int    `json:"tries,omitempty"`
	Error   string `json:"error,omitempty"`
	By      string `json:"by,omitempty"`
}

// Status is how far a rule has got.
type Status struct {
	Name      string       `json:"name"`
	Active    bool         `json:"active"`  // a server has had it; false when it was taken out of the file
	Through   int64        `json:"through"` // the event up to which all is told
	Delivered int          `json:"delivered"`
	Last      time.Time    `json:"last,omitzero"` // that was delivered
	Abandoned []Abandoning `json:"abandoned"`
}

// Abandoning is what could not be told.
type Abandoning struct {
	Event int64     `json:"event"` // that should have been told
	Tries int       `json:"tries"`
	Error string    `json:"error"` // of the last
	At    time.Time `json:"at"`
	Again bool      `json:"again,omitempty"` // somebody wants it told again

	through int64
}

// Read folds the events of all rules, sorted by name.
func Read(ctx context.Context, log deploylog.Log) ([]Status, error) {
	known := map[string]*Status{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: kind + "/"}) {
		if err != nil {
			return nil, fmt.Errorf("reading the notifications in the log: %w", err)
		}
		name := strings.TrimPrefix(string(e.Target), kind+"/")
		s := known[name]
		if s == nil {
			s = &Status{Name: name, Abandoned: []Abandoning{}}
			known[name] = s
		}
		s.apply(e)
	}
	all := []Status{}
	for _, s := range known {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// apply folds an event. What it does not know changes nothing.
func (s *Status) apply(e deploylog.Event) {
	var p payload
	_ = json.Unmarshal(e.Data, &p) // what cannot be read says nothing
	at := slices.IndexFunc(s.Abandoned, func(a Abandoning) bool { return a.Event == p.Event })
	switch e.Name {
	case Begun:
		s.Active, s.Through = true, max(s.Through, p.Through)
	case Ended:
		s.Active = false
	case Delivered:
		s.Through, s.Last, s.Delivered = max(s.Through, p.Through), e.CreatedAt, s.Delivered+1
		if at >= 0 {
			s.Abandoned = slices.Delete(s.Abandoned, at, at+1)
		}
	case Abandoned:
		s.Through = max(s.Through, p.Through)
		if at >= 0 {
			s.Abandoned = slices.Delete(s.Abandoned, at, at+1)
		}
		s.Abandoned = append(s.Abandoned, Abandoning{Event: p.Event, Tries: p.Tries, Error: p.Error, At: e.CreatedAt, through: p.Through})
	case Retried:
		if at >= 0 {
			s.Abandoned[at].Again = true
		}
	}
}

// find returns the status of a rule; nil where the log has none.
func find(all []Status, rule string) *Status {
	i := slices.IndexFunc(all, func(s Status) bool { return s.Name == rule })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// retried is which event somebody wants told again by a rule; 0 when e does not say so.
func (r Rule) retried(e deploylog.Event) int64 {
	var p payload
	if e.Target != Target(r.Name) || e.Name != Retried || json.Unmarshal(e.Data, &p) != nil {
		return 0
	}
	return p.Event
}

// write appends an event of a rule.
func write(ctx context.Context, log deploylog.Log, rule, name string, p payload) error {
	e, err := encode(rule, name, p)
	if err == nil {
		_, err = log.Append(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("recording %s of the notification %s: %w", name, rule, err)
	}
	return nil
}

// encode is an event of a rule. There is one of each name with which all up to an event is told,
// or that has what was put aside there told again.
func encode(rule, name string, p payload) (deploylog.Event, error) {
	p.Version = 1
	data, err := json.Marshal(p)
	if err != nil {
		return deploylog.Event{}, fmt.Errorf("encoding %s: %w", name, err)
	}
	return deploylog.Event{
		Deployment: kind + "/" + rule + "/" + name + "/" + strconv.FormatInt(p.Through, 10) + "/" + strconv.FormatInt(p.Event, 10), Target: Target(rule), Name: name, Attempt: 1, Data: data,
	}, nil
}

// lockOf is the name of the lock that who tells by a rule holds.
func lockOf(rule string) string { return kind + "/" + rule }
