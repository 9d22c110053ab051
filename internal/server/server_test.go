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
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

// newServer serves a log. Whoever says "Bearer ROLE" has that role.
func newServer(t testing.TB, log deploylog.Log, more ...func(*server.Options)) (*server.Server, string) {
	t.Helper()
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

func ask(t *testing.T, method, url, role, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if role != "" {
		r.Header.Set("Authorization", "Bearer "+role)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

func started(n int) deploylog.Event {
	return deploylog.Event{Deployment: fmt.Sprintf("d%d", n), Target: "run/web.yaml", Name: "run-started", Attempt: 1, Data: json.RawMessage(`{"text":"<&>"}`)}
}

func logOf(t *testing.T, events int) deploylog.Log {
	t.Helper()
	log := logtest.NewMemory().Open()
	for i := range events {
		if _, err := log.Append(t.Context(), started(i)); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// Every operation that there is, and every role: whoever lacks the role is refused before
// anything is read of what was asked for.
func TestEveryOperationNeedsItsRole(t *testing.T) {
	s, url := newServer(t, logOf(t, 1))
	for _, op := range s.Operations() {
		if !slices.Contains(identity.Roles(), op.Role) {
			t.Errorf("%s %s needs the role %q, which there is not", op.Method, op.Path, op.Role)
		}
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
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if string(e.Data) != `{"text":"<&>"}` {
				t.Errorf("event %d has the data %s", e.Seq, e.Data)
			}
			got = append(got, fmt.Sprint(e.Seq))
		}
		if status != 200 || strings.Join(got, " ") != want || header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("%s: %d, %v, want %s", query, status, got, want)
		}
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
				if _, err := log.Append(t.Context(), started(3)); err != nil && !strings.Contains(err.Error(), "already") {
					t.Fatal(err)
				}
			}
		case strings.HasPrefix(line, "id: "):
			if line != want {
				t.Fatalf("%q, want %q", line, want)
			}
			if line == "id: 4" {
				if !beaten {
					t.Error("it never said that it is alive")
				}
				return
			}
			want = "id: 4"
		}
	}
	t.Error("the stream ended")
}

// follow yields the lines of a stream, which ends with the test.
func follow(t *testing.T, url string, header ...string) func(func(string) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer viewer")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string) bool) {
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if !yield(lines.Text()) {
				return
			}
		}
	}
}

func TestWhatIsNotThereIsRefusedPlainly(t *testing.T) {
	_, url := newServer(t, logOf(t, 1))
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/v1/nothing", 404},
		{"DELETE", "/v1/log", 405},
		{"GET", "/v1/../../etc/passwd", 404},
		{"GET", "/v1/log%2f..%2f..%2fetc", 404},
		{"GET", "/v1/events?after=x", 422},
		{"GET", "/v1/events?follow=true&until=1", 422},
		{"GET", "/v1/log/latest?target=run/web.yaml&outcome=odd", 422},
		{"GET", "/v1/log/verify?anchor=1", 422},
		{"GET", "/v1/log/verify?anchor=1:" + strings.Repeat("0", 64), 409},
	} {
		status, header, body := ask(t, c.method, url+c.path, "admin", "")
		if status != c.want || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %v %s, want %d", c.method, c.path, status, header, body, c.want)
		}
	}
}

func TestAPanicIsAnsweredAndNotShown(t *testing.T) {
	_, url := newServer(t, panicking{logOf(t, 1)})
	status, _, body := ask(t, "GET", url+"/v1/log", "viewer", "")
	if status != 500 || strings.Contains(body, "secret") {
		t.Errorf("%d %s", status, body)
	}
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
	if err := json.Unmarshal([]byte(body), &document); status != 200 || err != nil || !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Fatal(status, err, document.OpenAPI)
	}
	n := 0
	for _, methods := range document.Paths {
		n += len(methods)
	}
	if n != len(s.Operations()) {
		t.Errorf("it has %d operations, and there are %d", n, len(s.Operations()))
	}
	for _, op := range s.Operations() {
		if got := document.Paths[op.Path][strings.ToLower(op.Method)]["x-role"]; got != string(op.Role) {
			t.Errorf("%s %s: %v, want %s", op.Method, op.Path, got, op.Role)
		}
	}
}

// What is recorded is by who was authenticated, whatever the body says.
func TestCommandsAreRecordedAsWhoWasAuthenticated(t *testing.T) {
	log := logOf(t, 0)
	p := pipelines.New(log, time.Now)
	d := querytest.Definition()
	if _, err := p.Command(t.Context(), d.Name, pipeline.Define{Definition: d, ID: "d0", By: "root"}); err != nil {
		t.Fatal(err)
	}
	_, url := newServer(t, log)
	at := url + "/v1/pipelines/" + d.Name + "/commands/"
	const manifest = "resources: {}"
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(manifest)))
	if status, _, body := ask(t, "PUT", url+"/v1/objects/"+digest, "operator", manifest); status/100 != 2 {
		t.Fatal(status, body)
	}
	carries := `"carries":{"deploy.yaml":"` + digest + `"}`
	for _, c := range []struct {
		verb, role, body string
		want             int
		header           []string
	}{
		{"pause", "viewer", `{}`, 403, nil},
		{"pause", "approver", `{}`, 403, nil},
		{"pause", "operator", `{"reason":"why","by":"root"}`, 422, nil},
		{"pause", "operator", `{"reason":"a\nb"}`, 422, nil},
		{"pause", "operator", `{"reason":"why"}`, 200, nil},
		{"release", "operator", `{"revision":"1","carries":{"a":"b"}}`, 422, nil},
		{"release", "operator", `{"revision":"1","carries":{"a":"` + strings.Repeat("0", 64) + `"}}`, 422, nil},
		{"release", "operator", `{"revision":"1"}`, 422, nil},
		{"release", "operator", `{"revision":"1","takes":[{"pipeline":"x","revision":"1"}],` + carries + `}`, 404, nil},
		{"release", "operator", `{"revision":"1",` + carries + `}`, 200, []string{"If-Match", `"1"`}},
		{"release", "operator", `{"revision":"1",` + carries + `}`, 409, nil},
		{"skip", "operator", `{"revision":"nonsense"}`, 404, nil},
		{"skip", "operator", strings.Repeat(" ", 2<<20), 413, nil},
		{"approve", "operator", `{"stage":"x","revision":"1"}`, 403, nil},
		{"approve", "approver", `{"stage":"x","revision":"1"}`, 404, nil},
	} {
		status, _, body := ask(t, "POST", at+c.verb, c.role, c.body, append(c.header, "Content-Type", "application/json")...)
		if status != c.want {
			t.Errorf("%s as %s: %d %s, want %d", c.verb, c.role, status, body, c.want)
		}
		if status == 200 && !strings.Contains(body, `"by":"the operator"`) {
			t.Errorf("%s: %s", c.verb, body)
		}
	}
	if status, _, body := ask(t, "POST", url+"/v1/pipelines/nonsense/commands/pause", "admin", `{}`); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	if _, err := p.Command(t.Context(), d.Name, pipeline.Define{Definition: d, ID: "d9", By: "root", Inventory: "another"}); err != nil {
		t.Fatal(err)
	}
	if status, _, body := ask(t, "POST", at+"release", "operator", `{"revision":"2"}`, "If-Match", `"1"`); status != 412 {
		t.Errorf("a revision that was collected for another definition: %d %s", status, body)
	}
}

// What follows the log ends soon after its token did.
func TestWhoMayReadNoMoreFollowsNoMore(t *testing.T) {
	log := logtest.NewMemory().Open()
	var revoked atomic.Bool
	_, url := newServer(t, log, func(o *server.Options) {
		o.Heartbeat = time.Millisecond
		o.Identify = func(r *http.Request) (identity.Identity, error) {
			if revoked.Load() {
				return identity.Identity{}, identity.ErrUnknown
			}
			return byRole(r)
		}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/events?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer viewer")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.Header.Get("Deployster-Log") != log.ID() {
		t.Errorf("the answer says nothing of the log: %v", answer.Header)
	}
	revoked.Store(true)
	if _, err := io.ReadAll(answer.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
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
	if said.Len() > 0 {
		t.Error(&said)
	}
	failed = errors.New("broken")
	refused()
	if !strings.Contains(said.String(), "broken") {
		t.Error("nothing says why")
	}
}

func TestOnlyWhatHasABaseHeedsIfMatch(t *testing.T) {
	_, url := newServer(t, logtest.NewMemory().Open())
	code, _, body := ask(t, http.MethodPost, url+"/v1/pipelines/gateway/commands/pause", "admin", `{}`, "If-Match", `"1"`)
	if code != http.StatusUnprocessableEntity || !strings.Contains(body, "define and delete of pipelines and update of environments alone") {
		t.Errorf("%d %s", code, body)
	}
}
