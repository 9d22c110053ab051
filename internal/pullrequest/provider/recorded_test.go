package provider_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/provider"
)

// recorded is a Gitea that answers what a real one did. scripts/gitea records that, from the requests
// that a whole story of pull requests makes: each is to be asked for in just that way.
func recorded(t *testing.T) *world {
	t.Helper()
	text, err := os.ReadFile("testdata/gitea.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Request string
		Status  int
		Header  map[string]string
		Body    json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, provider.Gitea, func(to http.ResponseWriter, r *http.Request) {
		for _, e := range all {
			if e.Request != r.Method+" "+r.URL.RequestURI() {
				continue
			}
			for name, value := range e.Header {
				to.Header().Set(name, value)
			}
			to.WriteHeader(e.Status)
			_, _ = to.Write(e.Body)
			return
		}
		t.Errorf("a Gitea was never asked %s %s", r.Method, r.URL.RequestURI())
		http.NotFound(to, r)
	})
}

func TestWhatAGiteaAnsweredIsRead(t *testing.T) {
	w := recorded(t)
	const branch, base, link = "deployster/shop/prod", "main", "http://gitea.example/acme/deploy/pulls/"
	check := func(p provider.PullRequest, number string, state provider.State, title string) {
		t.Helper()
		if p.URL != link+number || p.State != state || p.Title != title || p.Merged.IsZero() != (state != provider.Merged) {
			t.Errorf("pull request %s is %+v", number, p)
		}
	}

	open, err := w.Find(t.Context(), branch, base)
	if err != nil || len(open) != 1 {
		t.Fatalf("open are %+v, %v", open, err)
	}
	if check(open[0], "1", provider.Open, "Promote shop/prod to revision 2"); !strings.Contains(open[0].Body, "Deployster-Promotion: promotion-2 (pipeline shop of log 1)") {
		t.Errorf("it says %q", open[0].Body)
	}
	if others, err := w.Find(t.Context(), "deployster/shop", base); err != nil || len(others) != 0 {
		t.Errorf("of another branch are %+v, %v", others, err)
	}

	past, err := w.Past(t.Context(), branch, base, time.Time{}, func(provider.PullRequest) bool { return false })
	if err != nil || len(past) != 3 {
		t.Fatalf("closed are %+v, %v", past, err)
	}
	check(past[0], "3", provider.Closed, "Promote shop/prod to revision 5")
	check(past[1], "2", provider.Closed, "Promote shop/prod to revision 4")
	check(past[2], "1", provider.Merged, "Promote shop/prod to revision 3")

	messages, err := w.Messages(t.Context(), 1)
	if err != nil || len(messages) != 1 || !strings.Contains(messages[0], "Deployster-Promotion: promotion-3 ") {
		t.Errorf("its commits say %q, %v", messages, err)
	}
	opened, err := w.Open(t.Context(), provider.Text{Title: "t", Body: "b"}, branch, base)
	if err != nil || opened.Number == 0 || opened.State != provider.Open {
		t.Errorf("opened: %+v, %v", opened, err)
	}
	if err := w.Edit(t.Context(), 1, provider.Text{Title: "t"}); err != nil {
		t.Error(err)
	}
	if err := w.Close(t.Context(), 3); err != nil {
		t.Error(err)
	}
}
