package provider_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
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
	return newWorldAt(t, kind, "/acme/deploy.git", "", answer)
}

// newWorldAt has a repository at a path, and an API at another one, if it is not "".
func newWorldAt(t *testing.T, kind provider.Kind, repository, api string, answer http.HandlerFunc) *world {
	w := &world{now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)}
	s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w.asked++
		answer(to, r)
	}))
	t.Cleanup(s.Close)
	if api != "" {
		api = s.URL + api
	}
	cache := provider.NewCache(&limit.Servers{Now: func() time.Time { return w.now }}, 1<<20)
	var err error
	w.Client, err = provider.New(provider.Options{Kind: kind, Repository: s.URL + repository, API: api, Token: "t0ken", HTTP: s.Client(), Cache: cache})
	require.NoError(t, err)
	return w
}

// finds returns the numbers of the pull requests of branch b.
func (w *world) finds(t *testing.T) (numbers []int) {
	all := must.Get(w.Find(t.Context(), "b", "main"))(t)
	for _, p := range all {
		numbers = append(numbers, p.Number)
	}
	return numbers
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
			require.True(t, errors.As(err, &limited) == (c.fails && c.until > 0) && (err != nil) == c.fails, "it fails with %v", err)
			w.now = start.Add(c.until - time.Second)
			if _, err = w.Find(t.Context(), "b", "main"); c.until > 0 && (!errors.As(err, &limited) || w.asked != 1) {
				t.Errorf("it is asked %d times: %v", w.asked, err)
			}
			asked := w.asked
			for n, now := range []time.Time{start.Add(c.until), start.Add(-48 * time.Hour)} { // the clock was set back
				w.now = now
				_, _ = w.Find(t.Context(), "b", "main")
				assert.Equal(t, asked+n+1, w.asked, "it is asked again")
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
			_, err := w.Open(t.Context(), provider.Text{}, "b", "main")
			assert.Error(t, err, "%s: it is open by %.20s", kind, body)
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
		assert.Empty(t, w.finds(t), kind)
		assert.LessOrEqual(t, w.asked, 40, kind)
	}
}

func TestWhereProvidersAre(t *testing.T) {
	for repository, ok := range map[string]bool{"https://github.com/acme/deploy.git": true, "https://github.com/acme": false, "https://github.com/": false, "https://git.example/group/sub/deploy/": true, "nothing": false} {
		for _, kind := range provider.Kinds() {
			_, err := provider.New(provider.Options{Kind: kind, Repository: repository})
			assert.Equal(t, ok, err == nil, "%s of %s: %v", repository, kind, err)
		}
	}
}

// Bitbucket writes the names of repositories as they are, and takes them as people write them.
func TestTheNameOfARepositoryIsThatHoweverItIsWritten(t *testing.T) {
	w := newWorld(t, provider.Bitbucket, func(to http.ResponseWriter, _ *http.Request) {
		_, _ = to.Write([]byte(`{"values": [{"id": 7, "state": "OPEN", "source": {"branch": {"name": "b"}, "repository": {"full_name": "Acme/Deploy"}}, "destination": {"branch": {"name": "main"}}}]}`))
	})
	assert.Equal(t, []int{7}, w.finds(t))
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
			w := newWorldAt(t, c.kind, c.repository, c.api, func(to http.ResponseWriter, r *http.Request) {
				asked = r.URL.EscapedPath()
				_, _ = to.Write([]byte("[]"))
			})
			assert.Empty(t, w.finds(t))
			assert.Equal(t, c.want, asked)
		})
	}
}

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
					require.NoError(t, err)
					assert.Equal(t, []int{7}, (&world{Client: c}).finds(t), token)
				}
			}
			assert.Equal(t, 2, whole, "whole answers")
			assert.Equal(t, 4, kept, "answers that it is as it was")
		})
	}
}

// recorded is a Gitea that answers what a real one did. scripts/gitea records that, from the requests
// that a whole story of pull requests makes: each is to be asked for in just that way.
func recorded(t *testing.T) *world {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/gitea.json"))(t)
	var all []struct {
		Request string
		Status  int
		Header  map[string]string
		Body    json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &all))
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

	open := must.Get(w.Find(t.Context(), branch, base))(t)
	require.Len(t, open, 1)
	check(open[0], "1", provider.Open, "Promote shop/prod to revision 2")
	assert.Contains(t, open[0].Body, "Deployster-Promotion: promotion-2 (pipeline shop of log 1)")
	assert.Empty(t, must.Get(w.Find(t.Context(), "deployster/shop", base))(t), "of another branch")
	past := must.Get(w.Past(t.Context(), branch, base, time.Time{}, func(provider.PullRequest) bool { return false }))(t)
	require.Len(t, past, 3)
	check(past[0], "3", provider.Closed, "Promote shop/prod to revision 5")
	check(past[1], "2", provider.Closed, "Promote shop/prod to revision 4")
	check(past[2], "1", provider.Merged, "Promote shop/prod to revision 3")

	messages := must.Get(w.Messages(t.Context(), 1))(t)
	require.Len(t, messages, 1)
	assert.Contains(t, messages[0], "Deployster-Promotion: promotion-3 ")
	opened, err := w.Open(t.Context(), provider.Text{Title: "t", Body: "b"}, branch, base)
	assert.True(t, err == nil && opened.Number != 0 && opened.State == provider.Open, "opened: %+v, %v", opened, err)
	assert.NoError(t, w.Edit(t.Context(), 1, provider.Text{Title: "t"}))
	assert.NoError(t, w.Close(t.Context(), 3))
}
