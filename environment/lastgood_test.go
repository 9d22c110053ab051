package environment

import (
	"errors"
	"testing"

	"github.com/deployster-go/deployster/internal/refusal"
)

// lastGood wants a revision to be the one to go back to; 0 is none, for a reason.
func (w *world) lastGood(want int, code refusal.Code) {
	w.Helper()
	r, err := w.state.LastGood()
	var refused *refusal.Error
	if errors.As(err, &refused); r.Number != want || (err == nil) != (code == "") || err != nil && refused.Code != code {
		w.Errorf("the last good revision is %d (%v), want %d (%s)", r.Number, err, want, code)
	}
}

func (w *world) back(revision int) {
	w.Helper()
	w.propose(Rollback{Revision: revision, Hosts: hosts(1)})
}

func TestTheLastGoodRevisionIsTheOneThatFinishedLastBeforeTheOneDeployed(t *testing.T) {
	w := newWorld(t)
	w.lastGood(0, UnknownEnvironment)
	w.propose(Create{Definition: definition(func(d *Definition) { d.Deployment.MinHealthyPercent = 0 })})
	w.lastGood(0, NothingDeployed)
	w.propose(Deploy{Revision: 1, Hosts: hosts(1)})
	w.lastGood(0, NeverDeployed)
	w.done("start 1 h1")
	w.update(image("log-daemon:2"), hosts(1))
	w.lastGood(1, "") // also while it is under way
	w.done("terminate 1 h1", "start 2 h1")
	w.update(image("log-daemon:3"), hosts(1)) // never finishes
	w.update(image("log-daemon:4"), hosts(1))
	w.lastGood(2, "")
	w.done("terminate 2 h1", "start 4 h1")
	w.lastGood(2, "")
	w.back(2)
	w.lastGood(1, "") // not forth again to what was reverted
	w.done("terminate 4 h1", "start 2 h1")
	w.lastGood(1, "")
	w.back(1)
	w.lastGood(0, NeverDeployed)
	w.done("terminate 2 h1", "start 1 h1")
	w.update(image("log-daemon:5"), hosts(1))
	w.lastGood(1, "") // 2 and 4 were reverted
	w.propose(Delete{TerminateTasks: true})
	w.lastGood(0, BeingDeleted)
	w.done("terminate 1 h1")
	w.propose(Create{Definition: definition(nil)})
	w.propose(Deploy{Revision: 6, Hosts: hosts(1)})
	w.lastGood(0, NeverDeployed) // what was deleted is none to go back to
}
