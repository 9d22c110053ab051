package provider_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
)

// world is a provider that answers as it is told.
type world struct {
	*provider.Client
	now   time.Time
	asked int
}

func newWorld(t *testing.T, kind provider.Kind, answer http.HandlerFunc) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)}
	s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w.asked++
		answer(to, r)
	}))
	t.Cleanup(s.Close)
	c, err := provider.New(provider.Options{
		Kind: kind, Repository: s.URL + "/acme/deploy.git", Token: "t0ken", HTTP: s.Client(), Cache: provider.NewCache(&limit.Servers{Now: func() time.Time { return w.now }}, 1<<20),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Client = c
	return w
}

func TestWhoWantsToBeLeftAloneIs(t *testing.T) {
	start := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	reset := strconv.FormatInt(start.Add(20*time.Minute).Unix(), 10)
	for name, c := range map[string]struct {
		status int
		header map[string]string
		until  time.Duration // 0 is not at all
		fails  bool
	}{
		"too many, in seconds":            {429, map[string]string{"Retry-After": "90"}, 90 * time.Second, true},
		"too many, at a time":             {429, map[string]string{"Retry-After": start.Add(5 * time.Minute).Format(http.TimeFormat)}, 5 * time.Minute, true},
		"too many, without saying when":   {429, nil, time.Minute, true},
		"too many, in the past":           {429, map[string]string{"Retry-After": "-5"}, time.Minute, true},
		"too many, forever":               {429, map[string]string{"Retry-After": "99999999999"}, time.Hour, true},
		"too many, until a far date":      {429, map[string]string{"Retry-After": start.AddDate(1, 0, 0).Format(http.TimeFormat)}, time.Hour, true},
		"well, but nothing for a year":    {200, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(start.AddDate(1, 0, 0).Unix(), 10)}, time.Hour, false},
		"forbidden, for nothing is left":  {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, 20 * time.Minute, true},
		"forbidden, for it was too fast":  {403, map[string]string{"Retry-After": "30"}, 30 * time.Second, true},
		"not now":                         {503, map[string]string{"Retry-After": "30"}, 30 * time.Second, true},
		"well, but nothing is left":       {200, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, 20 * time.Minute, false},
		"well, and something is left":     {200, map[string]string{"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": reset}, 0, false},
		"nothing is left as GitLab says":  {429, map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": reset}, 20 * time.Minute, true},
		"forbidden, for it may not do it": {403, map[string]string{"X-RateLimit-Remaining": "7"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, provider.GitHub, func(to http.ResponseWriter, _ *http.Request) {
				for key, value := range c.header {
					to.Header().Set(key, value)
				}
				to.WriteHeader(c.status)
				_, _ = to.Write([]byte("[]"))
			})
			_, err := w.Find(t.Context(), "b", "main")
			var limited *limit.Error
			if errors.As(err, &limited) != (c.fails && c.until > 0) || (err != nil) != c.fails {
				t.Fatalf("it fails with %v", err)
			}
			w.now = start.Add(c.until - time.Second)
			if _, err = w.Find(t.Context(), "b", "main"); c.until > 0 && (!errors.As(err, &limited) || w.asked != 1) {
				t.Errorf("it is asked %d times: %v", w.asked, err)
			}
			asked := w.asked
			w.now = start.Add(c.until)
			if _, _ = w.Find(t.Context(), "b", "main"); w.asked != asked+1 {
				t.Errorf("it is not asked again")
			}
			w.now = start.Add(-48 * time.Hour) // the clock was set back
			if _, _ = w.Find(t.Context(), "b", "main"); w.asked != asked+2 {
				t.Errorf("it is not asked after the clock was set back")
			}
		})
	}
}

func TestWhatCannotBeReadIsSaidSo(t *testing.T) {
	for _, kind := range provider.Kinds() {
		for body, why := range map[string]string{
			"<html>":                      "answers what cannot be read",
			strings.Repeat("[", 1<<20):    "answers what cannot be read",
			strings.Repeat(" ", 9<<20):    "more than 8 MiB",
			`{"message": "a\u001b[31mb"}`: "",
		} {
			w := newWorld(t, kind, func(to http.ResponseWriter, r *http.Request) { _, _ = to.Write([]byte(body)) })
			if all, err := w.Find(t.Context(), "b", "main"); len(all) > 0 || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
				t.Errorf("%s: %v, %v", kind, all, err)
			}
			if _, err := w.Open(t.Context(), provider.Text{}, "b", "main"); err == nil {
				t.Errorf("%s: it is open by %.20s", kind, body)
			}
		}
	}
}

// A provider with more pull requests than anybody reads is not read without end.
func TestListsAreBounded(t *testing.T) {
	for _, kind := range provider.Kinds() {
		one := `{"number": 1, "iid": 1, "id": 1, "head": {"ref": "x"}, "base": {"ref": "main"}}`
		page := "[" + strings.Repeat(one+",", 49) + one + "]"
		if kind == provider.Bitbucket {
			page = `{"values": ` + page + `}`
		}
		w := newWorld(t, kind, func(to http.ResponseWriter, _ *http.Request) { _, _ = to.Write([]byte(page)) })
		if all, err := w.Find(t.Context(), "b", "main"); err != nil || len(all) > 0 || w.asked > 40 {
			t.Errorf("%s: asked %d times, and found %v, %v", kind, w.asked, all, err)
		}
	}
}

func TestWhereProvidersAre(t *testing.T) {
	for repository, ok := range map[string]bool{"https://github.com/acme/deploy.git": true, "https://github.com/acme": false, "https://github.com/": false, "https://git.example/group/sub/deploy/": true, "nothing": false} {
		for _, kind := range provider.Kinds() {
			if _, err := provider.New(provider.Options{Kind: kind, Repository: repository}); (err == nil) != ok {
				t.Errorf("%s of %s: %v", repository, kind, err)
			}
		}
	}
}

// Bitbucket writes the names of repositories as they are, and takes them as people write them.
func TestTheNameOfARepositoryIsThatHoweverItIsWritten(t *testing.T) {
	w := newWorld(t, provider.Bitbucket, func(to http.ResponseWriter, _ *http.Request) {
		_, _ = to.Write([]byte(`{"values": [{"id": 7, "state": "OPEN", "source": {"branch": {"name": "b"}, "repository": {"full_name": "Acme/Deploy"}}, "destination": {"branch": {"name": "main"}}}]}`))
	})
	if all, err := w.Find(t.Context(), "b", "main"); err != nil || len(all) != 1 || all[0].Number != 7 {
		t.Errorf("found %+v, %v", all, err)
	}
}

// A host may have its provider below a path, which is no group or owner.
func TestAProviderMayBeBelowAPath(t *testing.T) {
	for name, c := range map[string]struct {
		kind            provider.Kind
		repository, api string // paths
		want            string
	}{
		"GitLab below a path":             {provider.GitLab, "/gitlab/group/sub/repo.git", "/gitlab/api/v4", "/gitlab/api/v4/projects/group%2Fsub%2Frepo/merge_requests"},
		"with a slash":                    {provider.GitLab, "/gitlab/group/repo/", "/gitlab/api/v4/", "/gitlab/api/v4/projects/group%2Frepo/merge_requests"},
		"below two":                       {provider.GitLab, "/a/b/group/repo", "/a/b/api/v4", "/a/b/api/v4/projects/group%2Frepo/merge_requests"},
		"a group of that name":            {provider.GitLab, "/gitlab/repo", "/api/v4", "/api/v4/projects/gitlab%2Frepo/merge_requests"},
		"a group that begins so":          {provider.GitLab, "/gitlabs/group/repo", "/gitlab/api/v4", "/gitlab/api/v4/projects/gitlabs%2Fgroup%2Frepo/merge_requests"},
		"GitLab, for itself":              {provider.GitLab, "/group/sub/repo", "", "/api/v4/projects/group%2Fsub%2Frepo/merge_requests"},
		"Gitea below a path, for itself":  {provider.Gitea, "/git/acme/deploy.git", "", "/git/api/v1/repos/acme/deploy/pulls"},
		"Gitea, for itself":               {provider.Gitea, "/acme/deploy.git", "", "/api/v1/repos/acme/deploy/pulls"},
		"Gitea below a path, where it is": {provider.Gitea, "/git/acme/deploy.git", "/git/api/v1", "/git/api/v1/repos/acme/deploy/pulls"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
				asked = r.URL.EscapedPath()
				_, _ = to.Write([]byte("[]"))
			}))
			defer s.Close()
			api := c.api
			if api != "" {
				api = s.URL + api
			}
			client, err := provider.New(provider.Options{
				Kind: c.kind, Repository: s.URL + c.repository, API: api, Token: "t0ken", HTTP: s.Client(), Cache: provider.NewCache(&limit.Servers{Now: time.Now}, 1<<20),
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Find(t.Context(), "b", "main"); err != nil || asked != c.want {
				t.Errorf("it asks %s, not %s: %v", asked, c.want, err)
			}
		})
	}
}
