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
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// HeldInfo is why an environment keeps hosts that its query no longer selects.
type HeldInfo struct {
	Reason string    `json:"reason"`
	Seq    int64     `json:"event"`
	Since  time.Time `json:"since"`
	digest string    // of the hosts that would leave
}

// refuses is why a group does not lose at once the hosts that are not selected any more,
// and which they are; "" if it does. What selects them is an inventory that somebody
// edits, and a mistake in it must not take the tasks of all hosts.
func (s *State) refuses(g definition.InstanceGroup, selected []string) (reason, digest string) {
	const named = 5
	stays := make(map[string]bool, len(selected))
	for _, name := range selected {
		stays[name] = true
	}
	var leaving []string
	desired := 0
	for _, h := range s.hosts {
		if h.desired {
			if desired++; !stays[h.name] {
				leaving = append(leaving, h.name)
			}
		}
	}
	most := g.MostLeaving(desired)
	if len(leaving) <= most {
		return "", ""
	}
	slices.Sort(leaving)
	sum := sha256.Sum256([]byte(strings.Join(leaving, "\n")))
	return fmt.Sprintf("%d of %s would leave at once, and max_leaving lets %d go: %s",
		len(leaving), phrase.Count(desired, "host"), most, phrase.First(leaving, named)), hex.EncodeToString(sum[:])
}

// holdsFor is why the environment holds when those hosts are selected, and which would
// leave; "" if it does not. A rollback goes back to hosts that it had.
func (s *State) holdsFor(selected []string) (reason, digest string) {
	d := s.definition()
	if d == nil || s.active.Kind == ByRollback && !s.hostsKnown && len(selected) > 0 {
		return "", ""
	}
	return s.refuses(d.InstanceGroup, selected)
}

// confirm lets the hosts go for which the environment holds, and no others: the inventory
// of who confirms may be older than what is held for, or be written at that moment.
func (s *State) confirm(c ConfirmHosts) ([]deploylog.Event, error) {
	if s.kept == nil {
		return nil, refusal.New(NothingToConfirm, "environment %s has nothing to confirm: it keeps no hosts that its query no longer selects", s.name)
	}
	if reason, digest := s.holdsFor(c.Hosts); reason != "" && digest != s.kept.digest {
		return nil, refusal.New(OthersWouldLeave, "environment %s holds for other hosts since event %d (%s), and others would leave now: %s; use the inventory for which it holds, or confirm again once the controller has seen this one (deployster env status %s)",
			s.name, s.kept.Seq, s.kept.Reason, reason, s.name)
	}
	events := s.changeHosts(SetHosts{Selected: c.Hosts, Known: c.Known})
	for i := range events {
		p := read(events[i].Data)
		p.By, p.Reason = c.By, c.Reason
		events[i].Data = p.data()
	}
	return events, nil
}
