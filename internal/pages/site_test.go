package pages_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/pages"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// site is a server with its pages and its API.
type site struct {
	testing.TB
	log    deploylog.Log
	tokens *identity.Tokens
	url    string
	pages  http.Handler

	workspace string
	workers   func() (build.Workers, string, error)

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

// token creates a token of a role, of its name.
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

// open is the page at a path, where following it leads to.
func (b *browser) open(path string, header ...string) (code int, body string) {
	answer, body := b.do(b.request(http.MethodGet, path, "", header...))
	return answer.StatusCode, body
}

// send sends a form.
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
