package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

// serve serves a log to an admin whose name is ada.
func serve(t testing.TB, log deploylog.Log, store objects.Store) (url string) {
	t.Helper()
	return serveOn(t, log, store, nil)
}

// serveOn is serve with an inventory.
func serveOn(t testing.TB, log deploylog.Log, store objects.Store, hosts server.Hosts) (url string) {
	t.Helper()
	s := httptest.NewServer(server.New(server.Options{
		Hosts: hosts,
		Log:   log, Objects: store, Now: time.Now, NewID: newID, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Identify: func(*http.Request) (identity.Identity, error) {
			return identity.Identity{Name: "ada", Grants: []identity.Grant{{Role: identity.Admin}}}, nil
		},
	}))
	t.Cleanup(func() {
		s.CloseClientConnections() // those that follow the log
		s.Close()
	})
	return s.URL
}

func open(t testing.TB, url string) *client.Log {
	t.Helper()
	c, err := client.New(client.Options{Server: url})
	if err != nil {
		t.Fatal(err)
	}
	log, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// both writes to a log, and reads it through a server.
type both struct {
	deploylog.Log
	read *client.Log
}

func (b both) Close() error { return errors.Join(b.read.Close(), b.Log.Close()) }
func (b both) ID() string   { return b.read.ID() }
func (b both) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return b.read.Read(ctx, f)
}
func (b both) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return b.read.Watch(ctx, f)
}

func (b both) Latest(ctx context.Context, t deploylog.Target, o deploylog.Outcome) (deploylog.Event, bool, error) {
	return b.read.Latest(ctx, t, o)
}

func (b both) InProgress(ctx context.Context, t deploylog.Target) ([]deploylog.Event, error) {
	return b.read.InProgress(ctx, t)
}
func (b both) Locked(name string) (bool, error) { return b.read.Locked(name) }

// What the suite of stores demands holds through a server, too.
func TestAServerReadsAsItsStoreDoes(t *testing.T) {
	logtest.Run(t, func(tb testing.TB) logtest.Store {
		memory := logtest.NewMemory()
		url := serve(tb, memory.Open(), objects.In(tb.TempDir(), nil))
		return func() deploylog.Log {
			l := memory.Open()
			tb.Cleanup(func() { _ = l.Close() })
			return both{l, open(tb, url)}
		}
	})
}

func TestNothingIsAppendedThroughAServer(t *testing.T) {
	log := open(t, serve(t, logtest.NewMemory().Open(), objects.In(t.TempDir(), nil)))
	_, appended := log.Append(t.Context(), deploylog.Event{})
	_, locked := log.Lock(t.Context(), "pipelines")
	_, tried := log.TryLock("pipelines")
	for _, err := range []error{appended, locked, tried} {
		if err == nil || !strings.Contains(err.Error(), "without --server") {
			t.Errorf("%v", err)
		}
	}
}

func TestObjectsAreKeptAndReadThroughAServer(t *testing.T) {
	here := objects.In(t.TempDir(), nil)
	c, err := client.New(client.Options{Server: serve(t, logtest.NewMemory().Open(), here)})
	if err != nil {
		t.Fatal(err)
	}
	far := objects.Via(c.Objects())
	hash, err := far.Keep([]byte("a text"))
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []objects.Store{here, far} {
		if text, err := store.Load(hash); err != nil || string(text) != "a text" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := store.Load(strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), objects.ErrMissing.Error()) {
			t.Errorf("what is missing: %v", err)
		}
	}
	made, err := far.MakeSalt()
	if err != nil {
		t.Fatal(err)
	}
	if salt, err := here.Salt(); err != nil || string(salt) != string(made) {
		t.Errorf("%x, %v, want %x", salt, err, made)
	}
	if _, err := far.Keep(make([]byte, objects.MaxSize+1)); err == nil {
		t.Error("an object that is too large is kept")
	}
	wrong := c.Objects()
	if err := wrong.Keep(strings.Repeat("0", 64), []byte("another text")); err == nil {
		t.Error("a content is kept under the digest of another one")
	}
}

// A server that is not to be trusted does not get an object taken for another one.
func TestAnObjectThatIsAnotherOneIsRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("altered")) }))
	defer s.Close()
	c, err := client.New(client.Options{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := objects.Via(c.Objects()).Load(objects.Hash([]byte("a text"))); err == nil {
		t.Errorf("%q", text)
	}
}

func TestATokenIsNotSentInTheClear(t *testing.T) {
	for address, want := range map[string]string{
		"https://deploy.example":       "",
		"http://127.0.0.1:8080":        "",
		"http://localhost:8080/":       "",
		"http://[::1]:8080":            "",
		"unix:/run/deployster.sock":    "",
		"unix:///run/deployster.sock":  "",
		"http://deploy.example":        "for all to read",
		"http://127.0.0.1.example":     "for all to read",
		"https://me:secret@deploy.net": "neither user nor query",
		"https://deploy.net/?token=x":  "neither user nor query",
		"deploy.example":               "is no server",
		"ftp://deploy.example":         "is no server",
		"unix:":                        "names no socket",
	} {
		_, err := client.New(client.Options{Server: address, Token: "dpl_secret"})
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "dpl_secret")) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestARedirectionGetsNoToken(t *testing.T) {
	asked := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	c, err := client.New(client.Options{Server: s.URL, Token: "dpl_secret"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "is the address right?") {
		t.Error(err)
	}
	if len(asked) > 0 {
		t.Error("it was followed")
	}
}

var ids atomic.Int64

func newID() string { return fmt.Sprintf("01JZ%022d", ids.Add(1)) }

// A server that comes back with another log is not read on: the numbers of its events mean
// something else.
func TestAnotherLogIsNotReadOn(t *testing.T) {
	var replaced atomic.Bool
	of := func(log deploylog.Log) http.Handler {
		return server.New(server.Options{
			Log: log, Objects: objects.In(t.TempDir(), nil), Now: time.Now, NewID: newID, Version: "test", Logger: slog.New(slog.DiscardHandler),
			Identify: func(*http.Request) (identity.Identity, error) {
				return identity.Identity{Name: "ada", Grants: []identity.Grant{{Role: identity.Admin}}}, nil
			},
		})
	}
	first := logtest.NewMemory().Open()
	one, other := of(first), of(logtest.NewMemory().Open())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if replaced.Load() {
			other.ServeHTTP(w, r)
			return
		}
		one.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	if _, err := first.Append(t.Context(), deploylog.Event{Deployment: "d", Target: "run/m.yaml", Name: "run-started", Attempt: 1}); err != nil {
		t.Fatal(err)
	}
	for e, err := range open(t, s.URL).Watch(t.Context(), deploylog.Filter{}) {
		if err == nil && e.Seq == 1 && !replaced.Load() {
			replaced.Store(true)
			s.CloseClientConnections()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "another log") {
			t.Errorf("%+v, %v", e, err)
		}
		return
	}
}

// Who has read more than there is has read another log, and is told so instead of waiting.
func TestMoreThanThereIsIsNotReadOn(t *testing.T) {
	for e, err := range open(t, serve(t, logtest.NewMemory().Open(), objects.In(t.TempDir(), nil))).Watch(t.Context(), deploylog.Filter{After: 2}) {
		if err == nil || !strings.Contains(err.Error(), "there is no event 2 yet: the log ends with event 0") {
			t.Errorf("%+v, %v", e, err)
		}
		return
	}
}

// A command whose answer was cut off is sent again, and recorded once.
func TestACommandOutlivesACutConnection(t *testing.T) {
	log := logtest.NewMemory().Open()
	if _, err := log.Append(t.Context(), definedPipeline()); err != nil {
		t.Fatal(err)
	}
	h := server.New(server.Options{
		Log: log, Objects: objects.In(t.TempDir(), nil), Now: time.Now, NewID: newID, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Identify: func(*http.Request) (identity.Identity, error) {
			return identity.Identity{Name: "ada", Grants: []identity.Grant{{Role: identity.Admin}}}, nil
		},
	})
	var cut atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && cut.Add(1) <= 2 {
			h.ServeHTTP(httptest.NewRecorder(), r) // it is done, and who asked does not hear of it
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	events, err := open(t, s.URL).Command(t.Context(), identity.Pipelines, "one", pipeline.PausePipeline{Reason: "why"}, 0)
	if err != nil || len(events) != 1 || events[0].Name != "pipeline-paused" {
		t.Errorf("%+v, %v", events, err)
	}
	recorded := 0
	for _, err := range log.Read(t.Context(), deploylog.Filter{Name: "pipeline-paused"}) {
		if err != nil {
			t.Fatal(err)
		}
		recorded++
	}
	if recorded != 1 || cut.Load() != 3 {
		t.Errorf("recorded %d times, sent %d times", recorded, cut.Load())
	}
}

// definedPipeline is the event of a pipeline with one stage.
func definedPipeline() deploylog.Event {
	return deploylog.Event{
		Deployment: "d", Target: "pipeline/one", Name: "pipeline-defined", Attempt: 1,
		Data: json.RawMessage(`{"version":1,"definition":{"pipeline":"one","stages":[{"name":"ask","after":[],"approval":{}}]}}`),
	}
}
