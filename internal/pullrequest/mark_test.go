package pullrequest_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/pullrequest"
)

// Who edits the text of a pull request may take the line out by which it is known: the commit
// has it, too.
func TestAPullRequestIsKnownAgainWhateverItsTextSays(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Rewrite(1, "please review")
		if o := w.propose("2"); o.Status != pullrequest.Proposed || o.Number != 1 {
			w.Errorf("it is %+v", o)
		}
		w.propose("3") // says again what it is
		w.has("3", 1)
		if body := w.forge.Pulls()[0].Body; !strings.Contains(body, "Deployster-Promotion: promotion-3") {
			w.Errorf("it says %s", body)
		}
		w.forge.Rewrite(1, "")
		w.forge.Decline(1)
		w.forge.Delete(branch)
		w.again()
		for range 2 {
			if o := w.propose("3"); o.Status != pullrequest.Declined || o.Number != 1 {
				w.Errorf("it is %+v", o)
			}
		}
		if all := w.forge.Pulls(); len(all) != 1 || w.forge.Head(branch) != "" {
			w.Errorf("it is proposed again: %+v", all)
		}
	})
}

func TestAPullRequestIsWithdrawnWhateverItsTextSays(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Rewrite(1, "please review")
		w.forge.Commit(branch, map[string]string{"README": "reviewed"}, "")
		if err := w.client.Withdraw(w.Context(), w.place, may); err != nil {
			w.Error(err)
		}
		if all := w.forge.Pulls(); all[0].State != "closed" || !strings.HasPrefix(all[0].Body, "please review\n") {
			w.Errorf("there are %+v", all)
		}
		w.forge.Delete(branch)
		if o := w.propose("2"); o.Status != pullrequest.Proposed || o.Number != 2 {
			w.Errorf("it is %+v", o)
		}
	})
}

// Two that were given one branch would undo what the other one does, without end.
func TestWhatAnotherProposesIsLeftAlone(t *testing.T) {
	each(t, func(w *world) {
		const one, other = "pipeline shop of log A", "pipeline shop of log B"
		w.place.Owner = one
		w.propose("2")
		for name, change := range map[string]func(){
			"as it was proposed":             func() {},
			"after somebody edited its text": func() { w.forge.Rewrite(1, "please review") },
			"after somebody committed":       func() { w.forge.Commit(branch, map[string]string{"README": "reviewed"}, "") },
		} {
			change()
			tip, before := w.forge.Head(branch), w.forge.Pulls()
			w.place.Owner = other
			for _, revision := range []string{"2", "3"} {
				w.refused(revision, "branch deployster/shop/prod is used by another: pipeline shop of log A proposes from it, and not pipeline shop of log B; name a branch for each")
			}
			if err := w.client.Withdraw(w.Context(), w.place, may); err != nil {
				w.Error(err)
			}
			if w.forge.Head(branch) != tip || w.forge.Pulls()[0] != before[0] || len(w.forge.Pulls()) != 1 {
				w.Errorf("%s: it was changed: %+v", name, w.forge.Pulls())
			}
			w.place.Owner = one
		}
		w.propose("3")
		w.has("3", 1)
		w.place.Owner = other
		w.forge.Commit("main", map[string]string{file: after("4")}, "")
		if o := w.propose("4"); o.Status != pullrequest.Taken || w.forge.Pulls()[0].State != "open" {
			w.Errorf("it is %+v, and there are %+v", o, w.forge.Pulls())
		}
	})
}
