package runs

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// lastRuns is how many of the last runs are looked through for one that used an address.
const lastRuns = 200

// mentionEngine says once, of what is applied in places, that another engine answers at an address than the one
// that the last run there used. A run of a manifest says so itself, of what it has made.
func (r *Run) mentionEngine(ctx context.Context, now EngineUsed) {
	if r.o.Place == "" || now.ID == "" || now.Address == "" {
		return
	}
	was, by, known := r.o.Sweeps.engineAt(now, r.o.ID)
	if !known {
		was, by = r.lastAt(ctx, now, func(deploylog.Event) bool { return true })
	}
	if was == "" || was == now.ID {
		return
	}
	r.o.Notice(replaced(now, was, by) + "what is missing there is created, and what the former engine has stays there. Correct the address if this is not what you mean")
}

// MentionEngine says, of a run that only looks, that another engine answers at its address than the one that the last
// run of a manifest there used.
func (r *Run) MentionEngine(ctx context.Context, of Owner) {
	if r.o.Engines == nil {
		return
	}
	now := r.o.Engines.Used(ctx)
	if now.ID == "" || now.Address == "" {
		return
	}
	if was, by := r.lastAt(ctx, now, func(e deploylog.Event) bool { return isOf(e, of) }); was != "" && was != now.ID {
		r.o.Notice(replaced(now, was, by) + "it has nothing of what that run made. Correct the address if this is not what you mean")
	}
}

// replaced says which engine answers at an address, and which did before.
func replaced(now EngineUsed, was, by string) string {
	return fmt.Sprintf("another engine answers at %s than the one that run %s used (it was %q, and is %q): ", now.Address, by, was, now.ID)
}

// lastAt returns which engine the last run at an address used, and that run, of those that began with such an event;
// "" is not known. At worst nothing is said.
func (r *Run) lastAt(ctx context.Context, now EngineUsed, began func(deploylog.Event) bool) (id, run string) {
	for e, err := range r.o.Log.Read(ctx, deploylog.Filter{Target: "run/", Name: deploylog.Target("run/").Started(), Last: lastRuns}) {
		if err != nil {
			return "", ""
		}
		if used := usedBy(e); used.ID != "" && used.sharesAddress(now) && began(e) {
			id, run = used.ID, e.Deployment
		}
	}
	return id, run
}

// sharesAddress reports whether two engines are of one kind and at one address, which means another place on
// another machine if the engine is local.
func (u EngineUsed) sharesAddress(other EngineUsed) bool {
	elsewhere := u.Local && other.Local && u.Machine != "" && other.Machine != "" && u.Machine != other.Machine
	return u.Kind == other.Kind && u.Address == other.Address && !elsewhere
}

// seenEngine is which engine a run of the process found at an address.
type seenEngine struct{ id, run string }

// engineAt returns which engine runs of the process found at an address before, and notes which a run finds
// there now. known is false if none was there; without Sweeps none ever was.
func (s *Sweeps) engineAt(now EngineUsed, run string) (id, by string, known bool) {
	if s == nil {
		return "", "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := now.Kind + " " + now.Address
	was, known := s.engines[key]
	if !known || was.id != now.ID {
		s.engines[key] = seenEngine{now.ID, run}
	}
	return was.id, was.run, known
}
