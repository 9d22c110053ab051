package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/big"
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

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

// serve serves a log to an admin whose name is ada.
func serve(t testing.TB, log deploylog.Log, store objects.Store) (url string) {
	return serveOn(t, log, store, nil)
}

// serveOn is serve with an inventory.
func serveOn(t testing.TB, log deploylog.Log, store objects.Store, hosts server.Hosts) (url string) {
	return listen(t, handler(log, store, hosts)).URL
}

func handler(log deploylog.Log, store objects.Store, hosts server.Hosts) http.Handler {
	return server.New(server.Options{
		Hosts: hosts, Log: log, Objects: store, Now: time.Now, NewID: newID, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Identify: func(*http.Request) (identity.Identity, error) {
			return identity.Identity{Name: "ada", Grants: []identity.Grant{{Role: identity.Admin}}}, nil
		},
	})
}

// listen serves a handler until the test ends.
func listen(t testing.TB, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections() // those that follow the log
		s.Close()
	})
	return s
}

// connect returns a client of a server that answers as it is told.
func connect(t testing.TB, answer http.HandlerFunc) *client.Client {
	c := must.Get(client.New(client.Options{Server: listen(t, answer).URL}))(t)
	return c
}

func open(t testing.TB, url string) *client.Log {
	c := must.Get(client.New(client.Options{Server: url}))(t)
	log := must.Get(c.Open(t.Context()))(t)
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
		assert.ErrorContains(t, err, "without --server")
	}
}

func TestObjectsAreKeptAndReadThroughAServer(t *testing.T) {
	here := objects.In(t.TempDir(), nil)
	c := must.Get(client.New(client.Options{Server: serve(t, logtest.NewMemory().Open(), here)}))(t)
	far := objects.Via(c.Objects())
	hash := must.Get(far.Keep([]byte("a text")))(t)
	for _, store := range []objects.Store{here, far} {
		text, err := store.Load(hash)
		require.NoError(t, err)
		assert.Equal(t, "a text", string(text))
		_, err = store.Load(strings.Repeat("0", 64))
		assert.ErrorContains(t, err, objects.ErrMissing.Error())
	}
	made := must.Get(far.MakeSalt())(t)
	assert.Equal(t, made, must.Get(here.Salt())(t))
	assert.Error(t, errOf(far.Keep(make([]byte, objects.MaxSize+1))), "an object that is too large is kept")
	wrong := c.Objects()
	assert.Error(t, wrong.Keep(strings.Repeat("0", 64), []byte("another text")), "a content is kept under the digest of another one")
}

// A server that is not to be trusted does not get an object taken for another one.
func TestAnObjectThatIsAnotherOneIsRefused(t *testing.T) {
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("altered")) })
	assert.Error(t, errOf(objects.Via(c.Objects()).Load(objects.Hash([]byte("a text")))))
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
	elsewhere := listen(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") }))
	s := listen(t, http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	c := must.Get(client.New(client.Options{Server: s.URL, Token: "dpl_secret"}))(t)
	assert.ErrorContains(t, errOf(c.Open(t.Context())), "is the address right?")
	assert.Empty(t, asked, "it was followed")
}

var ids atomic.Int64

func newID() string { return fmt.Sprintf("01JZ%022d", ids.Add(1)) }

// A server that comes back with another log is not read on: the numbers of its events mean
// something else.
func TestAnotherLogIsNotReadOn(t *testing.T) {
	var replaced atomic.Bool
	first := logtest.NewMemory().Open()
	one, other := handler(first, objects.Store{}, nil), handler(logtest.NewMemory().Open(), objects.Store{}, nil)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if replaced.Load() {
			other.ServeHTTP(w, r)
			return
		}
		one.ServeHTTP(w, r)
	}))
	_, err := first.Append(t.Context(), deploylog.Event{Deployment: "d", Target: "run/m.yaml", Name: "run-started", Attempt: 1})
	require.NoError(t, err)
	for e, err := range open(t, s.URL).Watch(t.Context(), deploylog.Filter{}) {
		if err == nil && e.Seq == 1 && !replaced.Load() {
			replaced.Store(true)
			s.CloseClientConnections()
			continue
		}
		assert.ErrorContains(t, err, "another log", "%+v", e)
		return
	}
}

// Who has read more than there is has read another log, and is told so instead of waiting.
func TestMoreThanThereIsIsNotReadOn(t *testing.T) {
	for e, err := range open(t, serve(t, logtest.NewMemory().Open(), objects.In(t.TempDir(), nil))).Watch(t.Context(), deploylog.Filter{After: 2}) {
		assert.ErrorContains(t, err, "there is no event 2 yet: the log ends with event 0", "%+v", e)
		return
	}
}

// A command whose answer was cut off is sent again, and recorded once.
func TestACommandOutlivesACutConnection(t *testing.T) {
	log := logtest.NewMemory().Open()
	require.NoError(t, errOf(log.Append(t.Context(), definedPipeline())))
	h := handler(log, objects.Store{}, nil)
	var cut atomic.Int32
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && cut.Add(1) <= 2 {
			h.ServeHTTP(httptest.NewRecorder(), r) // it is done, and who asked does not hear of it
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	events := must.Get(open(t, s.URL).Command(t.Context(), identity.Pipelines, "one", pipeline.PausePipeline{Reason: "why"}, 0))(t)
	require.Len(t, events, 1)
	assert.Equal(t, "pipeline-paused", events[0].Name)
	recorded := 0
	for _, err := range log.Read(t.Context(), deploylog.Filter{Name: "pipeline-paused"}) {
		require.NoError(t, err)
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

// An address is that of a server however it is written, and no other one is.
func TestAServerIsItselfHoweverItIsWritten(t *testing.T) {
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"https://deploy.example", "https://deploy.example/", true},
		{"https://deploy.example/", "https://Deploy.Example:443", true},
		{"http://127.0.0.1:80", "http://127.0.0.1/", true},
		{"https://deploy.example", "https://deploy.example:7450", false},
		{"https://deploy.example", "http://deploy.example", false},
		{"https://deploy.example", "https://deploy.example/team", false},
		{"https://deploy.example", "https://deploy.example.net", false},
		{"https://deploy.example", "", false},
		{"unix:/run/deployster/socket", "unix:///run/deployster//socket", true},
		{"unix:/run/deployster/socket", "unix:/run/other/socket", false},
		{"unix:/run/deployster/socket", "http://socket", false},
	} {
		s := must.Get(client.New(client.Options{Server: c.one}))(t)
		assert.Equal(t, c.same, s.Is(c.other), "%q is %q", c.one, c.other)
	}
}

// Who is known by a certificate shows it to the server that asks for one.
func TestACertificateIsShown(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ada"}, NotAfter: time.Now().Add(time.Hour)}
	made := must.Get(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)
	shown := make(chan string, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.TLS.PeerCertificates[0].Subject.CommonName
		w.WriteHeader(http.StatusForbidden)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	c := must.Get(client.New(client.Options{Server: s.URL, Certificate: &tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}}))(t)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", trusted) // a process reads it once: no other test of this package verifies a server
	require.Error(t, errOf(c.Open(t.Context())), "the server is no server")
	require.NotEmpty(t, shown, "no certificate is shown")
	assert.Equal(t, "ada", <-shown, "the certificate of")
}

func errOf[T any](_ T, err error) error { return err }
