package pullrequest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest"
)

// Somebody merges between the moment at which the branches are read and that at which the pull
// requests are: that is not taken for something reverted.
func TestWhatIsMergedAtTheSameTimeIsNotProposedAgain(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Before(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/acme/deploy.git") {
				return false
			}
			w.forge.Before(nil)
			w.forge.Merge(1)
			return false
		})
		w.refused("2", "is merged just now")
		if o := w.propose("2"); o.Status != pullrequest.Taken || len(w.forge.Pulls()) != 1 {
			w.Errorf("it is %+v", o)
		}
	})
}

// A provider may show a pull request as merged before its branches are: that is not taken for
// something reverted either, whatever became of the branch, and for no longer than it may take.
func TestWhatIsMergedIsWaitedForUntilTheBaseBranchHasIt(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Lag(1, w.now)
		w.now = w.now.Add(30 * time.Second)
		w.refused("2", "pull request 1 is merged just now, and branch main does not have it")
		w.now = w.now.Add(-time.Minute) // as the clock of the provider is ahead
		w.refused("2", "pull request 1 is merged just now")
		if n := len(w.forge.Pulls()); n != 1 {
			w.Fatalf("there are %d pull requests", n)
		}
		w.forge.Merge(1)
		if o := w.propose("2"); o.Status != pullrequest.Taken || o.Number != 1 {
			w.Errorf("it is %+v", o)
		}
	})
	each(t, func(w *world) { // somebody has set the base branch back, in the same moment
		w.propose("2")
		w.forge.Lag(1, w.now)
		w.now = w.now.Add(3 * time.Minute)
		if o := w.propose("2"); o.Status != pullrequest.Proposed || o.Number != 2 {
			w.Errorf("it is %+v", o)
		}
	})
}
