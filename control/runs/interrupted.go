package runs

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// interrupted reports whether it is not known how the last action of a resource ended, and
// no run found the resource well since. What was done to it under a name that it had before counts.
func interrupted(ctx context.Context, log deploylog.Log, placed string) (bool, error) {
	is, err := pastActions{ctx, log}.interrupted(placed)
	if err != nil {
		return false, fmt.Errorf("reading what was done to %s last: %w", placed, err)
	}
	return is, nil
}

// pastActions reads what was done to resources.
type pastActions struct {
	ctx context.Context
	log deploylog.Log
}

func (p pastActions) interrupted(name string) (bool, error) {
	for until := int64(0); ; { // 0 is now
		action, err := p.last(deploylog.Filter{Target: actionTarget(name, ""), Until: until})
		if err != nil {
			return false, err
		}
		moved, err := p.last(deploylog.Filter{Target: resourceTarget(name), Name: EventResourceMoved, After: action.Seq, Until: until})
		if err != nil {
			return false, err
		}
		from := DataOf(moved).From
		if from == "" && !p.open(action) {
			return false, nil
		}
		well, err := p.last(deploylog.Filter{Target: resourceTarget(name), Name: resourceTarget("").Succeeded(), After: max(action.Seq, moved.Seq), Until: until})
		if err != nil || from == "" || well.Seq > 0 {
			return err == nil && well.Seq == 0, err
		}
		if name, until = from, moved.Seq-1; until <= 0 {
			return false, nil
		}
	}
}

// last is the newest event that a filter selects, the zero one of none.
func (p pastActions) last(f deploylog.Filter) (last deploylog.Event, err error) {
	f.Last = 1
	for e, err := range p.log.Read(p.ctx, f) {
		if err != nil {
			return last, err
		}
		last = e
	}
	return last, nil
}

// open reports whether the newest event of an action leaves open how it ended.
func (p pastActions) open(e deploylog.Event) bool {
	switch e.Name {
	case e.Target.Started():
		return e.Seq > 0 && !Alive(p.log, e.Deployment) // else it is going on
	case e.Target.Failed():
		return DataOf(e).Abandoned
	}
	return false
}
