package environment

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
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
	w.propose(Rollback{Revision: revision, Hosts: hostNames(1)})
}

func TestTheLastGoodRevisionIsTheOneThatFinishedLastBeforeTheOneDeployed(t *testing.T) {
	w := newWorld(t)
	w.lastGood(0, UnknownEnvironment)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })})
	w.lastGood(0, NothingDeployed)
	w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
	w.lastGood(0, NeverDeployed)
	w.done("start 1 h1")
	w.update(image("log-daemon:2"), hostNames(1))
	w.lastGood(1, "") // also while it is under way
	w.done("terminate 1 h1", "start 2 h1")
	w.update(image("log-daemon:3"), hostNames(1)) // never finishes
	w.update(image("log-daemon:4"), hostNames(1))
	w.lastGood(2, "")
	w.done("terminate 2 h1", "start 4 h1")
	w.lastGood(2, "")
	w.back(2)
	w.lastGood(0, BeingRolledBack)
	w.done("terminate 4 h1", "start 2 h1")
	w.lastGood(1, "") // not forth again to what was reverted
	w.back(1)
	w.lastGood(0, BeingRolledBack)
	w.done("terminate 2 h1", "start 1 h1")
	w.lastGood(0, NeverDeployed)
	w.update(image("log-daemon:5"), hostNames(1))
	w.lastGood(1, "") // 2 and 4 were reverted
	w.propose(Delete{TerminateTasks: true})
	w.lastGood(0, BeingDeleted)
	w.done("terminate 1 h1")
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 6, Hosts: hostNames(1)})
	w.lastGood(0, NeverDeployed) // what was deleted is none to go back to
}

// Who names no revision means what was seen: not the revision before the one to which the
// environment is just going back by itself.
func TestARollbackToTheLastGoodRevisionGoesNoFurtherThanWasMeant(t *testing.T) {
	three := func(t *testing.T) *world {
		w := deployed(t, 1, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
		w.update(image("log-daemon:2"), hostNames(1))
		w.done("terminate 1 h1", "start 2 h1")
		w.update(func(d *definition.Definition) { image("log-daemon:3")(d); d.Deployment.AutoRollback = true }, hostNames(1))
		return w
	}
	back := func(revision int) Rollback {
		return Rollback{Revision: revision, LastGood: true, Hosts: hostNames(1), By: "alice@host"}
	}
	w := three(t)
	w.refuses(back(1), OtherLastGood)
	w.done("terminate 2 h1")
	w.fails("start 3 h1", "no route")
	w.after(time.Hour)
	w.steps()
	f, _ := w.state.ActiveDeployment()
	if f.Revision != 2 || !f.Automatic {
		t.Fatalf("it does not go back by itself: %+v", f)
	}
	for revision := range 4 {
		err := w.refuses(back(revision), BeingRolledBack)
		for _, want := range []string{"being rolled back to revision 2", fmt.Sprintf("since event %d", f.Seq), "--revision"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: it does not say %q", err, want)
			}
		}
	}
	w.done("terminate 3 h1", "start 2 h1")
	w.refuses(back(2), OtherLastGood)
	w.propose(back(1)) // a second rollback goes further back
	w.refuses(back(1), BeingRolledBack)

	w = three(t)
	w.propose(back(2))
	w.propose(Rollback{Revision: 1, Hosts: hostNames(1)}) // which is named
}
