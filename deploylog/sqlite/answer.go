package sqlite

import "github.com/deployster-go/deployster/deploylog"

// mark is an event of a batch and where its deployment was registered.
type mark struct {
	event      *deploylog.Event
	registered int64
}

// outcome and attempts are keys of the tables latest and in_progress.
type (
	outcome struct {
		target deploylog.Target
		name   string
	}
	attempts struct {
		target     deploylog.Target
		registered int64
	}
)

// answer keeps the answers to Latest and InProgress up to date with the events
// of the batch. Much of a batch cancels out before it reaches the tables: what
// is started in it often ends in it.
func (b *batch) answer() error {
	latest := map[outcome]mark{}
	ended := map[attempts]int{}  // the highest attempt that ended in the batch
	begun := map[attempts]bool{} // whose first attempt started in the batch
	var started []mark
	for _, m := range b.marks {
		t, key := m.event.Target, attempts{m.event.Target, m.registered}
		switch m.event.Name {
		case t.Started():
			started = append(started, m)
			begun[key] = begun[key] || m.event.Attempt == 1
		case t.Succeeded(), t.Failed():
			ended[key] = max(ended[key], m.event.Attempt)
			o := outcome{t, m.event.Name}
			if last, ok := latest[o]; !ok || m.registered >= last.registered {
				latest[o] = m
			}
		}
	}
	for o, m := range latest {
		if err := b.w.stmts.latest.exec(string(o.target), o.name, m.registered, m.event.Seq); err != nil {
			return err
		}
	}
	for key, attempt := range ended {
		if attempt == 1 && begun[key] {
			continue // there is no other attempt that it could end
		}
		if err := b.w.stmts.ended.exec(string(key.target), key.registered, int64(attempt)); err != nil {
			return err
		}
	}
	for _, m := range started {
		e, t := m.event, m.event.Target
		if e.Attempt <= ended[attempts{t, m.registered}] {
			continue
		}
		// What ends an attempt may have been appended before what starts it.
		if err := b.w.stmts.started.exec(string(t), m.registered, e.Seq, int64(e.Attempt), e.Deployment, t.Succeeded(), t.Failed()); err != nil {
			return err
		}
	}
	return nil
}
