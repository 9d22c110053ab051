package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/manifest"
)

const (
	nothing     = "resources: {}\n"
	noVariables = `{"version":1,"variables":[]}`
)

// applying serves a log, and applies what needs no containers. stop has it begin nothing new, and
// waits for what runs.
func applying(t *testing.T, log deploylog.Log) (url string, store objects.Store, stop func()) {
	t.Helper()
	return applyingOn(t, log, func(context.Context) {})
}

// applyingOn is applying with an engine that takes its time.
func applyingOn(t *testing.T, log deploylog.Log, connect func(context.Context), change ...func(*apply.Options)) (url string, store objects.Store, stop func()) {
	t.Helper()
	store = objects.In(t.TempDir(), nil)
	all, stop := runsOn(t, log, store, append([]func(*apply.Options){func(o *apply.Options) {
		o.Connect = func(ctx context.Context) (*work.Connection, error) {
			connect(ctx)
			return &work.Connection{Engine: &enginetest.Fake{}, Info: engine.Info{Name: "fake"}}, nil
		}
	}}, change...)...)
	t.Cleanup(stop)
	_, url = newServer(t, log, func(o *server.Options) { o.Objects, o.Runs = store, all })
	return url, store, stop
}

// runsOn carries runs out until it is stopped, which waits for them.
func runsOn(tb testing.TB, log deploylog.Log, store objects.Store, change ...func(*apply.Options)) (all *apply.Runs, stop func()) {
	tb.Helper()
	o := apply.Options{
		Config: work.Config{
			Inputs: work.Inputs{Workspace: tb.TempDir(), Version: "test", Now: time.Now, Hide: func(any) {}},
			Log:    log, Texts: work.TextsIn(store), Notice: func(string) {}, Crashed: func(c *crash.Error) { tb.Error(c) },
		},
		Connect: func(context.Context) (*work.Connection, error) {
			return &work.Connection{Engine: &enginetest.Fake{}}, nil
		},
		Begun: func(*apply.Served) {},
		Ended: func(*apply.Served, error) {},
	}
	for _, c := range change {
		c(&o)
	}
	all = apply.NewRuns(o)
	drain, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- all.Serve(context.WithoutCancel(tb.Context()), drain) }()
	return all, sync.OnceFunc(func() {
		close(drain)
		assert.NoError(tb, <-served)
	})
}

func keep(t *testing.T, store objects.Store, text string) (digest string) {
	digest = must.Get(store.Keep([]byte(text)))(t)
	return digest
}

func runBody(t *testing.T, r proposal.Run) string { return string(mustJSON(t, r)) }

// smallRun is a run of a manifest without resources.
func smallRun(t *testing.T, store objects.Store) proposal.Run {
	return proposal.Run{Manifests: []string{"a.yaml"}, Carries: map[string]string{
		"a.yaml": keep(t, store, nothing), "/variables": keep(t, store, noVariables),
	}}
}

// begin has a run, a plan or a drift begin, by an operator.
func begin(t *testing.T, url string, r proposal.Run) (begun proposal.Begun) {
	status, _, text := ask(t, "POST", url, "operator", runBody(t, r))
	require.Equal(t, 200, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &begun))
	return begun
}

func runsOf(t *testing.T, log deploylog.Log) (begun []deploylog.Event) {
	for e, err := range log.Read(t.Context(), deploylog.Filter{Target: "run/"}) {
		require.NoError(t, err)
		if e.Name == e.Target.Started() {
			begun = append(begun, e)
		}
	}
	return begun
}

// Whoever gets no answer sends a run again, perhaps while the first one is on its way.
func TestARunBeginsOnceHoweverOftenItIsSent(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	asked := runBody(t, proposal.Run{Manifests: []string{"conf/a.yaml"}, Carries: map[string]string{
		"conf/a.yaml": keep(t, store, nothing), "/variables": keep(t, store, noVariables),
	}})
	answers := make(chan string, 8)
	var sending sync.WaitGroup
	for range cap(answers) {
		sending.Go(func() {
			status, _, text := ask(t, "POST", url+"/v1/runs", "operator", asked, "Idempotency-Key", "one")
			answers <- fmt.Sprint(status, text)
		})
	}
	sending.Wait()
	first := <-answers
	for range cap(answers) - 1 {
		assert.Equal(t, first, <-answers, "and again")
	}
	begun := runsOf(t, log)
	if !strings.HasPrefix(first, "200") || len(begun) != 1 || !strings.Contains(first, begun[0].Deployment) || begun[0].Target != "run/conf/a.yaml" {
		t.Fatalf("%s: %v", first, begun)
	}
	if data := string(begun[0].Data); !strings.Contains(data, `"user":"the operator"`) || !strings.Contains(data, objects.Hash([]byte(nothing))) {
		t.Errorf("the log does not say by whom it is, and what it applies: %s", data)
	}
	other := strings.Replace(asked, `{`, `{"keep_going":true,`, 1)
	expect(t, 422, "", "POST", url+"/v1/runs", "operator", other, "Idempotency-Key", "one")
	expect(t, 200, "", "POST", url+"/v1/runs", "admin", asked, "Idempotency-Key", "one") // the key of somebody else
	assert.Len(t, runsOf(t, log), 2)
	locked := must.Get(revision.Images{Images: []revision.Image{{Image: "web:1", ID: "sha256:" + strings.Repeat("a", 64)}}}.Encode())(t)
	with := runBody(t, proposal.Run{Manifests: []string{"a.yaml"}, Carries: map[string]string{
		"a.yaml": keep(t, store, nothing), "/variables": keep(t, store, noVariables), "/images": keep(t, store, string(locked)),
	}})
	expect(t, 200, "", "POST", url+"/v1/runs", "operator", with, "Idempotency-Key", "two")
	// Another server of the log, which has not begun it, knows it from the log.
	second, kept, _ := applying(t, log)
	keep(t, kept, nothing)
	keep(t, kept, noVariables)
	expect(t, 200, strings.TrimPrefix(first, "200"), "POST", second+"/v1/runs", "operator", asked, "Idempotency-Key", "one")
}

func TestWhatIsObservedOfARunEndsWithHowItEnded(t *testing.T) {
	url, store, _ := applying(t, logOf(t, 0))
	begun := begin(t, url+"/v1/runs", smallRun(t, store))
	for after, want := range map[string]string{"0": "1 run-started, 2 run-finished-successfully, end succeeded", "1": "2 run-finished-successfully, end succeeded", "7": "end succeeded"} {
		status, header, text := ask(t, "GET", url+"/v1/runs/"+begun.Run+"/events?after="+after, "viewer", "")
		var got []string
		for line := range strings.Lines(text) {
			var o proposal.Observed
			require.NoError(t, json.Unmarshal([]byte(line), &o))
			if o.End != nil {
				got = append(got, "end "+o.End.Outcome)
			} else {
				got = append(got, fmt.Sprint(o.N, " ", o.Event.Type))
			}
		}
		if status != 200 || header.Get("Content-Type") != "application/x-ndjson" || strings.Join(got, ", ") != want {
			t.Errorf("after %s: %d %v, want %s", after, status, got, want)
		}
	}
	expect(t, 200, begun.Run, "POST", url+"/v1/runs/"+begun.Run+"/stop", "operator", "") // it has ended
	for _, path := range []string{"GET /v1/runs/01JZ/events", "POST /v1/runs/01JZ/stop", "GET /v1/runs/" + strings.Repeat("x", 65) + "/events", "GET /v1/runs/%2e%2e/events"} {
		method, path, _ := strings.Cut(path, " ")
		status, _, text := ask(t, method, url+path, "admin", "")
		assert.True(t, status == 404 || status == 422, "%s: %d %s", path, status, text)
	}
}

// Whose token is revoked sees no more of a run, however much there is of it without a pause.
func TestWhatIsObservedOfARunEndsWithTheTokenOfWhoAsks(t *testing.T) {
	log, store := logOf(t, 0), objects.In(t.TempDir(), nil)
	all, stop := runsOn(t, log, store)
	t.Cleanup(stop)
	var asked atomic.Int64
	_, url := newServer(t, log, func(o *server.Options) {
		o.Objects, o.Runs, o.Heartbeat = store, all, time.Nanosecond
		o.Identify = func(r *http.Request) (identity.Identity, error) {
			if r.Header.Get("Authorization") == "Bearer approver" && asked.Add(1) > 1 {
				return identity.Identity{}, identity.ErrUnknown
			}
			return byRole(r)
		}
	})
	begun := begin(t, url+"/v1/runs", smallRun(t, store))
	for who, want := range map[string]error{"viewer": nil, "approver": io.ErrUnexpectedEOF} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/runs/"+begun.Run+"/events", nil))(t)
		r.Header.Set("Authorization", "Bearer "+who)
		answer := must.Get(http.DefaultClient.Do(r))(t)
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		require.ErrorIs(t, err, want, "%s: %s", who, text)
		assert.True(t, answer.StatusCode == 200 && strings.Contains(string(text), `"end"`) == (want == nil), "%s gets %d %s", who, answer.StatusCode, text)
	}
}

func TestWhatNoRunCanBeOfIsRefused(t *testing.T) {
	log := logOf(t, 0)
	url, store, stop := applying(t, log)
	manifest, variables := keep(t, store, nothing), keep(t, store, noVariables)
	of := func(change func(*proposal.Run)) string {
		r := proposal.Run{Manifests: []string{"a.yaml"}, Carries: map[string]string{"a.yaml": manifest, "/variables": variables}}
		change(&r)
		return runBody(t, r)
	}
	carrying := func(name, text string) string {
		return of(func(r *proposal.Run) { r.Carries[name] = keep(t, store, text) })
	}
	named := func(name string) string {
		return of(func(r *proposal.Run) { r.Manifests, r.Carries[name] = []string{name}, manifest })
	}
	many := map[string]string{"/variables": variables, "a.yaml": manifest}
	for i := range 2001 {
		many[fmt.Sprint(i)] = manifest
	}
	large := map[string]string{"/variables": variables, "a.yaml": manifest}
	for i, digest := range slices.Repeat([]string{keep(t, store, strings.Repeat("x", objects.MaxSize))}, 5) {
		large[fmt.Sprint(i)] = digest
	}
	for name, c := range map[string]struct{ body, want string }{
		"nothing":                      {`{}`, "there are no manifests"},
		"orphans of a manifest":        {of(func(r *proposal.Run) { r.Orphans, r.Destroy = true, true }), "leave manifests"},
		"orphans that are applied":     {`{"orphans":true}`, "say destroy"},
		"no manifest":                  {of(func(r *proposal.Run) { r.Manifests = []string{} }), "manifests"},
		"too many manifests":           {of(func(r *proposal.Run) { r.Manifests = strings.Split(strings.Repeat("a.yaml ", 101), " ") }), "manifests"},
		"what there is not":            {`{"manifests":["a.yaml"],"carries":{},"by":"root"}`, "unexpected"},
		"who it is by":                 {of(func(r *proposal.Run) { r.Carries["a.yaml"] = strings.Repeat("0", 64) }), "put it first"},
		"no digest":                    {of(func(r *proposal.Run) { r.Carries["a.yaml"] = "../../etc/passwd" }), "no digest"},
		"a manifest it does not carry": {of(func(r *proposal.Run) { r.Manifests = []string{"b.yaml"} }), "does not carry its manifest"},
		"a manifest above":             {named("../a.yaml"), "no path"},
		"a manifest anywhere":          {named("/etc/a.yaml"), "no path"},
		"a manifest of two names":      {named("a//b.yaml"), "no path"},
		"a manifest of two lines":      {named("a\nb.yaml"), "no path"},
		"a manifest that is all":       {named("."), "no path"},
		"the variables as a manifest":  {of(func(r *proposal.Run) { r.Manifests = []string{"/variables"} }), "no path"},
		"a long name":                  {named(strings.Repeat("a/", 300) + "b"), "too long"},
		"long names together": {of(func(r *proposal.Run) {
			r.Manifests = strings.Split(strings.TrimSuffix(strings.Repeat("a.yaml,", 90), ","), ",")
		}), "together"},
		"images that are none":          {carrying("/images", "\x00"), "the images that are locked"},
		"images of the next version":    {carrying("/images", `{"version":99}`), "the images that are locked"},
		"a file of its own":             {of(func(r *proposal.Run) { r.Carries["/etc/passwd"] = variables }), "no path"},
		"too many files":                {of(func(r *proposal.Run) { r.Carries = many }), "at most 2000"},
		"too large files":               {of(func(r *proposal.Run) { r.Carries = large }), "64 MiB"},
		"no variables":                  {of(func(r *proposal.Run) { delete(r.Carries, "/variables") }), "carries no variables"},
		"variables that are none":       {carrying("/variables", "\x00"), "variables"},
		"variables of the next version": {carrying("/variables", `{"version":99}`), "newer"},
		"a secret of the server":        {carrying("/variables", `{"version":1,"salt":"x","variables":[{"name":"p","file":"/etc/passwd","secret":"`+strings.Repeat("0", 64)+`"}]}`), "not shown"},
		"a manifest that is none":       {carrying("a.yaml", "]["), "a.yaml:1"},
		"a type that there is not":      {carrying("a.yaml", "resources: {a: {type: deployster/nonsense}}"), "nonsense"},
		"a target that there is not":    {of(func(r *proposal.Run) { r.Targets = []string{"b"} }), "b"},
		"no JSON":                       {"\x00", ""},
	} {
		status, _, text := ask(t, "POST", url+"/v1/runs", "operator", c.body, "Idempotency-Key", name)
		if status != http.StatusUnprocessableEntity && (name != "no JSON" || status != http.StatusBadRequest) || !strings.Contains(text, c.want) || strings.Contains(text, "root:") {
			t.Errorf("%s: %d, want %q: %.600s", name, status, c.want, text)
		}
	}
	expect(t, http.StatusRequestEntityTooLarge, "", "POST", url+"/v1/runs", "operator", strings.Repeat(" ", 2<<20))
	for _, role := range []string{"viewer", "approver"} {
		want := http.StatusForbidden
		expect(t, want, "", "POST", url+"/v1/runs", role, of(func(*proposal.Run) {}))
	}
	stop()
	expect(t, http.StatusServiceUnavailable, "", "POST", url+"/v1/runs", "operator", of(func(*proposal.Run) {}))
}

// carriedOut begins a run, a plan or a drift, and waits until it has succeeded.
func carriedOut(t *testing.T, url, path string, r proposal.Run) (id string) {
	id = begin(t, url+path, r).Run
	_, _, text := ask(t, "GET", url+"/v1/runs/"+id+"/events", "viewer", "")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var last proposal.Observed
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last), text)
	require.NotNil(t, last.End, text)
	require.Equal(t, "succeeded", last.End.Outcome)
	return id
}

// One who sends run after run leaves room for nobody else, but takes no more than there is.
func TestNoMoreRunsAreCarriedOutAtOnceThanThereIsRoomFor(t *testing.T) {
	const room = 16
	connecting, gate := make(chan struct{}, room), make(chan struct{})
	log := logOf(t, 0)
	url, store, _ := applyingOn(t, log, func(context.Context) {
		connecting <- struct{}{}
		<-gate
	})
	asked := runBody(t, smallRun(t, store))
	var sending sync.WaitGroup
	for range room {
		sending.Go(func() { expect(t, http.StatusOK, "", "POST", url+"/v1/runs", "operator", asked) })
	}
	for range room {
		<-connecting
	}
	for _, path := range []string{"/v1/runs", "/v1/plans", "/v1/drifts"} {
		expect(t, http.StatusTooManyRequests, "", "POST", url+path, "operator", asked)
	}
	close(gate)
	sending.Wait()
	assert.Len(t, runsOf(t, log), room, "runs have begun")
}

// Who has gone before a run begins does not know of it, and may send another one.
func TestARunOfWhoHasGoneDoesNotBegin(t *testing.T) {
	connecting, gone := make(chan struct{}), make(chan struct{})
	log := logOf(t, 0)
	url, store, stop := applyingOn(t, log, func(ctx context.Context) {
		close(connecting)
		<-ctx.Done()
		close(gone)
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/runs", strings.NewReader(runBody(t, smallRun(t, store)))))(t)
	r.Header.Set("Authorization", "Bearer operator")
	r.Header.Set("Content-Type", "application/json")
	go func() {
		<-connecting
		leave()
	}()
	if answer, err := http.DefaultClient.Do(r); err == nil {
		_ = answer.Body.Close()
		t.Errorf("%s", answer.Status)
	}
	<-gone
	stop()
	assert.Len(t, runsOf(t, log), 0, "it has begun")
}

// Who measures runs is told of each that begins and ends, plans among them, and how long it took.
func TestRunsAreMeasured(t *testing.T) {
	told := make(chan string, 10)
	now := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	url, store, _ := applyingOn(t, logOf(t, 0), func(context.Context) {}, func(o *apply.Options) {
		var mu sync.Mutex
		o.Config.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(time.Second)
			return now
		}
		o.Begun = func(one *apply.Served) { told <- one.Command }
		o.Ended = func(one *apply.Served, err error) {
			assert.GreaterOrEqual(t, one.Took, time.Second, "%s took", one.Command)
			told <- fmt.Sprint(one.Command, " ", one.Result().Outcome, " ", err)
		}
	})
	body := runBody(t, smallRun(t, store))
	for path, command := range map[string]string{"/v1/runs": "apply", "/v1/plans": "plan", "/v1/drifts": "drift"} {
		expect(t, http.StatusOK, "", "POST", url+path, "operator", body)
		if begun, ended := <-told, <-told; begun != command || ended != command+" succeeded <nil>" {
			t.Errorf("of %s is told %q and %q", command, begun, ended)
		}
	}
}

// A fault of the program must not take the places of runs, nor keep the server from stopping.
func TestARunWhosePreparationPanicsLeavesItsPlace(t *testing.T) {
	url, store, stop := applyingOn(t, logOf(t, 0), nil, func(o *apply.Options) {
		o.Connect = func(context.Context) (*work.Connection, error) { panic("a fault") }
	})
	asked := runBody(t, smallRun(t, store))
	for range 17 { // one more than are carried out at once
		expect(t, http.StatusInternalServerError, "", "POST", url+"/v1/runs", "operator", asked)
	}
	stop()
}

func TestARunIsBoundToAPlanOfTheSame(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := smallRun(t, store)
	plan := func() (id string) { return carriedOut(t, url, "/v1/plans", r) }
	first := plan()
	if status, header, text := ask(t, "GET", url+"/v1/plans/"+first, "operator", ""); status != 200 || header.Get("Content-Type") != "application/json" || !strings.Contains(text, first) {
		t.Errorf("%d %v %s", status, header, text)
	}
	require.Len(t, runsOf(t, log), 0, "a plan is in the log")
	begin := func(want int, words string, change func(*proposal.Run)) (run string) {
		bound := r
		change(&bound)
		status, _, text := ask(t, "POST", url+"/v1/runs", "operator", runBody(t, bound))
		var begun proposal.Begun
		err := json.Unmarshal([]byte(text), &begun)
		assert.True(t, status == want && strings.Contains(text, words) && err == nil, "%d %s, want %d and %q", status, text, want, words)
		return begun.Run
	}
	run := begin(200, "run/a.yaml", func(r *proposal.Run) { r.Plan = first })
	begin(410, "plan again", func(r *proposal.Run) { r.Plan = "01JZ" })
	begin(410, "plan again", func(r *proposal.Run) { r.Plan = run }) // which has planned nothing
	begin(409, "something else", func(r *proposal.Run) { r.Plan, r.KeepGoing = first, true })
	begin(409, "something else", func(r *proposal.Run) {
		r.Plan, r.Carries = first, map[string]string{"a.yaml": keep(t, store, nothing+"# altered"), "/variables": r.Carries["/variables"]}
	})
	for path, want := range map[string]int{"/v1/plans/" + run: 404, "/v1/plans/01JZ": 404} {
		expect(t, want, "", "GET", url+path, "operator", "")
	}
	again := r
	again.Plan = first
	expect(t, 422, "", "POST", url+"/v1/plans", "operator", runBody(t, again))
	for range 8 {
		plan()
	}
	begin(410, "not any more", func(r *proposal.Run) { r.Plan = first })
}

func TestALookForDriftIsNoPlan(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := smallRun(t, store)
	looks, plan := carriedOut(t, url, "/v1/drifts", r), carriedOut(t, url, "/v1/plans", r)
	for path, want := range map[string]int{"/v1/drifts/" + looks: 200, "/v1/plans/" + looks: 404, "/v1/drifts/" + plan: 404, "/v1/drifts/01JZ": 404} {
		status, _, text := ask(t, "GET", url+path, "operator", "")
		assert.True(t, status == want && (want != 200 || strings.Contains(text, looks)), "%s: %d %s", path, status, text)
	}
	assert.Len(t, runsOf(t, log), 0, "a look is in the log")
	bound, removing := r, r
	bound.Plan, removing.Destroy = looks, true
	for _, c := range []struct {
		path string
		r    proposal.Run
		want int
	}{{"/v1/runs", bound, 410}, {"/v1/drifts", bound, 422}, {"/v1/drifts", removing, 422}} {
		expect(t, c.want, "", "POST", url+c.path, "operator", runBody(t, c.r))
	}
}

// Whoever asked for a plan may save it, and have just that applied later; what is no such plan is
// refused before anything begins.
func TestARunIsBoundToAPlanThatWasSaved(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := smallRun(t, store)
	plan := carriedOut(t, url, "/v1/plans", r)
	expect(t, 403, "", "GET", url+"/v1/plans/"+plan+"/saved", "viewer", "")
	_, _, sent := ask(t, "GET", url+"/v1/plans/"+plan+"/saved", "operator", "")
	m := must.Get(manifest.Load([]manifest.Source{{Name: "a.yaml", Data: []byte(nothing)}}, manifest.Options{}))(t)
	saved := func(change func(*planfile.File)) string {
		f := must.Get(planfile.Sent([]byte(sent)))(t)
		f.Manifests, f.Deployster = r.Manifests, "1"
		require.NoError(t, f.Pin(m, map[string]any{}))
		change(f)
		data := must.Get(f.Encode())(t)
		return keep(t, store, string(data))
	}
	as := func(*planfile.File) {}
	begin := func(want int, words string, change func(*proposal.Run)) {
		bound := r
		change(&bound)
		expect(t, want, words, "POST", url+"/v1/runs", "operator", runBody(t, bound))
	}
	for words, change := range map[string]func(*proposal.Run){
		"put it first":         func(r *proposal.Run) { r.Saved = strings.Repeat("0", 64) },
		"validation failed":    func(r *proposal.Run) { r.Saved = "../../etc/passwd" },
		"is not a saved plan":  func(r *proposal.Run) { r.Saved = keep(t, store, "{}") },
		"is empty":             func(r *proposal.Run) { r.Saved = keep(t, store, " ") },
		"leave plan and":       func(r *proposal.Run) { r.Saved, r.Plan = saved(as), plan },
		"and destroy out":      func(r *proposal.Run) { r.Saved, r.Destroy = saved(as), true },
		"and this server has ": func(r *proposal.Run) { r.Saved = saved(func(f *planfile.File) { f.Engine.Address = "elsewhere" }) },
		"its plugs are others": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.ManifestHash = strings.Repeat("0", 64) })
		},
		"word was removed": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.Variables["word"] = strings.Repeat("0", 64) })
		},
		"part was removed": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.Includes = map[string]string{"part": strings.Repeat("0", 64)} })
		},
		"part has another text": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.Includes = map[string]string{"part": strings.Repeat("0", 64)} })
			r.Carries = map[string]string{"a.yaml": r.Carries["a.yaml"], "/variables": r.Carries["/variables"], "part": keep(t, store, "another")}
		},
	} {
		begin(422, words, change)
	}
	assert.Len(t, runsOf(t, log), 0, "what is refused is in the log")
	looks := r
	looks.Saved = saved(as)
	for _, path := range []string{"/v1/plans", "/v1/drifts"} {
		expect(t, 422, "", "POST", url+path, "operator", runBody(t, looks))
	}
	begin(200, "run/a.yaml", func(r *proposal.Run) { r.Saved = saved(as) })
	for _, e := range runsOf(t, log) {
		assert.Contains(t, string(e.Data), `"plan":"sha256:`, "the log does not say of which plan: %s", e.Data)
	}
	for _, run := range []string{"01JZ", runsOf(t, log)[0].Deployment} {
		expect(t, 404, "", "GET", url+"/v1/plans/"+run+"/saved", "operator", "")
	}
}
