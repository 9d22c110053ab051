package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// EventRunAbandoned says that nobody waits any longer for what a dead run left on
// an engine that cannot be asked.
const EventRunAbandoned = "run-abandoned"

// history is what the log holds of a run.
type history struct {
	id        string
	target    deploylog.Target
	since     time.Time
	used      EngineUsed
	open      []deploylog.Event // began and has no end, last started first
	abandoned bool
	lost      bool // its process recorded that it did not see the end of something
}

// readHistory reads what the log holds of a run.
func readHistory(ctx context.Context, log deploylog.Log, run string) (*history, error) {
	type key struct {
		target  deploylog.Target
		attempt int
	}
	h := &history{id: run}
	if run == "" {
		return h, nil // which as a filter is any
	}
	var started []deploylog.Event
	ended := map[key]bool{}
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: run}) {
		if err != nil {
			return nil, fmt.Errorf("reading what run %s did: %w", run, err)
		}
		if h.since.IsZero() {
			h.since, h.target = e.CreatedAt, e.Target
		}
		switch e.Name {
		case e.Target.Started():
			started = append(started, e)
			if e.Target.Kind() == "run" {
				h.target, h.used = e.Target, usedBy(e)
			}
		case e.Target.Succeeded(), e.Target.Failed():
			ended[key{e.Target, e.Attempt}] = true
		case EventRunAbandoned:
			h.abandoned = true
		case lost(e.Target):
			h.lost = true
		}
	}
	for i := len(started) - 1; i >= 0; i-- {
		if e := started[i]; !ended[key{e.Target, e.Attempt}] {
			h.open = append(h.open, e)
		}
	}
	return h, nil
}

// usedBy is the engine that a run-started records. Old versions recorded only what
// people read of it.
func usedBy(started deploylog.Event) EngineUsed {
	p := payloadOf(started)
	u := EngineUsed{}
	if p.Engine != nil {
		u = *p.Engine
	}
	kind, _, _ := strings.Cut(p.Details["engine"], " ")
	u.Kind, u.Address = cmp.Or(u.Kind, kind), cmp.Or(u.Address, p.Details["engine_address"])
	u.Host, u.User = p.Details["host"], p.Details["user"]
	return u
}

// Acting is an action that began and has no end in the log.
type Acting struct{ Resource, Action string }

// acting lists the actions that have no end.
func (h *history) acting() (all []Acting) {
	for _, e := range h.open {
		if kind, rest, _ := strings.Cut(string(e.Target), "/"); kind == "action" {
			resource, action, _ := strings.Cut(rest, "/")
			all = append(all, Acting{resource, action})
		}
	}
	return all
}

// Unfinished is a run that has no end in the log.
type Unfinished struct {
	Run       string
	Target    deploylog.Target
	Since     time.Time
	Used      EngineUsed
	Acting    []Acting // actions without an end
	Alive     bool     // its process is there
	Abandoned bool     // see Abandon
}

func (h *history) unfinished(log deploylog.Log) Unfinished {
	return Unfinished{
		Run: h.id, Target: h.target, Since: h.since, Used: h.used, Acting: h.acting(), Alive: Alive(log, h.id), Abandoned: h.abandoned,
	}
}

// UnfinishedRuns returns the runs of which something at a target has no end, in
// the order in which they began; "" is any target, for which the whole log is
// read.
func UnfinishedRuns(ctx context.Context, log deploylog.Log, target deploylog.Target) ([]Unfinished, error) {
	var runs []string
	seen := map[string]bool{}
	add := func(e deploylog.Event) {
		if !seen[e.Deployment] {
			seen[e.Deployment] = true
			runs = append(runs, e.Deployment)
		}
	}
	if target != "" {
		open, err := log.InProgress(ctx, target)
		if err != nil {
			return nil, fmt.Errorf("looking for unfinished runs: %w", err)
		}
		for _, e := range open {
			add(e)
		}
	} else {
		for e, err := range log.Read(ctx, deploylog.Filter{Name: deploylog.Target("run/").Started()}) {
			if err != nil {
				return nil, fmt.Errorf("looking for unfinished runs: %w", err)
			}
			add(e)
		}
	}
	var all []Unfinished
	for _, run := range runs {
		h, err := readHistory(ctx, log, run)
		if err != nil {
			return nil, err
		}
		if len(h.open) > 0 {
			all = append(all, h.unfinished(log))
		}
	}
	return all, nil
}

// The reasons why a run cannot be abandoned.
var (
	ErrNoSuchRun = errors.New("there is no such run in the log")
	ErrRunEnded  = errors.New("it has ended, and nothing waits for it")
	ErrRunAlive  = errors.New("its process is still there: interrupt that instead")
)

// Abandon records, in the name of somebody, that what a dead run left on an
// engine that cannot be asked is not waited for: they know that nothing of it is
// at work any more. It fails with ErrNoSuchRun, ErrRunEnded or ErrRunAlive.
func Abandon(ctx context.Context, log deploylog.Log, run string, by map[string]string) error {
	h, err := readHistory(ctx, log, run)
	switch {
	case err != nil:
		return err
	case h.since.IsZero() || h.target.Kind() != "run":
		return ErrNoSuchRun
	case len(h.open) == 0:
		return ErrRunEnded
	case h.abandoned:
		return nil
	}
	if Alive(log, run) {
		return ErrRunAlive
	}
	r := &Run{o: Options{Log: log}}
	err = r.append(ctx, run, h.open[0].Revision, h.target, EventRunAbandoned, 1, payload{Details: by})
	if errors.Is(err, deploylog.ErrDuplicate) {
		return nil
	}
	return err
}
