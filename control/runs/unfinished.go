package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// EventRunAbandoned says that nobody waits any longer for what a dead run left on
// an engine that cannot be asked.
const EventRunAbandoned = "run-abandoned"

// Unfinished is a run that has no end in the log.
type Unfinished struct {
	Run       string
	Target    deploylog.Target
	Since     time.Time
	Used      EngineUsed
	Acting    []Acting // actions without an end
	Alive     bool     // its process is there; set by UnfinishedRuns
	Abandoned bool     // see Abandon

	open []deploylog.Event // began and has no end, last started first
	lost bool              // its process recorded that it did not see the end of something
}

// Acting is an action that began and has no end in the log.
type Acting struct{ Resource, Action string }

// readRun reads what of a run has no end in the log, which may be nothing.
func readRun(ctx context.Context, log deploylog.Log, run string) (*Unfinished, error) {
	u := &Unfinished{Run: run}
	if run == "" {
		return u, nil // which as a filter is any
	}
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: run}) {
		if err != nil {
			return nil, fmt.Errorf("reading what run %s did: %w", run, err)
		}
		if u.Since.IsZero() {
			u.Since, u.Target = e.CreatedAt, e.Target
		}
		switch e.Name {
		case e.Target.Started():
			u.open = append(u.open, e)
			if e.Target.Kind() == "run" {
				u.Target, u.Used = e.Target, usedBy(e)
			}
		case e.Target.Succeeded(), e.Target.Failed():
			u.open = slices.DeleteFunc(u.open, func(o deploylog.Event) bool { return o.Target == e.Target && o.Attempt == e.Attempt })
		case EventRunAbandoned:
			u.Abandoned = true
		case lost(e.Target):
			u.lost = true
		}
	}
	slices.Reverse(u.open)
	for _, e := range u.open {
		if kind, resource, action := parts(e.Target); kind == "action" {
			u.Acting = append(u.Acting, Acting{resource, action})
		}
	}
	return u, nil
}

// parts are the kind of a target of a run, its resource, and the name of an action.
func parts(t deploylog.Target) (kind, resource, action string) {
	kind, resource, _ = strings.Cut(string(t), "/")
	if kind == "action" {
		resource, action, _ = strings.Cut(resource, "/")
	}
	return kind, resource, action
}

// acts reports whether an action of a resource has no end.
func (u *Unfinished) acts(resource string) bool {
	return slices.ContainsFunc(u.Acting, func(a Acting) bool { return a.Resource == resource })
}

// usedBy is the engine that a run-started records. Old versions recorded only what
// people read of it.
func usedBy(started deploylog.Event) EngineUsed {
	p := DataOf(started)
	u := EngineUsed{}
	if p.Engine != nil {
		u = *p.Engine
	}
	kind, _, _ := strings.Cut(p.Details["engine"], " ")
	u.Kind, u.Address = cmp.Or(u.Kind, kind), cmp.Or(u.Address, p.Details["engine_address"])
	u.Host, u.User = p.Details["host"], p.Details["user"]
	return u
}

// String says how it stands with the run.
func (u Unfinished) String() string {
	by := ""
	switch {
	case u.Used.Host != "":
		by = " by " + cmp.Or(u.Used.User, "somebody") + " on " + u.Used.Host
	case u.Used.User != "":
		by = " by " + u.Used.User
	}
	text := fmt.Sprintf("run %s, begun %s%s, ", u.Run, u.Since.UTC().Format(timeFormat), by)
	switch {
	case u.Alive:
		return text + "is at work on " + u.Used.String()
	case len(u.Acting) == 0:
		return text + "exited without output"
	}
	actions := make([]string, len(u.Acting))
	for i, a := range u.Acting {
		actions[i] = fmt.Sprintf("action %q of %s", a.Action, a.Resource)
	}
	text += fmt.Sprintf("did not see the end of %s on %s", strings.Join(actions, ", "), u.Used)
	if u.Abandoned {
		text += ", and was abandoned"
	}
	return text
}

// timeFormat is how people read when a run began.
const timeFormat = "2006-01-02 15:04:05 MST"

// HeldError is why a resource is not touched: an action that a dead run left may
// still be at work on it, and nobody can say whether it is.
type HeldError struct {
	Run   Unfinished
	Cause error // why the engine cannot be asked
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("held: %s, which may still be at work, and that engine cannot be asked: %s\n"+
		"Let it answer and try again. Where you know that nothing of that run is at work any more, say --abandon %s",
		e.Run, firstLine(e.Cause), e.Run.Run)
}

func (e *HeldError) Unwrap() error { return e.Cause }

// firstLine is an error without what comes in further lines.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ".")
}

// UnfinishedRuns returns the runs of which something at a target has no end, in
// the order in which they began; "" is any target, for which the whole log is
// read.
func UnfinishedRuns(ctx context.Context, log deploylog.Log, target deploylog.Target) ([]Unfinished, error) {
	var began []deploylog.Event
	var err error
	if target != "" {
		if began, err = log.InProgress(ctx, target); err != nil {
			return nil, fmt.Errorf("looking for unfinished runs: %w", err)
		}
	} else {
		for e, err := range log.Read(ctx, deploylog.Filter{Name: deploylog.Target("run/").Started()}) {
			if err != nil {
				return nil, fmt.Errorf("looking for unfinished runs: %w", err)
			}
			began = append(began, deploylog.Event{Deployment: e.Deployment}) // of a long log no more is kept
		}
	}
	var all []Unfinished
	seen := map[string]bool{}
	for _, e := range began {
		if seen[e.Deployment] {
			continue
		}
		seen[e.Deployment] = true
		u, err := readRun(ctx, log, e.Deployment)
		if err != nil {
			return nil, err
		}
		if len(u.open) > 0 {
			u.Alive = Alive(log, u.Run)
			all = append(all, *u)
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
	u, err := readRun(ctx, log, run)
	switch {
	case err != nil:
		return err
	case u.Since.IsZero() || u.Target.Kind() != "run":
		return ErrNoSuchRun
	case len(u.open) == 0:
		return ErrRunEnded
	case u.Abandoned:
		return nil
	case Alive(log, run):
		return ErrRunAlive
	}
	began := deploylog.Event{Deployment: run, Revision: u.open[0].Revision, Target: u.Target, Attempt: 1}
	return appendOnce(ctx, log, began, EventRunAbandoned, Data{Details: by})
}
