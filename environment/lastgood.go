package environment

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/refusal"
)

// LastGood is the revision that a Rollback goes back to where people name none: of those
// before the one that is deployed, the one whose deployment finished last and that was not
// reverted since. There is none while a rollback is under way: who names none may mean
// what that goes back to, and not the revision before.
func (s *State) LastGood() (report.Revision, error) {
	f := s.active
	switch {
	case !s.Exists():
		return report.Revision{}, refusal.New(UnknownEnvironment, "%w environment %q", ErrUnknown, s.name)
	case f == nil:
		return report.Revision{}, refusal.New(NothingDeployed, "nothing of environment %s is deployed: there is nothing to roll back", s.name)
	case f.Kind == record.ByDelete:
		return report.Revision{}, refusal.New(BeingDeleted, "environment %s is being deleted since event %d", s.name, f.Seq)
	case f.Kind == record.ByRollback && !s.finished:
		return report.Revision{}, refusal.New(BeingRolledBack, "environment %s is being rolled back to revision %d since event %d: for another, deployster env rollback %s --revision N", s.name, f.Revision, f.Seq, s.name)
	}
	if good := s.goodBefore(f.Revision); good != 0 {
		return s.revisions[good-1].Revision, nil
	}
	return report.Revision{}, refusal.New(NeverDeployed, "no deployment of a revision before %d of environment %s has finished: there is none to go back to; deployster env history %s lists what was deployed, and --revision takes any of it",
		f.Revision, s.name, s.name)
}

// goodBefore is the revision before another whose deployment finished last and that was
// not reverted since; 0 is none.
func (s *State) goodBefore(revision int) int {
	return s.goodWhere(revision, func(int) bool { return true })
}

// goodBeforeTask is the one before a revision whose task died in its bake, and that has
// another task: with the same one the same would die.
func (s *State) goodBeforeTask(revision int) int {
	return s.goodWhere(revision, func(good int) bool { return s.taskOf(good) != s.taskOf(revision) })
}

func (s *State) goodWhere(revision int, wanted func(good int) bool) int {
	for _, d := range slices.Backward(s.deployments) {
		finished := d.Kind != record.ByDelete && d.Status == report.DeploymentFinished && d.BakeFailed == ""
		if finished && d.Revision < revision && d.Revision >= s.firstRevision && !s.revisions[d.Revision-1].reverted && wanted(d.Revision) {
			return d.Revision
		}
	}
	return 0
}

// RollbackCommand is the command that goes back from what is being deployed; "" where
// there is no earlier revision that was good.
func (s *State) RollbackCommand() string {
	f := s.active
	if f == nil || f.Kind == record.ByDelete {
		return ""
	}
	good := s.goodBefore(f.Revision)
	switch {
	case good == 0:
		return ""
	case f.Kind == record.ByRollback && !s.finished: // which revision is meant must be said
		return fmt.Sprintf("deployster env rollback %s --revision %d", s.name, good)
	default:
		return "deployster env rollback " + s.name
	}
}
