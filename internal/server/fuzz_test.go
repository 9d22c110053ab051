package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// answer is what a handler answers. Whoever follows the log leaves when the answer has begun.
type answer struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	leave   context.CancelFunc
	written bool
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) WriteHeader(status int) {
	if !a.written && status >= http.StatusOK {
		a.status, a.written = status, true
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush sends what there is, and so the header at least.
func (a *answer) Flush() {
	a.WriteHeader(http.StatusOK)
	a.leave()
}

func (*answer) SetReadDeadline(time.Time) error  { return nil }
func (*answer) SetWriteDeadline(time.Time) error { return nil }

// api is one of a log in which something goes on.
type api struct {
	*server.Server
	document *document
	words    []string
	failed   *bytes.Buffer // what its log says
	stop     func()        // has its runs end
}

// fuzzed is a log of pipelines, environments and build groups, which are small.
func fuzzed(tb testing.TB) (events []deploylog.Event, words []string) {
	tb.Helper()
	events = append(querytest.Large(8, 14), deploylog.Event{
		Deployment: "d0", Target: promotion.Target("shop"), Name: promotion.PipelineDefined, Attempt: 1, Data: promotion.Payload{Definition: promoted(tb, promoting), By: "root"}.Data(),
	}, deploylog.Event{
		Deployment: "d1", Target: promotion.StageTarget("shop", "prod"), Name: promotion.Held, Attempt: 1, Data: promotion.Payload{By: "root"}.Data(),
	})
	events = append(events, groups(tb)...)
	known := map[string]bool{}
	for i := range events {
		e := &events[i]
		e.Seq = 0
		_, path, _ := strings.Cut(string(e.Target), "/")
		for _, word := range append(strings.Split(path, "/"), path, string(e.Target), e.Revision, e.Deployment, e.Name) {
			if word != "" && !known[word] {
				known[word] = true
				words = append(words, word)
			}
		}
	}
	slices.Sort(words)
	return events, words
}

// groups are the events of some build groups: of one a job has failed, of others all wait.
func groups(tb testing.TB) (events []deploylog.Event) {
	tb.Helper()
	log := logtest.NewMemory().Open()
	all := querytest.NewGroups(tb.Context(), log, func() time.Time { return querytest.Noon }, 2)
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	must(all.Submit(record.Triggered{Name: "base", By: "root", MaxLost: 3}, querytest.Chain("libc", "zlib", "curl", "git")...))
	for _, result := range []build.Result{querytest.Built(time.Second), {Failed: &record.Failed{Cause: "exit code 1", Exit: 1, Output: []string{"no rule"}}}} {
		running, err := all.Dispatch()
		must(err)
		must(all.End(running[0].Job, result))
	}
	for _, name := range []string{"tools", "web", "tools"} {
		must(all.Submit(record.Triggered{Name: name, By: "root", MaxLost: 3}, querytest.Chain("a", "b")...))
	}
	for e, err := range log.Read(tb.Context(), deploylog.Filter{}) {
		must(err)
		events = append(events, e)
	}
	return events
}

func newAPI(tb testing.TB, events []deploylog.Event, words []string, dir string) *api {
	tb.Helper()
	log := logtest.NewMemory().Open()
	if _, err := log.Append(tb.Context(), events...); err != nil {
		tb.Fatal(err)
	}
	a, store := &api{words: slices.Clone(words), failed: &bytes.Buffer{}}, objects.In(dir, nil)
	for _, text := range []string{nothing, noVariables} {
		digest, err := store.Keep([]byte(text))
		if err != nil {
			tb.Fatal(err)
		}
		a.words = append(a.words, digest)
	}
	runs, stop := runsOn(tb, log, store)
	a.stop = stop
	one, err := runs.Begin(tb.Context(), apply.Request{Manifests: []string{"a.yaml"}, By: "root", Carries: map[string]string{
		"a.yaml": objects.Hash([]byte(nothing)), "/variables": objects.Hash([]byte(noVariables)),
	}})
	if err != nil {
		tb.Fatal(err)
	}
	const often = 8 // of so many words one is the run, for most of what is asked of runs is of one
	a.words = append(a.words, "a.yaml", "/variables")
	a.words = append(a.words, slices.Repeat([]string{one.ID}, len(a.words)/often)...)
	a.Server = server.New(server.Options{
		Log: log, Runs: runs, Now: time.Now, Version: "test", Objects: store, Artifacts: artifacts.In(filepath.Join(dir, "artifacts")), NewID: newID, Identify: byRole,
		Logger: slog.New(slog.NewTextHandler(a.failed, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	text, err := a.Document()
	if err != nil {
		tb.Fatal(err)
	}
	a.document = readDocument(tb, text)
	return a
}

// ask sends requests that follow from some bytes, and fails the test where an answer is none
// that the API may give.
func (a *api) ask(t *testing.T, data []byte) (statuses []int) {
	t.Helper()
	const most = 8
	g := &generator{a.document, a.words, data}
	for n := 0; n == 0 || n < most && len(g.data) > 0; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		r, op, role, ok := g.request(ctx)
		if !ok {
			cancel()
			continue
		}
		got := &answer{header: http.Header{}, leave: cancel}
		a.ServeHTTP(got, r)
		cancel()
		if why := a.wrong(got, r, op, role); why != "" {
			t.Fatalf("%s: %s %s as %q, %v: %d %v %.500s\n%s", why, r.Method, r.RequestURI, role, r.Header, got.status, got.header, got.body.String(), a.failed)
		}
		statuses = append(statuses, got.status)
	}
	return statuses
}

// wrong is what is wrong with an answer, "" for nothing.
func (a *api) wrong(got *answer, r *http.Request, op operation, role string) string {
	kind, _, _ := mime.ParseMediaType(got.header.Get("Content-Type")) // none is "", which is none of these
	switch {
	case !got.written:
		return "no answer"
	case got.status >= http.StatusInternalServerError || a.failed.Len() > 0:
		return "the server fails"
	case got.status >= http.StatusBadRequest:
		return got.wrongProblem(kind)
	case got.status == http.StatusNotModified:
		if got.body.Len() > 0 || got.header.Get("ETag") == "" || r.Header.Get("If-None-Match") == "" {
			return "it is as nobody has said that it was"
		}
		return ""
	case got.status >= http.StatusMultipleChoices:
		return "it is sent elsewhere"
	case r.Method != op.method:
		return ""
	case op.Responses[strconv.Itoa(got.status)] == nil:
		return "the document says nothing of such an answer"
	case !identity.Role(role).Includes(identity.Role(op.Role)):
		return "that role may not do this"
	case kind == "application/json" && !json.Valid(got.body.Bytes()):
		return "the answer is no JSON"
	case kind == "application/x-ndjson":
		return wrongLine(got.body.Bytes())
	}
	return ""
}

// wrongProblem is what is wrong with an answer that is to say what is wrong with a request.
func (got *answer) wrongProblem(kind string) string {
	var said struct {
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}
	if kind != "application/problem+json" || json.Unmarshal(got.body.Bytes(), &said) != nil || said.Status != got.status || said.Detail == "" {
		return "the answer is no problem"
	}
	return ""
}

// wrongLine is what is wrong with lines of JSON, of which some may be empty.
func wrongLine(text []byte) string {
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) > 0 && !json.Valid(line) {
			return "a line is no JSON"
		}
	}
	return ""
}

// FuzzAPI sends requests that are made from the document of the API: such as it asks for, such
// as nearly do, and hostile ones.
func FuzzAPI(f *testing.F) {
	for i := range 24 {
		f.Add(drawn(uint64(i), 100*i))
	}
	events, words := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		before := runtime.NumGoroutine()
		a := newAPI(t, events, words, t.TempDir())
		a.ask(t, data)
		a.stop()
		ended(t, before)
	})
}

// drawn are so many bytes from a seed.
func drawn(seed uint64, n int) []byte {
	from, data := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}), make([]byte, n)
	_, _ = from.Read(data)
	return data
}

// ended fails unless there are no more goroutines than there were.
func ended(t *testing.T, before int) {
	t.Helper()
	for until := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; {
		if time.Now().After(until) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("there are %d goroutines, and there were %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}

// Whatever is sent to it the API answers, and what it answers is what its document says. All
// operations are reached, with answers that do what was asked for.
func TestTheAPIAnswersWhateverIsSent(t *testing.T) {
	events, words := fuzzed(t)
	before := runtime.NumGoroutine()
	const inputs, bytes = 800, 300
	reached, dir := map[int]int{}, t.TempDir()
	var a *api
	for i := range inputs {
		if i%50 == 0 { // for a log grows with what was sent
			if a != nil {
				a.stop()
			}
			a = newAPI(t, events, words, dir)
		}
		for _, status := range a.ask(t, drawn(uint64(1000+i), bytes)) {
			reached[status]++
		}
	}
	a.stop()
	for _, status := range []int{200, 400, 401, 403, 404, 409, 422} {
		if reached[status] == 0 {
			t.Errorf("nothing was answered with %d: %v", status, reached)
		}
	}
	ended(t, before)
}
