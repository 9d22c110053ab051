package pages_test

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// paths are those of all pages, of a log that querytest has made.
var paths = []string{
	"/", "/pipelines/gateway", "/pipelines/gateway?at=1500", "/approvals", "/approvals?at=1500", "/runs", "/builds",
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

func TestWhoHasNotSignedInSeesNothingOfTheLog(t *testing.T) {
	s := newSite(t, querytest.Large(8, 13)...)
	for _, path := range append([]string{"/nothing", "/assets/", "/environments/../.."}, paths...) {
		code, body := s.browser().open(path)
		if showsLog(body) {
			t.Errorf("%s answers %d and shows\n%s", path, code, body)
		}
		if path != "/assets/" && !strings.Contains(body, signInTitle) {
			t.Errorf("%s answers %d and does not ask to sign in:\n%s", path, code, body)
		}
		if code, body := s.browser().open(path, "Authorization", "Bearer dpl_wrong"); showsLog(body) {
			t.Errorf("with a wrong token %s answers %d and shows\n%s", path, code, body)
		}
	}
}

func TestWhoHasSignedInSeesAllPages(t *testing.T) {
	s := newSite(t, querytest.Large(8, 13)...)
	b := s.signedIn(identity.Viewer)
	for _, path := range paths {
		if code, body := b.open(path); code != http.StatusOK || !strings.Contains(body, "<main") || !strings.Contains(body, "token viewer") {
			t.Errorf("%s answers %d:\n%s", path, code, body)
		}
	}
	for path, want := range map[string]int{
		"/nothing": http.StatusNotFound, "/?at=x": http.StatusBadRequest, "/?at=-1": http.StatusBadRequest, "/?at=99999999": http.StatusBadRequest,
		"/?at=1": http.StatusOK, "/?at=99999999999999999999": http.StatusBadRequest,
	} {
		if code, body := b.open(path); code != want || !strings.Contains(body, "<main") {
			t.Errorf("%s answers %d, want %d:\n%s", path, code, want, body)
		}
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
		"pipelines": {"at", "before", "after"}, "builds": {"at", "state", "from"}, "approvals": {"at"}, "": {"at", "q"},
	}
	seen := map[string]bool{}
	links := func(path string) (all []string) {
		code, body := b.open(path)
		at, err := url.Parse(path)
		if code != http.StatusOK || err != nil {
			t.Fatalf("%s answers %d; %v", path, code, err)
		}
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
	if !seen["runs at target"] {
		t.Errorf("older runs of a manifest are those of all: %v", seen)
	}
}

// The cookie cannot be read by scripts, is not sent by other sites, has nothing of the token,
// and is changed with each sign-in.
func TestASessionIsACookieThatSaysNothing(t *testing.T) {
	s := newSite(t)
	b, token := s.browser(), s.token(identity.Viewer)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	before := ""
	for range 2 {
		answer, _ := b.do(b.request(http.MethodPost, "/sign-in", url.Values{"token": {token}, "next": {"/?q=a"}}.Encode(), "Content-Type", "application/x-www-form-urlencoded"))
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
		if code, _ := b.open("/"); before != "" && code != http.StatusOK {
			t.Errorf("after signing in again the page answers %d", code)
		}
		if before != "" {
			r := s.browser().request(http.MethodGet, "/v1/log", "", "Cookie", c.Name+"="+before)
			if answer, _ := s.browser().do(r); answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("the session before goes on: %s", answer.Status)
			}
		}
		before = c.Value
	}
}

// A session is good for what its token is, and no longer than that.
func TestASessionEndsWithItsToken(t *testing.T) {
	s := newSite(t)
	for name, end := range map[string]func(*browser){
		"revoked":    func(*browser) { _, _ = s.tokens.Revoke(t.Context(), "viewer", identity.Revoke{By: "ada"}) },
		"signed out": func(b *browser) { b.send("/sign-out", url.Values{"form": {b.form("/")}}) },
		"late":       func(*browser) { s.later(13 * time.Hour) },
	} {
		b := s.signedIn(identity.Viewer)
		if code, body := b.open("/v1/log"); code != http.StatusOK {
			t.Fatalf("%s: with a session the API answers %d %s", name, code, body)
		}
		if code, _ := b.send("/v1/salt", url.Values{}); code != http.StatusUnauthorized {
			t.Errorf("%s: with a session alone the API records, and answers %d", name, code)
		}
		end(b)
		if code, _ := b.open("/v1/log"); code != http.StatusUnauthorized {
			t.Errorf("%s: the API answers %d", name, code)
		}
		if _, body := b.open("/"); !strings.Contains(body, signInTitle) {
			t.Errorf("%s: the page is\n%s", name, body)
		}
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
		if code, _ := b.open("/v1/log"); code != http.StatusUnauthorized {
			t.Errorf("%s: there is a session all the same: %d", name, code)
		}
	}
	if code, body := s.browser().send("/sign-in", url.Values{"token": {"  " + token + "\n"}}); code != http.StatusOK || strings.Contains(body, signInTitle) {
		t.Errorf("blanks around the token are taken amiss: %d\n%s", code, body)
	}
}

// Where signing in leads to is a page of this server, whatever a link to it says.
func TestSigningInLeadsNowhereElse(t *testing.T) {
	s := newSite(t)
	token := s.token(identity.Viewer)
	for next, want := range map[string]string{
		"": "/", "/": "/", "/?q=x&at=3": "/?q=x&at=3", "/pipelines/a%2Fb": "/pipelines/a%2Fb",
		"https://elsewhere.example/": "/", "//elsewhere.example": "/", `/\elsewhere.example`: "/", `\\elsewhere.example`: "/", "javascript:alert(1)": "/",
		"/\t/elsewhere.example": "/", "/\n/elsewhere.example": "/", "/sign-in?next=/": "/", "elsewhere": "/", "http:/elsewhere": "/", "/%zz": "/",
	} {
		b := s.browser()
		b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		answer, _ := b.do(b.request(http.MethodPost, "/sign-in", url.Values{"token": {token}, "next": {next}}.Encode(), "Content-Type", "application/x-www-form-urlencoded"))
		if got := answer.Header.Get("Location"); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestAFormThatIsOfNoPageSignsNobodyOut(t *testing.T) {
	s := newSite(t)
	b, other := s.signedIn(identity.Viewer), s.signedIn(identity.Operator)
	for name, fields := range map[string]url.Values{"none": {}, "wrong": {"form": {"wrong"}}, "of somebody else": {"form": {other.form("/")}}} {
		if code, _ := b.send("/sign-out", fields); code != http.StatusForbidden {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _ := b.send("/sign-out", url.Values{"form": {b.form("/")}}, "Origin", "https://elsewhere.example"); code != http.StatusForbidden {
		t.Errorf("from elsewhere: %d", code)
	}
	if code, _ := b.open("/v1/log"); code != http.StatusOK {
		t.Errorf("the session has ended: %d", code)
	}
}

// Everything that is sent forbids scripts within pages, frames around them, and guesses of what
// it is.
func TestEveryAnswerForbidsWhatBrowsersWouldDo(t *testing.T) {
	s := newSite(t, querytest.Large(8, 13)...)
	in := s.signedIn(identity.Viewer)
	_, page := in.open("/")
	assets := regexpAssets.FindAllString(page, -1)
	if len(assets) != 3 {
		t.Fatalf("a page loads %v", assets)
	}
	for _, path := range append(append([]string{"/nothing", "/sign-in", "/assets/nothing"}, assets...), paths...) {
		for _, b := range []*browser{s.browser(), in} {
			answer, body := b.do(b.request(http.MethodGet, path, ""))
			for header, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; ", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			} {
				if got := answer.Header.Get(header); !strings.HasPrefix(got, want) {
					t.Errorf("%s has the header %s: %q", path, header, got)
				}
			}
			if policy := answer.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
				t.Errorf("%s has the policy %s", path, policy)
			}
			cached := strings.Contains(answer.Header.Get("Cache-Control"), "public")
			if asset := strings.HasPrefix(path, "/assets/") && answer.StatusCode == http.StatusOK; cached != asset {
				t.Errorf("%s has Cache-Control: %s", path, answer.Header.Get("Cache-Control"))
			}
			if strings.Contains(body, "<style") || strings.Contains(body, "style=") || inlineScript.MatchString(body) {
				t.Errorf("%s has styles or scripts in it:\n%s", path, body)
			}
		}
	}
}

// A link on another site leads to a page although the cookie is not sent with what that site
// asks for: the page is opened once more, then by this site.
func TestALinkFromElsewhereIsFollowed(t *testing.T) {
	s := newSite(t)
	answer, _ := s.browser().do(s.browser().request(http.MethodGet, "/?q=a", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"))
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Refresh") != "0; url=/?q=a" {
		t.Errorf("%s %v", answer.Status, answer.Header)
	}
}
