package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// hold is why an environment keeps hosts that are not selected any more, and which.
type hold struct {
	reason string // "" where it does not
	digest string
	hosts  []string // that would leave
}

// refuses is why a group does not lose at once the hosts that are not selected any more:
// what selects them is an inventory that somebody edits, and a mistake in it must not take
// the tasks of all hosts. Where the group is that of an earlier revision to which it goes
// back, only hosts with healthy tasks count: on others nothing can be lost.
func (s *State) refuses(g definition.InstanceGroup, selected []string, back bool) hold {
	const named = 5
	stays := make(map[string]bool, len(selected))
	for _, name := range selected {
		stays[name] = true
	}
	var leaving []string
	desired := 0
	for _, h := range s.hosts {
		if h.Desired || h.Spared {
			if desired++; !stays[h.Name] && (!back || h.AvailableTasks() > 0) {
				leaving = append(leaving, h.Name)
			}
		}
	}
	most := g.MostLeaving(desired)
	if len(leaving) <= most {
		return hold{}
	}
	slices.Sort(leaving)
	sum := sha256.Sum256([]byte(strings.Join(leaving, "\n")))
	return hold{fmt.Sprintf("%d of %s would leave at once, and max_leaving lets %d go: %s",
		len(leaving), phrase.Count(desired, "host"), most, phrase.First(leaving, named)), hex.EncodeToString(sum[:]), leaving}
}

// goesBack reports whether a rollback leads to the hosts of another query, which are those
// selected.
func (s *State) goesBack(selected []string) bool {
	return s.active.Kind == record.ByRollback && !s.hostsKnown && len(selected) > 0
}

// holdsFor is why the environment holds when those hosts are selected.
func (s *State) holdsFor(selected []string) hold {
	d := s.definition()
	if d == nil {
		return hold{}
	}
	return s.refuses(d.InstanceGroup, selected, s.goesBack(selected))
}

// heldEvents are the events by which the environment keeps the hosts that it has; none when
// it does so already. A rollback to the hosts of another query does not wait: it goes on
// with those, and leaves the tasks on the others alone.
func (s *State) heldEvents(c SetHosts, because hold) (events []deploylog.Event) {
	var were, are []string // not in the inventory
	for _, h := range s.hosts {
		if h.Absent {
			were = append(were, h.Name)
		}
		if !h.Lost && (h.Desired || len(h.Tasks) > 0) && c.Known != nil && !c.Known(h.Name) {
			are = append(are, h.Name)
		}
	}
	if s.kept != nil && s.kept.Digest == because.digest && slices.Equal(were, are) {
		return nil
	}
	var kept []string
	if s.goesBack(c.Selected) {
		kept = because.hosts
		events = s.changeHosts(c, kept)
	}
	return append(events, s.holdEvents(s.event(record.HostsHeld, record.Payload{}), because, are, kept)...)
}

// holdEvents are the events of a hold, made of the first of them, in parts that fit into
// the log.
func (s *State) holdEvents(first deploylog.Event, because hold, absent, kept []string) (events []deploylog.Event) {
	payloads := []record.Payload{}
	for _, part := range record.Parts(absent) {
		payloads = append(payloads, record.Payload{Lost: part})
	}
	for _, part := range record.Parts(kept) {
		payloads = append(payloads, record.Payload{Kept: part})
	}
	if len(payloads) == 0 {
		payloads = append(payloads, record.Payload{})
	}
	for i, p := range payloads {
		p.Reason, p.Held, p.More = because.reason, because.digest, i < len(payloads)-1
		e := first
		e.Attempt += i
		e.Data = p.Data()
		events = append(events, e)
	}
	return events
}

// applyHostsHeld folds in that the environment keeps its hosts. On those that are not in
// the inventory nothing is done until they are back, or let go.
func (s *State) applyHostsHeld(e deploylog.Event, p record.Payload) {
	if s.kept == nil || !s.kept.More {
		s.present(e.CreatedAt)
	}
	s.kept = &report.HeldInfo{Reason: p.Reason, Seq: e.Seq, Since: e.CreatedAt, Digest: p.Held, More: p.More}
	for _, name := range p.Lost {
		h := s.addHost(name)
		s.modify(h, e.CreatedAt, func() { h.SetAbsent(true) })
	}
	for _, name := range p.Kept {
		h := s.addHost(name)
		s.modify(h, e.CreatedAt, func() { h.Desired, h.Spared = false, true })
	}
	s.suspend(e.CreatedAt)
}

// present has all hosts in the inventory that are kept.
func (s *State) present(now time.Time) {
	for _, h := range s.hosts {
		if h.Absent {
			s.modify(h, now, func() { h.SetAbsent(false) })
		}
	}
}

// release ends that the environment keeps hosts.
func (s *State) release(now time.Time) {
	s.kept = nil
	s.present(now)
	for _, h := range s.hosts {
		if h.Spared {
			s.modify(h, now, func() { h.Spared = false })
		}
	}
}

// suspend lets no deadline pass while a person is waited for: the time that was left of
// it is left afterwards.
func (s *State) suspend(now time.Time) {
	waits := s.kept != nil && (!s.hostsKnown || s.total.absent > 0)
	switch {
	case waits && s.waiting.IsZero():
		s.waiting = now
	case !waits && !s.waiting.IsZero():
		if waited := now.Sub(latest(s.waiting, s.lastProgress)); waited > 0 {
			s.lastProgress = s.lastProgress.Add(waited)
		}
		s.waiting = time.Time{}
	}
}

// confirm lets the hosts go for which the environment holds, and no others: the inventory
// of who confirms may be older than what is held for, or be written at that moment.
func (s *State) confirm(c ConfirmHosts) ([]deploylog.Event, error) {
	if s.kept == nil {
		return nil, refusal.New(NothingToConfirm, "environment %s has nothing to confirm: it keeps no hosts that its query no longer selects", s.name)
	}
	if held := s.holdsFor(c.Hosts); held.reason != "" && held.digest != s.kept.Digest {
		return nil, refusal.New(OthersWouldLeave, "environment %s holds for other hosts since event %d (%s), and others would leave now: %s; use the inventory for which it holds, or confirm again once the controller has seen this one (deployster env status %s)",
			s.name, s.kept.Seq, s.kept.Reason, held.reason, s.name)
	}
	events := s.changeHosts(SetHosts{Selected: c.Hosts, Known: c.Known}, nil)
	for i := range events {
		p := record.Read(events[i].Data)
		p.By, p.Reason = c.By, c.Reason
		events[i].Data = p.Data()
	}
	return events, nil
}
