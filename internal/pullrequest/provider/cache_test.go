package provider_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
)

// An answer is asked for by its tag or its time once it is known, and is that of whoever asked: what
// one token may see another one may not.
func TestAnAnswerIsKeptForWhoAskedForIt(t *testing.T) {
	const list = `[{"number":7,"state":"open","head":{"ref":"b","repo":{"id":1}},"base":{"ref":"main","repo":{"id":1}}}]`
	changed := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC).Format(http.TimeFormat)
	for name, header := range map[string][2]string{"by a tag": {"ETag", `"x"`}, "by a time": {"Last-Modified", changed}} {
		t.Run(name, func(t *testing.T) {
			whole, kept := 0, 0
			s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
				to.Header().Set(header[0], header[1])
				if r.Header.Get("If-None-Match") == `"x"` || r.Header.Get("If-Modified-Since") == changed {
					kept++
					to.WriteHeader(http.StatusNotModified)
					return
				}
				whole++
				_, _ = to.Write([]byte(list))
			}))
			defer s.Close()
			cache := provider.NewCache(&limit.Servers{Now: time.Now}, 1<<20)
			for range 3 {
				for _, token := range []string{"ada", "eve"} {
					c, err := provider.New(provider.Options{Kind: provider.GitHub, Repository: s.URL + "/acme/deploy.git", Token: token, HTTP: s.Client(), Cache: cache})
					if err != nil {
						t.Fatal(err)
					}
					if all, err := c.Find(t.Context(), "b", "main"); err != nil || len(all) != 1 || all[0].Number != 7 {
						t.Errorf("%s finds %+v, %v", token, all, err)
					}
				}
			}
			if whole != 2 || kept != 4 {
				t.Errorf("%d whole answers, and %d that it is as it was", whole, kept)
			}
		})
	}
}
