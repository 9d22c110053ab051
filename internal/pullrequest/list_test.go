package pullrequest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest"
)

// A provider may give smaller pages than it is asked for.
func TestSmallPagesAreAllRead(t *testing.T) {
	each(t, func(w *world) {
		w.forge.PageSize = 7
		w.propose("2")
		for range 30 {
			w.forge.Fork(branch, "main", "mine", "open")
		}
		if o := w.propose("2"); o.Number != 1 || len(w.forge.Pulls()) != 31 {
			w.Errorf("it is %+v", o)
		}
		w.forge.Decline(1)
		for range 30 {
			w.forge.Fork(branch, "main", "mine", "closed")
		}
		w.again()
		if o := w.propose("2"); o.Status != pullrequest.Declined || o.Number != 1 {
			w.Errorf("it is %+v", o)
		}
	})
}

// However many pull requests others have closed since, a decline is found.
func TestADeclineIsFoundAmongMany(t *testing.T) {
	w := newWorld(t, "gitea")
	w.propose("2")
	w.forge.Decline(1)
	for range 300 {
		w.forge.Fork("other", "main", "mine", "closed")
	}
	if o := w.propose("2"); o.Status != pullrequest.Declined || o.Number != 1 {
		t.Errorf("it is %+v", o)
	}
	asked := func() (n int) {
		for _, r := range w.forge.Requests() {
			if strings.HasPrefix(r, "GET /api/") {
				n++
			}
		}
		return n
	}
	asked()
	w.now = w.now.AddDate(0, 1, 0) // what was closed before anybody wanted it is not read
	w.propose("3")
	if n := asked(); n != 2 {
		t.Errorf("it asked %d times", n)
	}
	w.propose("3") // and nothing that is closed while something is open
	if n := asked(); n != 1 {
		t.Errorf("it asked %d times", n)
	}
	w.forge.Decline(302)
	wanted := wanted("3")
	wanted.Since = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	if o, err := w.client.Propose(t.Context(), w.place, wanted, may); err != nil || o.Status != pullrequest.Declined {
		t.Errorf("it is %+v, %v", o, err)
	}
}
