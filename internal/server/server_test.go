package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

// newServer serves a log. Whoever says "Bearer ROLE" has that role.
func newServer(t testing.TB, log deploylog.Log, more ...func(*server.Options)) (*server.Server, string) {
	o := options(t, log)
	for _, change := range more {
		change(&o)
	}
	s := server.New(o)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL
}

func options(t testing.TB, log deploylog.Log) server.Options {
	return server.Options{
		Log: log, Now: time.Now, Version: "test", Logger: slog.New(slog.DiscardHandler), Objects: objects.In(t.TempDir(), nil), Artifacts: artifacts.In(t.TempDir()), NewID: newID, Identify: byRole,
	}
}

func byRole(r *http.Request) (identity.Identity, error) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return identity.Identity{}, identity.ErrUnknown
	}
	if text == "nobody" {
		return identity.Identity{Name: text}, nil
	}
	role, err := identity.ParseRole(text)
	if err != nil {
		return identity.Identity{}, identity.ErrUnknown
	}
	return identity.Identity{Name: "the " + text, Grants: []identity.Grant{{Role: role}}}, nil
}

// until identifies who asks by role, until all tokens are revoked.
func until(revoked *atomic.Bool) func(*http.Request) (identity.Identity, error) {
	return func(r *http.Request) (identity.Identity, error) {
		if revoked.Load() {
			return identity.Identity{}, identity.ErrUnknown
		}
		return byRole(r)
	}
}

func ask(t testing.TB, method, url, role, body string, header ...string) (int, http.Header, string) {
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	if role != "" {
		r.Header.Set("Authorization", "Bearer "+role)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, answer.Header, string(text)
}

// expect sends a request, as ask does. Its answer has a status, and says something.
func expect(t testing.TB, status int, says, method, url, role, body string, header ...string) {
	got, _, said := ask(t, method, url, role, body, header...)
	_, path, _ := strings.Cut(url, "/v1/")
	answers(t, status, says, method, path, "as", role)(got, said)
}

func answers(t testing.TB, status int, says string, of ...any) func(int, string) {
	return func(got int, said string) {
		assert.True(t, got == status && strings.Contains(said, says), "%v: %d, want %d and %q: %.600s", of, got, status, says, said)
	}
}

// post sends a document in JSON, as expect does, and returns the answer.
func post(t testing.TB, status int, says, url, role string, of any, header ...string) (said string) {
	got, _, said := ask(t, "POST", url, role, string(mustJSON(t, of)), header...)
	_, path, _ := strings.Cut(url, "/v1/")
	answers(t, status, says, path, "as", role)(got, said)
	return said
}

func started(n int) deploylog.Event {
	return deploylog.Event{Deployment: fmt.Sprintf("d%d", n), Target: "run/web.yaml", Name: "run-started", Attempt: 1, Data: json.RawMessage(`{"text":"<&>"}`)}
}

func logOf(t *testing.T, events int) deploylog.Log {
	log := logtest.NewMemory().Open()
	for i := range events {
		require.NoError(t, must.Fail(log.Append(t.Context(), started(i))))
	}
	return log
}

// Every operation that there is, and every role: whoever lacks the role is refused before
// anything is read of what was asked for.
func TestEveryOperationNeedsItsRole(t *testing.T) {
	s, url := newServer(t, logOf(t, 1))
	for _, op := range s.Operations() {
		assert.Contains(t, identity.Roles(), op.Role, "%s %s needs the role", op.Method, op.Path)
		path := strings.NewReplacer("{name}", "gateway", "{job}", "1", "{digest}", strings.Repeat("0", 64), "{run}", newID()).Replace(op.Path)
		for _, role := range []string{"", "wrong", "nobody", "viewer", "operator", "approver", "admin"} {
			want := 0
			switch {
			case role == "" || role == "wrong":
				want = http.StatusUnauthorized
			case role == "nobody" || !identity.Role(role).Includes(op.Role):
				want = http.StatusForbidden
			}
			// What may be done is asked for with what cannot be meant, so that it has no end.
			status, header, body := ask(t, op.Method, url+path+"?until=-1", role, "\x00")
			refused := status == http.StatusUnauthorized || status == http.StatusForbidden
			if want == 0 && refused || want != 0 && status != want {
				t.Errorf("%s %s as %q: %d, want %d: %s", op.Method, op.Path, role, status, want, body)
			}
			if lacks := "it needs the role " + string(op.Role); status == http.StatusForbidden && role != "nobody" && !strings.Contains(body, lacks) {
				t.Errorf("%s %s as %q does not say that %s: %s", op.Method, op.Path, role, lacks, body)
			}
			if refused && (header.Get("Content-Type") != "application/problem+json" || strings.Contains(body, "gateway") || len(body) > 150) {
				t.Errorf("%s %s as %q says too much: %v %s", op.Method, op.Path, role, header, body)
			}
		}
	}
}

func TestEventsAreReadAndFollowed(t *testing.T) {
	log := logOf(t, 5)
	_, url := newServer(t, log)
	for query, want := range map[string]string{
		"":                               "1 2 3 4 5",
		"?after=2&until=4":               "3 4",
		"?last=2":                        "4 5",
		"?deployment=d1":                 "2",
		"?target=run/&name=run-started":  "1 2 3 4 5",
		"?target=run/other.yaml":         "",
		"?since=2200-01-01T00:00:00Z":    "",
		"?last=1&target=run%2Fweb.yaml":  "5",
		"?after=9223372036854775807":     "",
		"?since=1970-01-01T00:00:00.01Z": "1 2 3 4 5",
	} {
		status, header, body := ask(t, "GET", url+"/v1/events"+query, "viewer", "")
		var got []string
		for line := range strings.Lines(body) {
			var e deploylog.Event
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			assert.Equal(t, `{"text":"<&>"}`, string(e.Data), "event %d has the data %s", e.Seq, e.Data)
			got = append(got, fmt.Sprint(e.Seq))
		}
		assert.Equal(t, 200, status, query)
		assert.Equal(t, want, strings.Join(got, " "), query)
		assert.Equal(t, "application/x-ndjson", header.Get("Content-Type"))
		assert.Equal(t, log.ID(), header.Get("Deployster-Log"))
	}
}

// Who was disconnected asks again with the number of the last event, and misses none.
func TestServerSentEventsGoOnWhereTheyWereLeft(t *testing.T) {
	log := logOf(t, 3)
	_, url := newServer(t, log, func(o *server.Options) { o.Heartbeat = time.Millisecond })
	lines := follow(t, url+"/v1/events?after=1", "Accept", "text/event-stream", "Last-Event-ID", "2")
	beaten, want := false, "id: 3"
	for line := range lines {
		switch {
		case line == ":":
			beaten = true
			if want == "id: 4" {
				_, err := log.Append(t.Context(), started(3))
				require.True(t, err == nil || strings.Contains(err.Error(), "already"), "%v", err)
			}
		case strings.HasPrefix(line, "id: "):
			require.Equal(t, want, line)
			if line == "id: 4" {
				assert.True(t, beaten, "it never said that it is alive")
				return
			}
			want = "id: 4"
		}
	}
	t.Error("the stream ended")
}

// follow yields the lines of a stream, which ends with the test.
func follow(t testing.TB, url string, header ...string) func(func(string) bool) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := must.Get(http.NewRequestWithContext(ctx, "GET", url, nil))(t)
	r.Header.Set("Authorization", "Bearer viewer")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := must.Get(http.DefaultClient.Do(r))(t)
	return func(yield func(string) bool) {
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if !yield(lines.Text()) {
				return
			}
		}
	}
}

func TestAPanicIsAnsweredAndNotShown(t *testing.T) {
	_, url := newServer(t, panicking{logOf(t, 1)})
	status, _, body := ask(t, "GET", url+"/v1/log", "viewer", "")
	assert.Equal(t, 500, status)
	assert.NotContains(t, body, "secret")
}

type panicking struct{ deploylog.Log }

func (panicking) ID() string { panic("a secret") }

func newID() string { return "01JZZZZZZZZZZZZZZZZZZZZZZZ" }

func TestTheDocumentSaysWhichRoleIsNeeded(t *testing.T) {
	s, url := newServer(t, logOf(t, 0))
	status, _, body := ask(t, "GET", url+"/v1/openapi.json", "viewer", "")
	var document struct {
		OpenAPI string                               `json:"openapi"`
		Paths   map[string]map[string]map[string]any `json:"paths"`
	}
	require.Equal(t, 200, status)
	require.NoError(t, json.Unmarshal([]byte(body), &document))
	require.Contains(t, document.OpenAPI, "3.1")
	n := 0
	for _, methods := range document.Paths {
		n += len(methods)
	}
	assert.Equal(t, len(s.Operations()), n)
	for _, op := range s.Operations() {
		got := document.Paths[op.Path][strings.ToLower(op.Method)]["x-role"]
		assert.True(t, got == string(op.Role), "%s %s: %v, want %s", op.Method, op.Path, got, op.Role)
	}
}

func TestCommandsAreRecordedAsWhoWasAuthenticated(t *testing.T) {
	log := logOf(t, 0)
	p := pipelines.New(log, time.Now)
	d := querytest.Definition()
	require.NoError(t, must.Fail(p.Command(t.Context(), d.Name, pipeline.Define{Definition: d, ID: "d0", By: "root"})))
	_, url := newServer(t, log)
	at := url + "/v1/pipelines/" + d.Name + "/commands/"
	const manifest = "resources: {}"
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(manifest)))
	expect(t, http.StatusNoContent, "", "PUT", url+"/v1/objects/"+digest, "operator", manifest)
	carries := `"carries":{"deploy.yaml":"` + digest + `"}`
	by := `"by":"the operator"`
	expect(t, 403, "", "POST", at+"pause", "viewer", `{}`)
	expect(t, 403, "", "POST", at+"pause", "approver", `{}`)
	expect(t, 422, "", "POST", at+"pause", "operator", `{"reason":"why","by":"root"}`)
	expect(t, 422, "", "POST", at+"pause", "operator", `{"reason":"a\nb"}`)
	expect(t, 200, by, "POST", at+"pause", "operator", `{"reason":"why"}`)
	expect(t, 422, "", "POST", at+"release", "operator", `{"revision":"1","carries":{"a":"b"}}`)
	expect(t, 422, "", "POST", at+"release", "operator", `{"revision":"1","carries":{"a":"`+strings.Repeat("0", 64)+`"}}`)
	expect(t, 422, "", "POST", at+"release", "operator", `{"revision":"1"}`)
	expect(t, 404, "", "POST", at+"release", "operator", `{"revision":"1","takes":[{"pipeline":"x","revision":"1"}],`+carries+`}`)
	expect(t, 200, by, "POST", at+"release", "operator", `{"revision":"1",`+carries+`}`, "If-Match", `"1"`)
	expect(t, 409, "", "POST", at+"release", "operator", `{"revision":"1",`+carries+`}`)
	expect(t, 404, "", "POST", at+"skip", "operator", `{"revision":"nonsense"}`)
	expect(t, 413, "", "POST", at+"skip", "operator", strings.Repeat(" ", 2<<20))
	expect(t, 403, "", "POST", at+"approve", "operator", `{"stage":"x","revision":"1"}`)
	expect(t, 404, "", "POST", at+"approve", "approver", `{"stage":"x","revision":"1"}`)
	expect(t, 404, "", "POST", url+"/v1/pipelines/nonsense/commands/pause", "admin", `{}`)
	require.NoError(t, must.Fail(p.Command(t.Context(), d.Name, pipeline.Define{Definition: d, ID: "d9", By: "root", Inventory: "another"})))
	expect(t, 412, "", "POST", at+"release", "operator", `{"revision":"2"}`, "If-Match", `"1"`)
}

func TestWhoMayReadNoMoreFollowsNoMore(t *testing.T) {
	log := logtest.NewMemory().Open()
	var revoked atomic.Bool
	_, url := newServer(t, log, func(o *server.Options) {
		o.Heartbeat = time.Millisecond
		o.Identify = until(&revoked)
	})
	lines := follow(t, url+"/v1/events?follow=true")
	revoked.Store(true)
	for line := range lines {
		assert.Empty(t, line)
	}
}

// Anybody may send tokens of an issuer that does not answer, so each fills no line of the log.
func TestWhoCannotBeFoundOutNowIsToldAndNotLogged(t *testing.T) {
	var said bytes.Buffer
	failed := fmt.Errorf("%w: issuer ci", identity.ErrLater)
	_, url := newServer(t, logtest.NewMemory().Open(), func(o *server.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		o.Identify = func(*http.Request) (identity.Identity, error) { return identity.Identity{}, failed }
	})
	refused := func() {
		t.Helper()
		if code, _, body := ask(t, http.MethodGet, url+"/v1/log", "", ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "try again later") || strings.Contains(body, "issuer") {
			t.Errorf("%d %s", code, body)
		}
	}
	refused()
	assert.Zero(t, said.Len(), "%v", &said)
	failed = errors.New("broken")
	refused()
	assert.Contains(t, said.String(), "broken", "nothing says why")
}

func TestAServerSaysWhatItLacks(t *testing.T) {
	_, url := newServer(t, logOf(t, 0))
	expect(t, 409, "no inventory", "GET", url+"/v1/inventory", "viewer", "")
	expect(t, 409, "has no workers", "GET", url+"/v1/workers", "viewer", "")
	expect(t, 409, "", "POST", url+"/v1/runs", "operator", `{"manifests":["a.yaml"],"carries":{}}`)
	expect(t, 422, "define and delete of pipelines and update of environments alone",
		"POST", url+"/v1/pipelines/gateway/commands/pause", "admin", `{}`, "If-Match", `"1"`)
}

// What a notification put aside is told again when somebody asks for it, once however often the
// request comes; and so is a token created, of which the server learns a hash alone.
func TestNotificationsAreToldAgainAndTokensCreatedOnce(t *testing.T) {
	log := logOf(t, 2)
	for i, e := range []deploylog.Event{
		{Deployment: "a", Target: "notification/team", Name: "notification-begun", Attempt: 1, Data: []byte(`{"version":1,"through":1}`)},
		{Deployment: "b", Target: "notification/team", Name: "notification-abandoned", Attempt: 1, Data: []byte(`{"version":1,"told":2,"through":2,"tries":6,"error":"503"}`)},
	} {
		require.NoError(t, must.Fail(log.Append(t.Context(), e)), "%v", i)
	}
	_, url := newServer(t, log, func(o *server.Options) {})
	hash := strings.Repeat("0a", 32)
	for _, c := range []struct{ role, path, body, want string }{
		{"operator", "/v1/notifications/team/commands/retry", `{"event":2}`, "notification-retried"},
		{"admin", "/v1/tokens/ci/commands/create", `{"token":"01A","hash":"` + hash + `","role":"viewer"}`, "token-created"},
		{"admin", "/v1/tokens/ci/commands/revoke", `{}`, "token-revoked"},
	} {
		var first string
		for n := range 3 {
			status, _, said := ask(t, "POST", url+c.path, c.role, c.body, "Idempotency-Key", "k"+c.path)
			require.True(t, status == 200 && strings.Contains(said, c.want) && !strings.Contains(said, "01A_"), "%s: %d %s", c.path, status, said)
			if n == 0 {
				first = said
			}
			assert.Equal(t, first, said, "%s sent again is answered %s, and not %s", c.path, said, first)
		}
		status, _, said := ask(t, "POST", url+c.path, c.role, c.body)
		assert.True(t, c.want == "token-created" || status >= 400, "%s a second time: %d %s", c.path, status, said)
	}
	for path, want := range map[string]int{
		"/v1/notifications/team/commands/retry": 404, "/v1/notifications/nobody/commands/retry": 404, "/v1/tokens/ci/commands/revoke": 409,
	} {
		expect(t, want, "", "POST", url+path, "admin", `{}`)
	}
	for _, body := range []string{`{"token":"01A","hash":"` + hash + `","role":"viewer"}`, `{"token":"01B","role":"viewer"}`, `{"token":"01B","hash":"` + hash + `","role":"root"}`, `{"token":"01B","hash":"` + hash + `","role":"viewer","secret":"x"}`, `[]`, `{`} {
		status, _, said := ask(t, "POST", url+"/v1/tokens/more/commands/create", "admin", body)
		assert.True(t, status == 409 || status == 422, "%s: %d %s", body, status, said)
	}
}

// Who sends a revision is asked to put what it carries where that mends something, and not where
// the disk of the server fails.
func TestADiskThatFailsIsNotMendedByWhoSends(t *testing.T) {
	content := []byte("resources: []")
	body := `{"revision": "43", "carries": {"m.yaml": "` + objects.Hash(content) + `"}}`
	for _, c := range []struct {
		name   string
		make   func(dir string) error // of the objects
		status int
		want   string
	}{
		{"it is not here", func(string) error { return nil }, http.StatusUnprocessableEntity, "is not here: put it first"},
		{"it was altered", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, objects.Hash(content)), []byte("else"), 0o600)
		}, http.StatusUnprocessableEntity, "is not here: put it first"},
		{"it cannot be read", func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600) // the directory is none
		}, http.StatusInternalServerError, "the log of the server says why"},
	} {
		dir := t.TempDir()
		objectsDir := filepath.Join(dir, "sha256")
		require.NoError(t, os.Mkdir(objectsDir, 0o700))
		require.NoError(t, c.make(objectsDir))
		_, url := newServer(t, inFile(t, 1), func(o *server.Options) { o.Objects = objects.In(dir, nil) })
		expect(t, c.status, c.want, "POST", url+"/v1/pipelines/p0/commands/release", "operator", body)
	}
}

// poisoned is a log to which nothing can be written.
type poisoned struct {
	deploylog.Log
	err error
}

func (p poisoned) Append(context.Context, ...deploylog.Event) ([]deploylog.Event, error) {
	return nil, p.err
}

// unreadable is a log that cannot be read to its end, if events of a name are asked for.
type unreadable struct{ deploylog.Log }

func (l unreadable) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range l.Log.Read(ctx, f) {
			if !yield(e, err) {
				return
			}
		}
		if f.Name != "" {
			yield(deploylog.Event{}, errors.New("/srv/deploy/deployments.db: the disk is gone"))
		}
	}
}

// Whoever has a server run learns that its log takes nothing any more, so that another one is
// started: by the write that fails already. Who asked for that one is told that it may be there.
func TestALogThatTakesNothingAnyMoreIsTold(t *testing.T) {
	for _, tc := range []struct {
		err  error
		says string
	}{{deploylog.ErrUnwritten, "look whether this was recorded"}, {deploylog.ErrPoisoned, "its disk is full"}} {
		told := make(chan error, 10)
		_, url := newServer(t, poisoned{inFile(t, 1), tc.err}, func(o *server.Options) { o.Failed = func(err error) { told <- err } })
		expect(t, http.StatusServiceUnavailable, tc.says, "POST", url+"/v1/pipelines/p0/commands/pause", "operator", "{}")
		require.NotEmpty(t, told, "%v: nobody is told", tc.err)
		assert.ErrorIs(t, <-told, tc.err)
	}
}
