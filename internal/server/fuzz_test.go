package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// answer is what a handler answers. Whoever follows the log leaves when the answer has begun.
type answer struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

// Flush sends what there is, and so the header at least.
func (a *answer) Flush() {
	a.ResponseRecorder.Flush()
	a.leave()
}

func (*answer) SetReadDeadline(time.Time) error  { return nil }
func (*answer) SetWriteDeadline(time.Time) error { return nil }

// api is one of a log in which something goes on.
type api struct {
	*server.Server
	words  []string
	failed *bytes.Buffer // what its log says
	stop   func()        // has its runs end
}

// fuzzed is a log of pipelines, environments and build groups, which are small.
func fuzzed(tb testing.TB) (events []deploylog.Event, words []string) {
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
	log := logtest.NewMemory().Open()
	all := querytest.NewGroups(tb.Context(), log, func() time.Time { return querytest.Noon }, 2)
	must := func(err error) { require.NoError(tb, err) }
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
	require.NoError(tb, must.Fail(log.Append(tb.Context(), events...)))
	a, store := &api{words: slices.Clone(words), failed: &bytes.Buffer{}}, objects.In(dir, nil)
	for _, text := range []string{nothing, noVariables} {
		digest := must.Get(store.Keep([]byte(text)))(tb)
		a.words = append(a.words, digest)
	}
	runs, stop := runsOn(tb, log, store)
	a.stop = stop
	one := must.Get(runs.Begin(tb.Context(), apply.Request{Manifests: []string{"a.yaml"}, By: "root", Carries: map[string]string{
		"a.yaml": objects.Hash([]byte(nothing)), "/variables": objects.Hash([]byte(noVariables)),
	}}))(tb)
	const often = 8 // of so many words one is the run, for most of what is asked of runs is of one
	a.words = append(a.words, "a.yaml", "/variables")
	a.words = append(a.words, slices.Repeat([]string{one.ID}, len(a.words)/often)...)
	a.Server = server.New(server.Options{
		Log: log, Runs: runs, Now: time.Now, Version: "test", Objects: store, Artifacts: artifacts.In(filepath.Join(dir, "artifacts")), NewID: newID, Identify: byRole,
		Logger: slog.New(slog.NewTextHandler(a.failed, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	return a
}

// ask sends requests that follow from some bytes, and fails the test where an answer is none
// that the API may give.
func (a *api) ask(t *testing.T, data []byte) (statuses []int) {
	t.Helper()
	const most = 8
	g := &generator{a.Server, a.Described(), a.words, data}
	for n := 0; n == 0 || n < most && len(g.data) > 0; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		r, op, role, ok := g.request(ctx)
		if !ok {
			cancel()
			continue
		}
		got := &answer{httptest.NewRecorder(), cancel}
		got.Code = 0 // until something is answered
		func() {
			defer func() { // a stream that has no end is aborted
				fault := recover()
				if err, _ := fault.(error); fault != nil && !errors.Is(err, http.ErrAbortHandler) {
					panic(fault)
				}
			}()
			a.ServeHTTP(got, r)
		}()
		cancel()
		if why := a.wrong(got, r, op, role); why != "" {
			t.Fatalf("%s: %s %s as %q, %v: %d %v %.500s\n%s", why, r.Method, r.RequestURI, role, r.Header, got.Code, got.Header(), got.Body.String(), a.failed)
		}
		statuses = append(statuses, got.Code)
	}
	return statuses
}

// wrong is what is wrong with an answer, "" for nothing.
func (a *api) wrong(got *answer, r *http.Request, op *huma.Operation, role string) string {
	kind, _, _ := mime.ParseMediaType(got.Header().Get("Content-Type")) // none is "", which is none of these
	switch {
	case got.Code == 0:
		return "no answer"
	case got.Code >= http.StatusInternalServerError || a.failed.Len() > 0:
		return "the server fails"
	case got.Code >= http.StatusBadRequest:
		return got.wrongProblem(kind)
	case got.Code == http.StatusNotModified:
		if got.Body.Len() > 0 || got.Header().Get("ETag") == "" || r.Header.Get("If-None-Match") == "" {
			return "it is as nobody has said that it was"
		}
		return ""
	case got.Code >= http.StatusMultipleChoices:
		return "it is sent elsewhere"
	case r.Method != op.Method:
		return ""
	case op.Responses[strconv.Itoa(got.Code)] == nil:
		return "the document says nothing of such an answer"
	case !identity.Role(role).Includes(op.Metadata["role"].(identity.Role)):
		return "that role may not do this"
	case kind == "application/json" && !json.Valid(got.Body.Bytes()):
		return "the answer is no JSON"
	case kind == "application/x-ndjson":
		return wrongLine(got.Body.Bytes())
	}
	return ""
}

// wrongProblem is what is wrong with an answer that is to say what is wrong with a request.
func (got *answer) wrongProblem(kind string) string {
	var said struct {
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}
	if kind != "application/problem+json" || json.Unmarshal(got.Body.Bytes(), &said) != nil || said.Status != got.Code || said.Detail == "" {
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
	for i := range 4 {
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

func drawn(seed uint64, n int) []byte {
	from, data := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}), make([]byte, n)
	_, _ = from.Read(data)
	return data
}

// ended waits until there are no more goroutines than there were.
func ended(t *testing.T, before int) {
	t.Helper()
	waittest.Until(t, func() bool { return runtime.NumGoroutine() <= before }, fmt.Sprintf("there are %d goroutines", before))
}

// Whatever is sent to it the API answers, and what it answers is what its document says. All
// operations are reached, with answers that do what was asked for.
func TestTheAPIAnswersWhateverIsSent(t *testing.T) {
	events, words := fuzzed(t)
	before := runtime.NumGoroutine()
	const bytes = 300
	inputs := ringtest.Cases(400, 800)
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
		assert.NotZero(t, reached[status], "nothing was answered with %d: %v", status, reached)
	}
	ended(t, before)
}

// The kinds of what is sent. What is drawn when nothing is left to draw from is valid.
const (
	valid = iota
	nearly
	hostile
)

// generator makes requests of what it draws from bytes, so that a fuzzer which changes these
// changes requests.
type generator struct {
	*server.Server
	all   []*huma.Operation
	words []string // that mean something in the log
	data  []byte
}

func (g *generator) draw(n int) int {
	if len(g.data) == 0 || n <= 1 {
		return 0
	}
	drawn := int(g.data[0])
	g.data = g.data[1:]
	if n > 256 && len(g.data) > 0 {
		drawn = drawn<<8 | int(g.data[0])
		g.data = g.data[1:]
	}
	return drawn % n
}

// kind is mostly valid, so that what is not is reached.
func (g *generator) kind() int {
	return []int{valid, valid, valid, valid, valid, nearly, nearly, hostile}[g.draw(8)]
}

func pick[T any](g *generator, some []T) T { return some[g.draw(len(some))] }

// nasty are texts that somebody may take for something else.
var nasty = []string{
	"", " ", "\x00", "..", "../../../etc/passwd", "/etc/passwd", "%2e%2e%2f", "<script>alert(1)</script>", "' OR 1=1 --", "a\nb", "a\r\nSet-Cookie: x=y", "\u202egpj.exe", "\xff\xfe",
	"-1", "0", "9223372036854775808", "1e999", "NaN", "null", "true", "[]", "{}", "gateway/", "/", "//", "*", "gateway\x7f", "ПРИВЕТ", "😀", strings.Repeat("a", 600), strings.Repeat("é", 70_000),
	strings.Repeat("[", 20_000), "2026-13-45T99:99:99Z", "0000-00-00T00:00:00Z", "99999-01-01T00:00:00Z", `"1"`, "W/\"1\"", "text/event-stream;q=", "bytes=0-",
}

// text is the text of a parameter of a schema.
func (g *generator) text(s *huma.Schema, kind int) string {
	s = g.Resolve(s)
	switch {
	case kind == hostile:
		return pick(g, nasty)
	case kind == nearly:
		return pick(g, append(slices.Clone(g.words), "0", "-0", "1.5", "1,2", " 1", "TRUE", "yes", "2026-01-01", strings.Repeat("f", 63), strings.Repeat("F", 64)))
	case len(s.Enum) > 0:
		if text, is := pick(g, s.Enum).(string); is {
			return text
		}
		return ""
	case s.Pattern != "":
		return strings.Repeat(pick(g, []string{"0", "a", "f"}), 64) // of the digests, the only ones that have one
	case s.Type == "integer":
		return pick(g, []string{"0", "1", "2", "7", "100", "2147483647"})
	case s.Type == "boolean":
		return pick(g, []string{"true", "false"})
	case s.Format == "date-time":
		return pick(g, []string{"2026-11-23T02:00:00Z", "1970-01-01T00:00:00.5Z", "2200-01-01T00:00:00+14:00"})
	}
	return pick(g, g.words)
}

func (g *generator) value(s *huma.Schema, depth int) any {
	const deepest = 6
	s = g.Resolve(s)
	kind := g.kind()
	if kind == hostile || depth > deepest {
		return pick(g, []any{nil, "", true, -1, 1e300, []any{}, map[string]any{}, []any{[]any{nil}}, pick(g, nasty)})
	}
	switch s.Type {
	case "object":
		made := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) || g.draw(2) == 0 {
				made[name] = g.value(s.Properties[name], depth+1)
			}
		}
		if more, is := s.AdditionalProperties.(*huma.Schema); is {
			made[pick(g, append(slices.Clone(g.words), nasty...))] = g.value(more, depth+1)
		} else if kind == nearly {
			made[pick(g, append(slices.Clone(g.words), nasty...))] = g.value(&huma.Schema{}, depth+1)
		}
		return made
	case "array":
		var made []any
		for range g.draw(4) {
			if s.Items != nil {
				made = append(made, g.value(s.Items, depth+1))
			}
		}
		return made
	case "integer":
		return pick(g, []int{0, 1, 2, 3, -1, 1 << 40})
	case "number":
		return pick(g, []float64{0, 1.5, -1})
	case "boolean":
		return g.draw(2) == 0
	case "":
		return pick(g, []any{nil, "x", 1})
	}
	return g.text(s, kind)
}

// body is a body for an operation, and what it is called.
func (g *generator) body(op *huma.Operation) (kind string, body []byte) {
	if op.RequestBody == nil || len(op.RequestBody.Content) == 0 {
		if g.kind() != hostile {
			return "", nil
		}
		return "application/json", []byte(pick(g, nasty))
	}
	kind = slices.Sorted(maps.Keys(op.RequestBody.Content))[0]
	body = []byte(pick(g, nasty))
	if strings.Contains(kind, "json") {
		body, _ = json.Marshal(g.value(op.RequestBody.Content[kind].Schema, 0))
	}
	switch g.kind() {
	case nearly:
		body = pick(g, [][]byte{body[:len(body)/2], append(body, ' ', '{', '}'), append(body, body...), bytes.ToUpper(body), nil, bytes.Replace(body, []byte(`"`), []byte("'"), 1)})
	case hostile:
		kind = pick(g, []string{"", "text/plain", "application/xml", "application/json; charset=utf-16", "multipart/form-data", "application/cbor"})
		body = []byte(pick(g, nasty))
	}
	return kind, body
}

// request is a request for one of the operations, in the role of somebody; ok is false where no
// client could send it.
func (g *generator) request(ctx context.Context) (r *http.Request, op *huma.Operation, role string, ok bool) {
	op = pick(g, g.all)
	path, query, header := op.Path, url.Values{}, http.Header{}
	for _, p := range op.Parameters {
		if !p.Required && g.draw(3) != 0 {
			continue
		}
		text := g.text(p.Schema, g.kind())
		switch p.In {
		case "path":
			if g.kind() != hostile {
				text = url.PathEscape(text)
			}
			path = strings.Replace(path, "{"+p.Name+"}", text, 1)
		case "query":
			if g.kind() != hostile || !p.Required {
				query.Add(p.Name, text)
			}
			if g.kind() == hostile {
				query.Add(p.Name, pick(g, nasty))
			}
		case "header":
			header.Set(p.Name, strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f || r == utf8.RuneError {
					return -1
				}
				return r
			}, text))
		}
	}
	if g.kind() == hostile {
		query.Add(pick(g, nasty), pick(g, nasty))
	}
	role = pick(g, []string{"admin", "operator", "approver", "viewer", "nobody", ""})
	if role != "" {
		header.Set("Authorization", "Bearer "+role)
	}
	kind, body := g.body(op)
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	method := op.Method
	if g.kind() == hostile {
		method = pick(g, []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"})
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, op, role, false
	}
	u.RawQuery = query.Encode()
	r = &http.Request{
		Method: method, URL: u, RequestURI: u.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "deploy.example", Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), RemoteAddr: "192.0.2.1:1234",
	}
	return r.WithContext(ctx), op, role, true
}
