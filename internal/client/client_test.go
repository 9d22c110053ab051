package client_test

import (
	"bytes"
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
	"io"
	"iter"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
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
	assert.Error(t, must.Fail(far.Keep(make([]byte, objects.MaxSize+1))), "an object that is too large is kept")
	wrong := c.Objects()
	assert.Error(t, wrong.Keep(strings.Repeat("0", 64), []byte("another text")), "a content is kept under the digest of another one")
}

func TestAnObjectThatIsAnotherOneIsRefused(t *testing.T) {
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("altered")) })
	assert.Error(t, must.Fail(objects.Via(c.Objects()).Load(objects.Hash([]byte("a text")))))
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
	assert.ErrorContains(t, must.Fail(c.Open(t.Context())), "is the address right?")
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
	require.NoError(t, must.Fail(first.Append(t.Context(), deploylog.Event{Deployment: "d", Target: "run/m.yaml", Name: "run-started", Attempt: 1})))
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

func TestACommandOutlivesACutConnection(t *testing.T) {
	log := logtest.NewMemory().Open()
	require.NoError(t, must.Fail(log.Append(t.Context(), definedPipeline())))
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
	require.Error(t, must.Fail(c.Open(t.Context())), "the server is no server")
	require.NotEmpty(t, shown, "no certificate is shown")
	assert.Equal(t, "ada", <-shown, "the certificate of")
}

// longLog is a log of so many events at least: a pipeline and an environment with hundreds of
// hosts, runs besides, and a pipeline that promotes.
func longLog(tb testing.TB, hosts, events int) *sqlite.Log {
	log := must.Get(sqlite.Open(context.Background(), filepath.Join(tb.TempDir(), "log.db"), sqlite.Options{}))(tb)
	tb.Cleanup(func() { _ = log.Close() })
	all := querytest.Large(hosts, 14)
	for i := range all {
		all[i].Seq, all[i].ID = 0, ""
	}
	for i := len(all); i < events; i++ {
		all = append(all, deploylog.Event{Deployment: fmt.Sprint("run", i), Target: "run/web.yaml", Name: "run-started", CreatedAt: querytest.Noon.Add(time.Hour)})
	}
	for len(all) > 0 {
		n := min(len(all), 5000)
		require.NoError(tb, must.Fail(log.Append(tb.Context(), all[:n]...)))
		all = all[n:]
	}
	d, err := definition.Parse("promote.yaml", []byte("pipeline: promotes\npromotion: {policy: single}\nstages:\n  - name: test\n    environment: shop/prod\n  - name: prod\n    environment: shop/next\n"))
	require.NoError(tb, err)
	p := promotions.New(log, time.Now)
	_, err = p.Change(tb.Context(), "promotes", true, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(promotion.Define{Definition: d, ID: "defined"}, promotion.Observed{}, time.Now())
	})
	require.NoError(tb, err)
	return log
}

// answers is what the commands that list and report fold, and what they say.
type answers struct {
	pipelines    []query.PipelineRow
	environments []query.EnvironmentRow
	groups       int
	promotes     []string
	heads        []int64
}

// asked folds a log as the commands do.
func asked(tb testing.TB, log deploylog.Log) (a answers) {
	p, e, b, l := query.NewPipelines(log, time.Now), query.NewEnvironments(log, time.Now), query.NewBuilds(log, time.Now), promotions.NewReader(log, time.Now)
	for _, follow := range []func(context.Context, int64) error{p.Follow, e.Follow, b.Follow, l.Follow} {
		require.NoError(tb, follow(tb.Context(), 0))
	}
	a.pipelines, _ = p.List()
	a.environments, a.groups, a.promotes = e.List(""), len(b.Groups()), l.Present()
	a.heads = []int64{p.Head(), e.Head(), b.Head(), l.Head()}
	return a
}

// counted is a log through a server, with how many events were read of it.
type counted struct {
	*client.Log
	read *atomic.Int64
}

func (c counted) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range c.Log.Read(ctx, f) {
			c.read.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestALongLogIsNotReadWholeThroughAServer(t *testing.T) {
	log := longLog(t, 4, 6000)
	through := counted{open(t, serve(t, log, objects.Store{})), &atomic.Int64{}}
	got, want := asked(t, through), asked(t, struct{ deploylog.Log }{log})
	if !reflect.DeepEqual(got, want) || len(want.pipelines) == 0 || len(want.environments) == 0 || len(want.promotes) != 1 {
		t.Errorf("through the server\n%+v\nbeside the log\n%+v", got, want)
	}
	assert.Zero(t, through.read.Load(), "events that are read though snapshots have them")
	require.NoError(t, must.Fail(log.Append(t.Context(), deploylog.Event{Deployment: "later", Target: "run/web.yaml", Name: "run-started"})))
	assert.Equal(t, want.heads[0]+1, asked(t, through).heads[0])
	assert.EqualValues(t, 4, through.read.Load(), "events that are read after one more, by four readers")
	assert.Error(t, through.KeepSnapshot(t.Context(), "pipelines", deploylog.Snapshot{}), "a client has put a snapshot beside the log")
}

// hostile passes on what a server answers but for its snapshots.
func hostile(t *testing.T, behind string, snapshot func(w http.ResponseWriter, answer *http.Response, text []byte)) string {
	t.Helper()
	to := must.Get(url.Parse(behind))(t)
	proxy := httputil.NewSingleHostReverseProxy(to)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bytes.HasPrefix([]byte(r.URL.Path), []byte("/v1/log/snapshots/")) {
			proxy.ServeHTTP(w, r)
			return
		}
		answer, err := http.Get(behind + r.URL.String())
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		assert.NoError(t, err)
		snapshot(w, answer, text)
	}))
	return s.URL
}

func TestASnapshotThatIsOfNoUseCostsTimeAlone(t *testing.T) {
	log := longLog(t, 4, 5000)
	url := serve(t, log, objects.Store{})
	want := asked(t, struct{ deploylog.Log }{log})
	for name, snapshot := range map[string]func(w http.ResponseWriter, answer *http.Response, text []byte){
		"damaged": func(w http.ResponseWriter, _ *http.Response, text []byte) {
			text[len(text)/2] ^= 1
			_, _ = w.Write(text)
		},
		"cut off": func(w http.ResponseWriter, answer *http.Response, text []byte) {
			w.Header().Set("Content-Length", answer.Header.Get("Content-Length"))
			_, _ = w.Write(text[:len(text)/2])
		},
		"of another log": func(w http.ResponseWriter, answer *http.Response, text []byte) {
			name := answer.Request.URL.Query().Get("program")
			_, s, ok := snapshotfile.Decode(name, text)
			other, err := snapshotfile.Encode(name, snapshotfile.Origin{Log: "another"}, s)
			assert.True(t, ok && err == nil, "%v %v", ok, err)
			_, _ = w.Write(other)
		},
		"a page":       func(w http.ResponseWriter, _ *http.Response, _ []byte) { _, _ = io.WriteString(w, "<html>") },
		"an error":     func(w http.ResponseWriter, _ *http.Response, _ []byte) { http.Error(w, "no", 500) },
		"an old one's": func(w http.ResponseWriter, _ *http.Response, _ []byte) { http.NotFound(w, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			through := counted{open(t, hostile(t, url, snapshot)), &atomic.Int64{}}
			assert.Equal(t, want, asked(t, through))
			assert.GreaterOrEqual(t, through.read.Load(), int64(4*5000), "events that are read without a snapshot")
		})
	}
}

func TestWhatMakesProgressIsNotCutOff(t *testing.T) {
	const idle = 5 * time.Second
	content, stalls := bytes.Repeat([]byte("x"), 14), make(chan struct{})
	defer close(stalls)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range content {
			if i > 3 && r.URL.Path == "/v1/objects/stalls" {
				select {
				case <-stalls:
				case <-r.Context().Done():
				}
				return
			}
			_, _ = w.Write(content[i : i+1])
			_ = http.NewResponseController(w).Flush()
			<-time.After(idle / 12) // as a slow network does
		}
	}))
	c := must.Get(client.New(client.Options{Server: s.URL, Idle: idle}))(t)
	var stalled sync.WaitGroup
	stalled.Go(func() { assert.ErrorContains(t, must.Fail(c.Objects().Load("stalls")), "nothing has been sent for 5s") })
	got, err := c.Objects().Load("slow") // which takes longer as a whole
	assert.NoError(t, err)
	assert.Equal(t, content, got)
	stalled.Wait()
}

// What a command pays that lists or reports through a server: the log read whole, the snapshots
// of the server, and beside the log.
func BenchmarkLongLogThroughAServer(b *testing.B) {
	log := longLog(b, 20, 100_000)
	remote := open(b, serve(b, log, objects.Store{}))
	asked(b, log) // which keeps the snapshots
	asked(b, remote)
	var whole, through, beside time.Duration
	timed := func(of *time.Duration, log deploylog.Log) {
		begun := time.Now()
		asked(b, log)
		*of += time.Since(begun)
	}
	for b.Loop() {
		timed(&whole, struct{ deploylog.Log }{remote})
		timed(&through, remote)
		timed(&beside, log)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(whole.Seconds()*1000/float64(b.N), "whole-ms")
	b.ReportMetric(through.Seconds()*1000/float64(b.N), "server-ms")
	b.ReportMetric(beside.Seconds()*1000/float64(b.N), "local-ms")
	b.ReportMetric(through.Seconds()/beside.Seconds(), "ratio")
}
