package apply

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/runner/report"
)

// maxPlan is how large a plan or a report may be that is kept, as it is shown, in bytes.
const maxPlan = 16 << 20

// ErrNotPlanned is wrapped where a run is to be bound to a plan that is not there.
var ErrNotPlanned = errors.New("the server has no such plan, or not any more: plan again")

// planned is a plan that a process keeps to itself: who applies it names it, and can change
// nothing of it; or it is a report of drift.
type planned struct {
	request   Request
	salt      planfile.Salt
	engine    planfile.Engine
	log       planfile.Log
	resources []report.ResourcePlan
	shown     []byte // to people
	whole     bool   // it can be applied
	drift     bool   // it is no plan
}

// Plan has a run planned, which changes nothing and is not in the log, and returns when that
// has begun. What comes of it is found by the id of the run.
func (r *Runs) Plan(ctx context.Context, request Request) (*Served, error) {
	salt, err := planfile.NewSalt(rand.Reader)
	if err != nil {
		return nil, err
	}
	return r.look(ctx, request, "plan", func(all context.Context, run *Run) (*planned, error) {
		run.Spec.KeepGoing, run.Spec.Fingerprint = true, salt.Fingerprint
		log, err := run.LogNow(all)
		if err != nil {
			return nil, err
		}
		with, err := run.Runner(all)
		if err != nil {
			return nil, err
		}
		plan, failed := run.Plan(all, with)
		if plan == nil {
			return nil, failed
		}
		shown, err := planfile.Show(plan)
		return &planned{request: request, salt: salt, engine: run.Place(), log: log, resources: plan.Resources, shown: shown, whole: failed == nil}, errors.Join(failed, err)
	})
}

// Drift has the resources of manifests looked at, which changes nothing and is not in the log, and
// returns when that has begun. What comes of it is found by the id of the run.
func (r *Runs) Drift(ctx context.Context, request Request) (*Served, error) {
	return r.look(ctx, request, "drift", func(all context.Context, run *Run) (*planned, error) {
		with, err := run.Runner(all)
		if err != nil {
			return nil, err
		}
		report, failed := with.Drift(all, run.Caller)
		if report == nil {
			return nil, failed
		}
		shown, err := planfile.ShowDrift(report)
		return &planned{shown: shown, drift: true}, errors.Join(failed, err)
	})
}

// look has a run look at resources, and keeps what it has seen, also beside an error.
func (r *Runs) look(ctx context.Context, request Request, command string, do func(context.Context, *Run) (*planned, error)) (*Served, error) {
	return r.start(ctx, request, command, func(all context.Context, run *Run, one *Served) error {
		held, err := runs.Watch(run.Control)
		if err != nil {
			return err
		}
		defer held.End()
		run.Caller.Observer, run.Caller.Absence = one, held.Gone
		if command == "drift" { // a plan says it of what runs made
			held.MentionEngine(all, run.Owner())
		}
		seen, err := do(all, run)
		switch {
		case seen == nil || len(seen.shown) == 0:
		case len(seen.shown) > maxPlan:
			err = errors.Join(err, fmt.Errorf("what the %s shows has more than %d MiB, which a server keeps of none: ask for parts of it with --target", command, maxPlan>>20))
		default:
			one.keep(seen)
		}
		return err
	})
}

// planned is the plan that a request names, which must be of the same.
func (r *Runs) planned(request Request) (*planned, error) {
	one := r.Find(request.Plan)
	if one == nil {
		return nil, fmt.Errorf("plan %.100q: %w", request.Plan, ErrNotPlanned)
	}
	switch plan := one.kept(); {
	case plan == nil || plan.drift:
		return nil, fmt.Errorf("plan %.100q: %w", request.Plan, ErrNotPlanned)
	case !plan.whole:
		return nil, fmt.Errorf("plan %s is not whole: what failed can be neither planned nor applied", one.ID)
	case !request.plans(plan.request):
		return nil, fmt.Errorf("plan %s is of something else than what is to be applied: plan again", one.ID)
	default:
		return plan, nil
	}
}

// Planned is what a run has planned, as planfile.Shown reads it; nil of one that has not planned.
func (s *Served) Planned() []byte { return s.shown(false) }

// Drifted is the report of drift of a run, as planfile.ShownDrift reads it; nil of one that has none.
func (s *Served) Drifted() []byte { return s.shown(true) }

func (s *Served) shown(drift bool) []byte {
	if seen := s.kept(); seen != nil && seen.drift == drift {
		return seen.shown
	}
	return nil
}

func (s *Served) keep(p *planned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = p
}

func (s *Served) kept() *planned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan
}
