package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

// read asks for something that there is, makes sure that the document describes the answer, and
// that it is not sent again to who has it.
func read(t *testing.T, s *server.Server, at, operation, path string) (body map[string]any, h http.Header) {
	t.Helper()
	status, h, text := ask(t, "GET", at+path, "viewer", "")
	require.Equal(t, http.StatusOK, status, "%s: %d %s", path, status, text)
	err := s.Undocumented("GET", operation, text)
	assert.NoError(t, err, "%s is not as the document says: %v\n%s", path, err, text)
	require.NoError(t, json.Unmarshal([]byte(text), &body))
	if status, again, text := ask(t, "GET", at+path, "viewer", "", "If-None-Match", h.Get("ETag")); status != http.StatusNotModified || text != "" || again.Get("ETag") != h.Get("ETag") {
		t.Errorf("%s is sent again: %d %v %s", path, status, again, text)
	}
	return body, h
}

// all are the rows of a list that is read in parts of two, by a member of them.
func all(t *testing.T, s *server.Server, at, operation, path, member string) (found []string) {
	t.Helper()
	next := path + "?limit=2"
	if strings.Contains(path, "?") {
		next = path + "&limit=2"
	}
	for next != "" {
		body, h := read(t, s, at, operation, next)
		items := body["items"].([]any)
		require.True(t, len(items) <= 2 && len(found) <= 1000, "%s: %v", next, body)
		for _, item := range items {
			found = append(found, fmt.Sprint(item.(map[string]any)[member]))
		}
		next = strings.TrimSuffix(strings.TrimPrefix(h.Get("Link"), "<"), `>; rel="next"`)
		if (body["next"] == nil) != (next == "") {
			t.Fatalf("next and Link differ: %v %v", body["next"], next)
		}
	}
	unique := slices.Compact(slices.Clone(found))
	if slices.Sort(unique); len(found) == 0 || len(slices.Compact(unique)) != len(found) {
		t.Errorf("%s has %v", path, found)
	}
	return found
}

// fuzzedServer serves the log of the fuzzer, and so many pipelines besides.
func fuzzedServer(t *testing.T, pipelines int) (*server.Server, string) {
	events, _ := fuzzed(t)
	log := logtest.NewMemory().Open()
	require.NoError(t, must.Fail(log.Append(t.Context(), events...)))
	define(t, log, pipelines)
	return newServer(t, log)
}

func TestWhatListsNameCanBeRead(t *testing.T) {
	s, at := fuzzedServer(t, 0)
	for _, c := range []struct{ kind, member string }{{"environments", "environment"}, {"pipelines", "pipeline"}, {"builds", "id"}, {"promotions", "pipeline"}} {
		for _, name := range all(t, s, at, "/v1/"+c.kind, "/v1/"+c.kind, c.member) {
			path := "/v1/" + c.kind + "/" + url.PathEscape(name)
			body, _ := read(t, s, at, "/v1/"+c.kind+"/{name}", path)
			assert.Equal(t, name, body[c.member], path)
			switch c.kind {
			case "environments":
				if hosts := all(t, s, at, "/v1/environments/{name}/hosts", path+"/hosts", "host"); !slices.IsSorted(hosts) || body["hosts"] != float64(len(hosts)) {
					t.Errorf("%s has %v hosts: %v", path, body["hosts"], hosts)
				}
			case "pipelines":
				whole, _ := read(t, s, at, "/v1/pipelines/{name}", path+"?hosts=true&all=true")
				assert.Greater(t, len(whole["targets"].([]any)), len(body["targets"].([]any)), "%s has no hosts", path)
			case "builds":
				jobs := all(t, s, at, "/v1/builds/{name}/jobs", path+"/jobs", "job")
				for i, job := range jobs {
					assert.Equal(t, fmt.Sprint(i+1), job, "%s has the jobs %v", path, jobs)
				}
				read(t, s, at, "/v1/builds/{name}/jobs/{job}", path+"/jobs/"+jobs[len(jobs)-1])
				count := 0
				for _, state := range transition.AllJobs() {
					if n, is := body["counts"].(map[string]any)[state.String()].(float64); is {
						got := all(t, s, at, "/v1/builds/{name}/jobs", path+"/jobs?state="+state.String(), "job")
						if count += len(got); len(got) != int(n) {
							t.Errorf("%s has %v jobs that are %s: %v", path, n, state, got)
						}
					}
				}
				assert.Len(t, jobs, count, "jobs of %s in some state", path)
				assert.Contains(t, all(t, s, at, "/v1/builds", "/v1/builds?state="+fmt.Sprint(body["state"]), "id"), name, "those in its state")
			}
		}
	}
}

// What there is not is said to be missing, whoever claims to have an answer. What cannot be meant is
// refused: no cursor leads anywhere that next does not lead to, a snapshot is for the very program
// alone, and who follows an event that there is not has followed another log.
func TestWhatCannotBeReadIsRefused(t *testing.T) {
	_, at := fuzzedServer(t, 3)
	_, _, text := ask(t, "GET", at+"/v1/builds?limit=1", "viewer", "")
	group := "/v1/builds/" + regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text)[1]
	first, _, _ := listPart(t, at+"/v1/pipelines?limit=1")
	list, _ := base64.RawURLEncoding.DecodeString(first.Next)
	of, _, _ := strings.Cut(string(list), ":")
	cursor := func(text string) string {
		return "/v1/pipelines?cursor=" + base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	zeros, ends := strings.Repeat("0", 64), "the log ends with event "
	refused := func(want int, says, path string, header ...string) {
		status, h, text := ask(t, "GET", at+path, "viewer", "", append(header, "If-None-Match", "*")...)
		answers(t, want, says, fmt.Sprintf("%.80s", path))(status, text)
		assert.Equal(t, "application/problem+json", h.Get("Content-Type"), path)
		assert.Empty(t, h.Get("ETag"), path)
	}
	for want, paths := range map[int][]string{
		404: {
			"/v1/nothing", "/v1/../../etc/passwd", "/v1/log%2f..%2f..%2fetc", "/v1/log/snapshots/pipelines?program=another",
			"/v1/environments/nonsense", "/v1/environments/nonsense/hosts", "/v1/environments/..%2F..%2Fetc",
			"/v1/pipelines/nonsense", "/v1/pipelines/shop", "/v1/promotions/nonsense", "/v1/promotions/p0",
			"/v1/builds/nonsense", "/v1/builds/nonsense/jobs", group + "/jobs/nonsense", group + "/jobs/0", group + "/jobs/-1",
			group + "/jobs/99999999999999999999",
		},
		409: {"/v1/log/verify?anchor=1:" + zeros},
		422: {
			"/v1/events?after=x", "/v1/events?follow=true&until=1", "/v1/log/latest?target=run/web.yaml&outcome=odd",
			"/v1/log/verify?anchor=1", "/v1/log/snapshots/pipelines?program=", "/v1/log/snapshots/pipelines",
			"/v1/log/snapshots/secrets?program=another", "/v1/log/snapshots/..%2Flog?program=another",
			"/v1/environments/" + strings.Repeat("a", 600), "/v1/pipelines/p0?hosts=x", "/v1/builds?state=nonsense",
			group + "/jobs?state=nonsense", group + "/jobs?cursor=x", "/v1/pipelines?limit=0", "/v1/pipelines?limit=-1",
			"/v1/pipelines?limit=1000000000", "/v1/pipelines?limit=x", "/v1/pipelines?limit=99999999999999999999",
			"/v1/pipelines?cursor=%00", "/v1/pipelines?cursor=../..", cursor("other:p0"), cursor(of + ":"),
			"/v1/pipelines?cursor=" + strings.Repeat("a", 3000),
		},
	} {
		for _, path := range paths {
			refused(want, "", path)
		}
	}
	_, _, text = ask(t, "GET", at+"/v1/events?follow=true&after=1000000", "viewer", "")
	var head int
	require.NoError(t, must.Fail(fmt.Sscanf(text[strings.Index(text, ends):], ends+"%d", &head)), text)
	expect(t, 200, fmt.Sprintf(`"seq":%d,`, head), "GET", fmt.Sprintf("%s/v1/events?after=%d", at, head-1), "viewer", "")
	refused(422, ends+fmt.Sprint(head), fmt.Sprintf("/v1/events?follow=true&after=%d", head+1))
	refused(422, ends+fmt.Sprint(head), "/v1/events", "Accept", "text/event-stream", "Last-Event-ID", fmt.Sprint(head+1))
	refused(422, ends, "/v1/events?follow=true&after=9223372036854775807")
	for _, path := range []string{cursor(of + ":p1\x00\xff"), "/v1/pipelines?cursor=", "/v1/pipelines?limit=1000"} {
		expect(t, 200, "", "GET", at+path, "viewer", "")
	}
	behind, _, status := listPart(t, at+cursor(of+":zzz"))
	assert.Equal(t, 200, status)
	assert.Empty(t, behind.Items)
	expect(t, 405, "", "DELETE", at+"/v1/log", "admin", "")
}

// Until something is appended the newest events are those that were sent; which came before one
// never changes.
func TestEventsThatHaveNotChangedAreNotSentAgain(t *testing.T) {
	log := logOf(t, 5)
	_, at := newServer(t, log)
	tags := map[string]string{}
	for _, path := range []string{
		"/v1/events", "/v1/events?after=2", "/v1/events?last=2", "/v1/events?until=3",
		"/v1/log/latest?target=run/web.yaml&outcome=succeeded", "/v1/log/in-progress?target=run/web.yaml",
	} {
		status, h, _ := ask(t, "GET", at+path, "viewer", "")
		if tags[path] = h.Get("ETag"); status != http.StatusOK || tags[path] == "" {
			t.Fatalf("%s: %d %v", path, status, h)
		}
		for other, tag := range tags {
			assert.Equal(t, other == path, tag == tags[path], "%s and %s have the same ETag", other, path)
		}
		status, _, text := ask(t, "GET", at+path, "viewer", "", "If-None-Match", tags[path])
		assert.True(t, status == http.StatusNotModified && text == "", "%s is sent again: %d %s", path, status, text)
	}
	require.NoError(t, must.Fail(log.Append(t.Context(), started(6), deploylog.Event{Deployment: "d6", Target: "run/web.yaml", Name: "run-succeeded", Attempt: 1})))
	for path, tag := range tags {
		status, h, _ := ask(t, "GET", at+path, "viewer", "", "If-None-Match", tag)
		held := strings.Contains(path, "until")
		assert.True(t, held == (status == http.StatusNotModified) && held == (h.Get("ETag") == tag), "%s after more events: %d %v", path, status, h)
	}
	_, h, _ := ask(t, "GET", at+"/v1/events?last=1", "viewer", "", "Accept", "application/x-ndjson")
	assert.Contains(t, h.Get("Content-Type"), "application/x-ndjson")
}

func TestAnUpdateOfWhatHasChangedSinceIsRefused(t *testing.T) {
	s := newShop(t)
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	_, h, _ := ask(t, "GET", s.url+"/v1/environments/shop", "viewer", "")
	before := h.Get("ETag")
	update := func(base int, manifest, match string) (int, http.Header, string) {
		return ask(t, "POST", s.url+"/v1/environments/shop/commands/update", "operator", string(mustJSON(t, body{"base": base, "definition": s.definition("shop", manifest)})), "If-Match", match)
	}
	s.send(200, "", "operator", "other", "create", body{"definition": s.definition("other", "other")}) // which is none of its business
	updates := func(want int, says string, base int, manifest, match string) {
		t.Helper()
		status, h, said := update(base, manifest, match)
		answers(t, want, says, match)(status, said)
		assert.Equal(t, want != 200, h.Get("Content-Type") == "application/problem+json", h)
	}
	updates(200, "", 1, "resources: {a: {}}", before)
	updates(412, "has got revision 2 since, by the operator (event 3): read it again", 2, "resources: {b: {}}", before)
	for match, want := range map[string]int{`"99"`: 412, `"99-0"`: 412, `*`: 422, `"0"`: 422, `"-1"`: 422, `"x"`: 422, `W/"3"`: 422, `"3", "4"`: 422, `"1"`: 412, strings.Repeat("9", 90): 422} {
		updates(want, "", 2, "resources: {b: {}}", match)
	}
	_, h, _ = ask(t, "GET", s.url+"/v1/environments/shop", "viewer", "")
	updates(200, "", 2, "resources: {b: {}}", h.Get("ETag"))
	expect(t, 422, "leave it out", "POST", s.url+"/v1/environments/shop/commands/delete", "operator", "{}", "If-Match", before)
}

type listed struct {
	Event int64
	Items []struct{ Pipeline string }
	Next  string
}

func listPart(t *testing.T, url string, header ...string) (l listed, h http.Header, status int) {
	t.Helper()
	status, h, body := ask(t, "GET", url, "viewer", "", header...)
	if status == http.StatusOK {
		require.NoError(t, json.Unmarshal([]byte(body), &l))
	} else if status == http.StatusNotModified && body != "" {
		t.Errorf("304 with %q", body)
	}
	return l, h, status
}

func TestAListIsReadInPartsWhileItGrows(t *testing.T) {
	log := inFile(t, 9)
	_, at := newServer(t, log)
	all := pipelines.New(log, time.Now)
	var got []string
	next := at + "/v1/pipelines?limit=2"
	for i := 0; next != ""; i++ {
		l, h, status := listPart(t, next)
		require.True(t, status == http.StatusOK && len(l.Items) <= 2 && i <= 20, "%s: %d %+v", next, status, l)
		for _, row := range l.Items {
			got = append(got, row.Pipeline)
		}
		if next = ""; l.Next != "" {
			next = at + strings.TrimSuffix(strings.TrimPrefix(h.Get("Link"), "<"), `>; rel="next"`)
		}
		d := querytest.Definition()
		d.Name = fmt.Sprint("a", i) // before all others
		require.NoError(t, must.Fail(all.Command(t.Context(), d.Name, pipeline.Define{Definition: d, ID: "new" + d.Name})))
	}
	assert.Equal(t, []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"}, got)
}

func TestAListThatHasNotChangedIsNotSentAgain(t *testing.T) {
	log := inFile(t, 3)
	_, at := newServer(t, log)
	_, h, _ := listPart(t, at+"/v1/pipelines")
	_, other, _ := listPart(t, at+"/v1/environments")
	tag := h.Get("ETag")
	for _, c := range []struct {
		query, tags string
		want        int
	}{
		{"", tag, 304}, {"", "W/" + tag, 304}, {"", `"x", ` + tag, 304}, {"", "*", 304},
		{"", other.Get("ETag"), 200}, {"", strings.Trim(tag, `"`), 200}, {"", `"x"`, 200}, {"?limit=2", tag, 200},
	} {
		if _, h, status := listPart(t, at+"/v1/pipelines"+c.query, "If-None-Match", c.tags, "Accept-Encoding", "gzip"); status != c.want || h.Get("ETag") == "" || h.Get("Content-Encoding") != "" {
			t.Errorf("%s with %s: %d %v, want %d", c.query, c.tags, status, h, c.want)
		}
	}
	require.NoError(t, must.Fail(log.Append(t.Context(), started(1))))
	_, h, status := listPart(t, at+"/v1/pipelines", "If-None-Match", tag)
	assert.True(t, status == 200 && h.Get("ETag") != tag, "after an event: %d %v", status, h)
}

// commanded is how many events of a pipeline say that it was paused or resumed.
func (s *shop) commanded(names ...string) (n int) {
	for _, name := range names {
		for _, err := range s.log.Read(context.Background(), deploylog.Filter{Name: name}) {
			require.NoError(s, err)
			n++
		}
	}
	return n
}

func TestARequestWithAKeyIsDoneOnce(t *testing.T) {
	s := newShop(t)
	create := body{"definition": s.definition("shop", "resources: {}")}
	s.send(200, "", "operator", "shop", "create", create)
	deploys := func(url, who, key, sent string) (int, string) {
		status, _, said := ask(t, "POST", url+"/v1/environments/shop/commands/deploy", who, sent, "Idempotency-Key", key)
		return status, said
	}
	status, first := deploys(s.url, "operator", "k1", `{"revision":1}`)
	answers(t, 200, "environment-started")(status, first)
	_, other := newServer(t, s.log, func(o *server.Options) { o.Objects = s.store })
	for _, url := range []string{s.url, other, other} {
		answers(t, 200, first)(deploys(url, "operator", "k1", `{"revision":1}`))
	}
	assert.Equal(t, 1, s.commanded("environment-started"), "it is deployed")
	answers(t, 422, "")(deploys(s.url, "operator", "k1", `{"revision":1,"reason":"another"}`))
	assert.Equal(t, 1, s.commanded("environment-started"), "a key of another request")
	// The key of somebody else is another one.
	status, again := deploys(s.url, "admin", "k1", `{"revision":1}`)
	assert.Equal(t, 200, status)
	assert.NotEqual(t, first, again)
	answers(t, 403, "")(deploys(s.url, "viewer", "k1", `{"revision":1}`))
}

// What is refused is not remembered: it may be possible later.
func TestARefusedRequestMayBeSentAgain(t *testing.T) {
	s := newShop(t)
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	pause := func() int {
		status, _, _ := ask(t, "POST", s.url+"/v1/environments/shop/commands/pause", "operator", `{}`, "Idempotency-Key", "k")
		return status
	}
	assert.Equal(t, 409, pause(), "what is not deployed is paused")
	s.send(200, "", "operator", "shop", "deploy", body{"revision": 1})
	for range 2 { // the second time it would be refused, if it were another request
		assert.Equal(t, 200, pause())
	}
}

func TestARequestThatIsSentTwiceAtOnceIsDoneOnce(t *testing.T) {
	s := newShop(t)
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	_, other := newServer(t, s.log, func(o *server.Options) { o.Objects, o.Hosts = s.store, s.hosts })
	var sending sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		sending.Go(func() {
			url := []string{s.url, other}[i%2]
			status, _, said := ask(t, "POST", url+"/v1/environments/shop/commands/deploy", "operator", `{"revision":1}`, "Idempotency-Key", "k")
			answers[i] = fmt.Sprint(status, said)
		})
	}
	sending.Wait()
	for _, said := range answers {
		if said != answers[0] || !strings.HasPrefix(said, "200") {
			t.Errorf("%s\nand\n%s", said, answers[0])
		}
	}
	assert.Equal(t, 1, s.commanded("environment-started"), "it is deployed")
}

func TestAKeyIsForgotten(t *testing.T) {
	s := newShop(t)
	var later time.Duration
	_, url := newServer(t, s.log, func(o *server.Options) {
		o.Objects, o.Now = s.store, func() time.Time { return time.Now().Add(later) }
	})
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	for range 2 {
		expect(t, 200, "", "POST", s.url+"/v1/environments/shop/commands/deploy", "operator", `{"revision":1}`, "Idempotency-Key", "k")
	}
	later = 25 * time.Hour
	expect(t, 200, "", "POST", url+"/v1/environments/shop/commands/pause", "operator", `{}`, "Idempotency-Key", "k")
}
