package pages_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/pages"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// paths are those of all pages, of a log that querytest has made.
var paths = []string{
	"/", "/pipelines/gateway", "/pipelines/gateway?at=1500", "/trace", "/trace?revision=r10&pipeline=gateway", "/approvals", "/approvals?at=1500", "/runs", "/builds",
	"/log", "/log?at=700&target=stage/", "/log?after=700", "/log?event=stage-approved", "/log?deployment=nothing",
	"/environments/shop%2Fprod", "/environments/shop%2Fprod/diff?before=1&after=13", "/environments/shop%2Fprod?state=all&from=5", "/environments/shop%2Fprod?host=web-h1&at=2600",
}

var (
	regexpAssets = regexp.MustCompile(`/assets/[a-z]+-[0-9a-f]+\.[a-z]+`)
	inlineScript = regexp.MustCompile(`(?i)<script[^>]*>[^<]|\son[a-z]+=|javascript:`)
)

const signInTitle = "<title>Sign in · Deployster</title>"

// showsLog reports whether a page shows anything of the log beside what its path says.
func showsLog(body string) bool {
	return strings.Contains(body, "wave0") || strings.Contains(body, querytest.Environment) || strings.Contains(body, "-finished-")
}

// Only who has signed in sees anything of the log. Every answer forbids scripts within pages,
// frames around them, and guesses of what it is.
func TestPagesAreForThoseWhoHaveSignedIn(t *testing.T) {
	s := newSite(t, querytest.Large(8, 13)...)
	out, in := s.browser(), s.signedIn(identity.Viewer)
	_, page := in.open("/")
	assets := regexpAssets.FindAllString(page, -1)
	require.Len(t, assets, 3, "a page loads %v", assets)
	others := append([]string{"/nothing", "/sign-in", "/assets/", "/assets/nothing", "/environments/../.."}, assets...)
	for _, path := range slices.Concat(others, paths) {
		for _, b := range []*browser{out, in} {
			answer, body := b.do(b.request(http.MethodGet, path, ""))
			checkPolicy(t, path, answer, body)
			switch {
			case b == in && slices.Contains(paths, path):
				assert.Equal(t, http.StatusOK, answer.StatusCode, path)
				assert.Contains(t, body, "<main", path)
				assert.Contains(t, body, "token viewer", path)
			case b == out:
				assert.False(t, showsLog(body), "%s answers %d and shows\n%s", path, answer.StatusCode, body)
				assert.True(t, strings.HasPrefix(path, "/assets/") || strings.Contains(body, signInTitle), "%s does not ask to sign in:\n%s", path, body)
			}
		}
		_, body := out.open(path, "Authorization", "Bearer dpl_wrong")
		assert.False(t, showsLog(body), "with a wrong token %s shows\n%s", path, body)
	}
	for path, want := range map[string]int{
		"/nothing": http.StatusNotFound, "/?at=x": http.StatusBadRequest, "/?at=-1": http.StatusBadRequest, "/?at=99999999": http.StatusBadRequest,
		"/?at=1": http.StatusOK, "/?at=99999999999999999999": http.StatusBadRequest,
	} {
		in.shows(want, "<main", path)
	}
}

func checkPolicy(t *testing.T, path string, answer *http.Response, body string) {
	t.Helper()
	for header, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; ", "X-Frame-Options": "DENY",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
	} {
		assert.True(t, strings.HasPrefix(answer.Header.Get(header), want), "%s has the header %s: %q", path, header, answer.Header.Get(header))
	}
	policy, cache := answer.Header.Get("Content-Security-Policy"), answer.Header.Get("Cache-Control")
	assert.NotContains(t, policy, "unsafe", path)
	assert.Contains(t, policy, "frame-ancestors 'none'", path)
	isAsset := strings.HasPrefix(path, "/assets/") && path != "/assets/" && answer.StatusCode == http.StatusOK
	assert.Equal(t, isAsset, strings.Contains(cache, "public"), "%s has Cache-Control: %s", path, cache)
	if strings.Contains(body, "<style") || strings.Contains(body, "style=") || inlineScript.MatchString(body) {
		t.Errorf("%s has styles or scripts in it:\n%s", path, body)
	}
}

var regexpLinks = regexp.MustCompile(`<a [^>]*href="([^"#]+)`)

// Links lead to pages that there are, and ask them for what they understand: what they do not is
// passed over, and something else would be shown.
func TestLinksLeadToWhatTheySay(t *testing.T) {
	large := querytest.Large(8, 13)
	for i := range 60 { // more runs than one page has
		large = append(large, deploylog.Event{Deployment: "r" + strconv.Itoa(i), Target: "run/web.yaml", Name: "run-started", Attempt: 1})
	}
	s := newSite(t, large...)
	b := s.signedIn(identity.Viewer)
	understood := map[string][]string{
		"log": {"at", "after", "target", "event", "deployment"}, "runs": {"at", "target"}, "environments": {"at", "state", "host", "from", "before", "after"},
		"pipelines": {"at", "before", "after"}, "builds": {"at", "state", "from"}, "approvals": {"at"}, "trace": {"at", "revision", "pipeline"}, "": {"at", "q"},
	}
	seen := map[string]bool{}
	links := func(path string) (all []string) {
		code, body := b.open(path)
		at, err := url.Parse(path)
		require.True(t, code == http.StatusOK && err == nil, "%s answers %d; %v", path, code, err)
		for _, link := range regexpLinks.FindAllStringSubmatch(body, -1) {
			u, err := at.Parse(html.UnescapeString(link[1]))
			if err != nil {
				t.Errorf("%s leads to %s: %v", path, link[1], err)
				continue
			}
			kind, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
			keys := slices.Sorted(maps.Keys(u.Query()))
			for _, key := range keys {
				if !slices.Contains(understood[kind], key) {
					t.Errorf("%s leads to %s, which does not understand %s", path, link[1], key)
				}
			}
			if like := kind + " " + strings.Join(keys, " "); !seen[like] { // one of those that are alike
				seen[like] = true
				all = append(all, u.RequestURI())
			}
		}
		return all
	}
	for _, path := range append([]string{"/runs?target=run/web.yaml", "/environments/shop%2Fprod?state=all"}, paths...) {
		for _, next := range links(path) {
			links(next)
		}
	}
	assert.True(t, seen["runs at target"], "older runs of a manifest are those of all: %v", seen)
}

func (b *browser) signInAt(token, next string) *http.Response {
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	form := url.Values{"token": {token}, "next": {next}}.Encode()
	answer, _ := b.do(b.request(http.MethodPost, "/sign-in", form, "Content-Type", "application/x-www-form-urlencoded"))
	return answer
}

// The cookie cannot be read by scripts, is not sent by other sites, has nothing of the token,
// and is changed with each sign-in.
func TestASessionIsACookieThatSaysNothing(t *testing.T) {
	s := newSite(t)
	b, token := s.browser(), s.token(identity.Viewer)
	before := ""
	for range 2 {
		answer := b.signInAt(token, "/?q=a")
		if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/?q=a" || len(answer.Cookies()) != 1 {
			t.Fatalf("signing in answers %s, to %q, with %v", answer.Status, answer.Header.Get("Location"), answer.Cookies())
		}
		c := answer.Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge <= 0 {
			t.Errorf("the cookie is %s", c)
		}
		if strings.Contains(token, c.Value) || strings.Contains(c.Value, "dpl") || len(c.Value) < 40 || c.Value == before {
			t.Errorf("the cookie %q says something, after %q", c.Value, before)
		}
		code, _ := b.open("/")
		assert.True(t, before == "" || code == http.StatusOK, "after signing in again the page answers %d", code)
		if before != "" { // the previous session has ended
			s.browser().shows(http.StatusUnauthorized, "", "/v1/log", "Cookie", c.Name+"="+before)
		}
		before = c.Value
	}
}

func TestASessionEndsWithItsToken(t *testing.T) {
	s := newSite(t)
	for name, end := range map[string]func(*browser){
		"revoked":    func(*browser) { _, _ = s.tokens.Revoke(t.Context(), "viewer", identity.Revoke{By: "ada"}) },
		"signed out": func(b *browser) { b.send("/sign-out", url.Values{"form": {b.form("/")}}) },
		"late":       func(*browser) { s.later(13 * time.Hour) },
	} {
		b := s.signedIn(identity.Viewer)
		b.shows(http.StatusOK, "", "/v1/log")
		b.sends(http.StatusUnauthorized, "", "/v1/salt", url.Values{})
		end(b)
		b.shows(http.StatusUnauthorized, "", "/v1/log")
		_, body := b.open("/")
		assert.Contains(t, body, signInTitle, name)
		_, _ = s.tokens.Revoke(t.Context(), "viewer", identity.Revoke{By: "ada"})
	}
}

func TestSigningInIsRefused(t *testing.T) {
	s := newSite(t)
	token := s.token(identity.Viewer)
	for name, test := range map[string]struct {
		token  string
		header []string
		want   int
	}{
		"nothing":           {"", nil, http.StatusUnprocessableEntity},
		"two lines":         {token + "\n" + token, nil, http.StatusUnprocessableEntity},
		"wrong":             {token + "x", nil, http.StatusUnauthorized},
		"of another site":   {token, []string{"Origin", "https://elsewhere.example"}, http.StatusForbidden},
		"across sites":      {token, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"larger than forms": {strings.Repeat("x", 100<<10), nil, http.StatusBadRequest},
	} {
		b := s.browser()
		code, body := b.send("/sign-in", url.Values{"token": {test.token}}, test.header...)
		if code != test.want || !strings.Contains(body, `role="alert"`) || strings.Contains(body, token) {
			t.Errorf("%s: %d, want %d\n%s", name, code, test.want, body)
		}
		b.shows(http.StatusUnauthorized, "", "/v1/log")
	}
	assert.NotContains(t, s.browser().sends(http.StatusOK, "", "/sign-in", url.Values{"token": {"  " + token + "\n"}}), signInTitle)
}

func TestSigningInLeadsNowhereElse(t *testing.T) {
	s := newSite(t)
	token := s.token(identity.Viewer)
	for next, want := range map[string]string{
		"": "/", "/": "/", "/?q=x&at=3": "/?q=x&at=3", "/pipelines/a%2Fb": "/pipelines/a%2Fb",
		"https://elsewhere.example/": "/", "//elsewhere.example": "/", `/\elsewhere.example`: "/", `\\elsewhere.example`: "/", "javascript:alert(1)": "/",
		"/\t/elsewhere.example": "/", "/\n/elsewhere.example": "/", "/sign-in?next=/": "/", "elsewhere": "/", "http:/elsewhere": "/", "/%zz": "/",
	} {
		b := s.browser()
		answer := b.signInAt(token, next)
		assert.Equal(t, want, answer.Header.Get("Location"), "%q leads to", next)
	}
}

func TestAFormThatIsOfNoPageSignsNobodyOut(t *testing.T) {
	s := newSite(t)
	b, other := s.signedIn(identity.Viewer), s.signedIn(identity.Operator)
	for _, fields := range []url.Values{{}, {"form": {"wrong"}}, {"form": {other.form("/")}}} {
		b.sends(http.StatusForbidden, "", "/sign-out", fields)
	}
	b.sends(http.StatusForbidden, "", "/sign-out", url.Values{"form": {b.form("/")}}, "Origin", "https://elsewhere.example")
	b.shows(http.StatusOK, "", "/v1/log")
}

// A link on another site leads to a page although the cookie is not sent with what that site
// asks for: the page is opened once more, then by this site.
func TestALinkFromElsewhereIsFollowed(t *testing.T) {
	s := newSite(t)
	answer, _ := s.browser().do(s.browser().request(http.MethodGet, "/?q=a", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"))
	require.Equal(t, http.StatusOK, answer.StatusCode)
	assert.Equal(t, "0; url=/?q=a", answer.Header.Get("Refresh"), "%s %v", answer.Status, answer.Header)
}

// stalled takes nothing of a page until it is told to.
type stalled struct {
	*httptest.ResponseRecorder
	writing chan<- bool
	take    <-chan struct{}
}

func (s stalled) Write(text []byte) (int, error) {
	s.writing <- true
	<-s.take
	return s.ResponseRecorder.Write(text)
}

// Few fold the past at once; who takes its page slowly is not one of them any more.
func TestWhoTakesAPageSlowlyKeepsNobodyFromThePast(t *testing.T) {
	s := newSite(t, deploylog.Event{Deployment: "d", Target: "run/web.yaml", Name: "run-started", Attempt: 1})
	token := s.token(identity.Viewer)
	ask := func(w http.ResponseWriter) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?at=1", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		s.pages.ServeHTTP(w, r)
	}
	const slow = 5
	writing, take := make(chan bool, slow), make(chan struct{})
	var all sync.WaitGroup
	answers := make([]*httptest.ResponseRecorder, slow)
	for i := range answers {
		answers[i] = httptest.NewRecorder()
		all.Go(func() { ask(stalled{answers[i], writing, take}) })
	}
	for range slow {
		waittest.Receive(t, writing, "a page of the past, beside others that are taken slowly")
	}
	got := httptest.NewRecorder()
	ask(got)
	assert.Equal(t, http.StatusOK, got.Code, "a page of the past")
	close(take)
	all.Wait()
	for _, slow := range answers {
		assert.Equal(t, http.StatusOK, slow.Code, "a page that is taken slowly")
	}
}

// site is a server with its pages and its API.
type site struct {
	testing.TB
	log    deploylog.Log
	tokens *identity.Tokens
	url    string
	pages  http.Handler

	workspace string
	workers   func() (build.Workers, string, error)
	things    []*managed.Thing

	mu   sync.Mutex
	late time.Duration // how much later it is than it is
	ids  atomic.Int64
}

func newSite(t testing.TB, events ...deploylog.Event) *site {
	s := &site{TB: t, log: logtest.NewMemory().Open(), workspace: t.TempDir(), workers: twoWorkers}
	must.Get(s.log.Append(t.Context(), events...))(t)
	s.tokens = identity.NewTokens(s.log, s.now)
	authenticate := identity.Authenticator{Tokens: s.tokens}
	sessions := pages.NewSessions(s.now, false, authenticate.Identify)
	kept := objects.In(t.TempDir(), nil)
	api := server.New(server.Options{
		Log: s.log, Objects: kept, Now: s.now, NewID: s.id, Version: "test", Logger: slog.New(slog.DiscardHandler), Identify: sessions.Identify,
	})
	shown, err := pages.New(pages.Options{
		Managed: func(_ context.Context, q managed.Question) ([]*managed.Thing, error) {
			return slices.DeleteFunc(slices.Clone(s.things), func(t *managed.Thing) bool {
				return q.Manifest != "" && !managed.IsOf(t.Thing, q.Manifest, "") || q.Orphans && !t.Standing.Orphan()
			}), nil
		},
		Log: s.log, Hosts: noHosts{}, Workers: func() (build.Workers, string, error) { return s.workers() }, Objects: kept, Workspace: s.workspace,
		Sessions: sessions, API: api, Now: s.now, Version: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/v1/", api)
	mux.Handle("/", shown)
	s.pages = mux
	h := httptest.NewServer(mux)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	s.url = h.URL
	return s
}

// noHosts is an inventory that cannot be read.
type noHosts struct{}

func (noHosts) Members(*definition.Definition) (map[string][]string, error) { return nil, io.EOF }
func (noHosts) Slots(string) int                                            { return 1 }
func (noHosts) Identity() string                                            { return "" }

func (s *site) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.late)
}

func (s *site) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late += d
}

func (s *site) id() string { return fmt.Sprintf("id%d", s.ids.Add(1)) }

func (s *site) token(role identity.Role) string {
	secret, _, err := s.tokens.Create(s.Context(), identity.New{Name: string(role), ID: s.id(), Grant: identity.Grant{Role: role}, By: "ada"})
	require.NoError(s, err)
	return secret
}

// browser is somebody who follows links and sends forms, without any script.
type browser struct {
	*site
	*http.Client
}

func (s *site) browser() *browser {
	jar := must.Get(cookiejar.New(nil))(s)
	return &browser{s, &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// signedIn is a browser with a session of a token with a role.
func (s *site) signedIn(role identity.Role) *browser {
	b := s.browser()
	b.sends(http.StatusOK, "", "/sign-in", url.Values{"token": {s.token(role)}})
	return b
}

func (b *browser) do(r *http.Request) (*http.Response, string) {
	answer := must.Get(b.Do(r))(b)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(b)
	return answer, string(text)
}

func (b *browser) request(method, path, body string, header ...string) *http.Request {
	r := must.Get(http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(body)))(b)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (b *browser) open(path string, header ...string) (code int, body string) {
	answer, body := b.do(b.request(http.MethodGet, path, "", header...))
	return answer.StatusCode, body
}

func (b *browser) send(path string, fields url.Values, header ...string) (code int, body string) {
	header = append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", b.url}, header...)
	answer, body := b.do(b.request(http.MethodPost, path, fields.Encode(), header...))
	return answer.StatusCode, body
}

// shows opens a page, which answers with a code and says something.
func (b *browser) shows(code int, says, path string, header ...string) (body string) {
	got, body := b.open(path, header...)
	b.answers(got, body, code, says, path)
	return body
}

// sends sends a form, which is answered with a code and says something.
func (b *browser) sends(code int, says, path string, fields url.Values, header ...string) (body string) {
	got, body := b.send(path, fields, header...)
	b.answers(got, body, code, says, path)
	return body
}

func (b *browser) answers(got int, body string, code int, says, path string) {
	assert.True(b, got == code && strings.Contains(body, says), "%s answers %d, want %d and %q:\n%s", path, got, code, says, body)
}

var formField = regexp.MustCompile(`name="form" value="([^"]+)"`)

// form is what the forms of a page prove with that they are of it.
func (b *browser) form(path string) string {
	_, body := b.open(path)
	found := formField.FindStringSubmatch(body)
	require.NotNil(b, found, "%s has no form:\n%s", path, body)
	return found[1]
}
