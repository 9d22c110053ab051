package pullrequest_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
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

// What is kept of what servers sent is bounded, however many places there are and however much
// their files hold.
func TestWhatIsKeptIsBounded(t *testing.T) {
	const most = 36 << 20
	w := newWorld(t, "gitea")
	w.place.Provider = ""
	w.forge.Commit("main", map[string]string{file: "image: {tag: " + strings.Repeat("x", 900<<10) + "}\n"}, "")
	before := 0
	for i := range 12 { // each is another view
		w.place.Branch = "b" + strconv.Itoa(i)
		w.propose("2")
		if i == 0 {
			before = w.client.Kept()
		}
	}
	if n := w.client.Kept(); before < 900<<10 || n > 4<<20 {
		t.Errorf("%d bytes are kept, of which the first has %d", n, before)
	}
	w.place.Provider = provider.Gitea
	w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			return false
		}
		to.Header().Set("ETag", "1")
		_, _ = to.Write([]byte("[" + strings.Repeat(" ", 7<<20) + "]"))
		return true
	})
	for i := range 10 {
		w.place.Base = "base" + strconv.Itoa(i)
		w.forge.Commit(w.place.Base, map[string]string{file: "image: {tag: 1}\n"}, "main")
		_, _ = w.client.Propose(t.Context(), w.place, wanted("2"), may) // nothing can be opened
		if n := w.client.Kept(); n < 7<<20 || n > most {
			t.Errorf("%d bytes are kept", n)
		}
	}
}
