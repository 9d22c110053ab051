package pullrequest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/pullrequest"
)

// Who holds a stage while a process is about to propose to it has it do nothing more, whatever that has
// done already.
func TestNothingMoreIsDoneThatIsHeldInBetween(t *testing.T) {
	each(t, func(w *world) {
		held := errors.New("the stage is held")
		proposes := func(revision string, changes int) {
			t.Helper()
			_, err := w.client.Propose(w.Context(), w.place, wanted(revision), func(context.Context) error {
				if changes--; changes < 0 {
					return held
				}
				return nil
			})
			if !errors.Is(err, held) || !errors.Is(err, pullrequest.ErrForbidden) {
				w.Errorf("revision %s: %v", revision, err)
			}
		}
		proposes("2", 0)
		if w.forge.Head(branch) != "" {
			w.Error("a branch was pushed")
		}
		proposes("2", 1)
		if len(w.forge.Pulls()) != 0 {
			w.Errorf("opened: %+v", w.forge.Pulls())
		}
		w.propose("2")
		proposes("3", 1)
		if p := w.forge.Pulls(); len(p) != 1 || !strings.HasSuffix(p[0].Title, "revision 2") {
			w.Errorf("changed: %+v", p)
		}
		if err := w.client.Withdraw(w.Context(), w.place, func(context.Context) error { return held }); !errors.Is(err, held) {
			w.Errorf("withdrawn: %v", err)
		}
		if p := w.forge.Pulls(); p[0].State != "open" || w.forge.Head(branch) == "" {
			w.Errorf("withdrawn: %+v", p)
		}
	})
}
