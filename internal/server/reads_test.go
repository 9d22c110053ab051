package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/server"
)

// read asks for something that there is, makes sure that the document describes the answer, and
// that it is not sent again to who has it.
func read(t *testing.T, s *server.Server, at, operation, path string) (body map[string]any, h http.Header) {
	t.Helper()
	status, h, text := ask(t, "GET", at+path, "viewer", "")
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, text)
	}
	if err := s.Undocumented("GET", operation, text); err != nil {
		t.Errorf("%s is not as the document says: %v\n%s", path, err, text)
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatal(err)
	}
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
		if len(items) > 2 || len(found) > 1000 {
			t.Fatalf("%s: %v", next, body)
		}
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

// Whatever lists name can be read, as the document describes it.
func TestWhatListsNameCanBeRead(t *testing.T) {
	events, _ := fuzzed(t)
	log := logtest.NewMemory().Open()
	if _, err := log.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	s, at := newServer(t, log)
	for _, c := range []struct{ kind, member string }{{"environments", "environment"}, {"pipelines", "pipeline"}, {"builds", "id"}, {"promotions", "pipeline"}} {
		for _, name := range all(t, s, at, "/v1/"+c.kind, "/v1/"+c.kind, c.member) {
			path := "/v1/" + c.kind + "/" + url.PathEscape(name)
			body, _ := read(t, s, at, "/v1/"+c.kind+"/{name}", path)
			if body[c.member] != name {
				t.Errorf("%s: %v", path, body)
			}
			switch c.kind {
			case "environments":
				if hosts := all(t, s, at, "/v1/environments/{name}/hosts", path+"/hosts", "host"); !slices.IsSorted(hosts) || body["hosts"] != float64(len(hosts)) {
					t.Errorf("%s has %v hosts: %v", path, body["hosts"], hosts)
				}
			case "pipelines":
				whole, _ := read(t, s, at, "/v1/pipelines/{name}", path+"?hosts=true&all=true")
				if len(whole["targets"].([]any)) <= len(body["targets"].([]any)) {
					t.Errorf("%s has no hosts", path)
				}
			case "builds":
				jobs := all(t, s, at, "/v1/builds/{name}/jobs", path+"/jobs", "job")
				for i, job := range jobs {
					if job != fmt.Sprint(i+1) {
						t.Errorf("%s has the jobs %v", path, jobs)
					}
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
				if count != len(jobs) {
					t.Errorf("%s has %d jobs, and %d in some state", path, len(jobs), count)
				}
				if got := all(t, s, at, "/v1/builds", "/v1/builds?state="+fmt.Sprint(body["state"]), "id"); !slices.Contains(got, name) {
					t.Errorf("%s is not among those in its state: %v", path, got)
				}
			}
		}
	}
}

// What there is not is said to be missing, whoever claims to have an answer, and what is no state
// is refused.
func TestWhatThereIsNotCannotBeRead(t *testing.T) {
	events, _ := fuzzed(t)
	log := logtest.NewMemory().Open()
	if _, err := log.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	_, at := newServer(t, log)
	_, _, text := ask(t, "GET", at+"/v1/builds?limit=1", "viewer", "")
	group := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text)[1]
	for path, want := range map[string]int{
		"/v1/environments/nonsense": 404, "/v1/environments/nonsense/hosts": 404, "/v1/pipelines/nonsense": 404, "/v1/pipelines/shop": 404, "/v1/promotions/nonsense": 404,
		"/v1/promotions/p0": 404, "/v1/builds/nonsense": 404, "/v1/builds/nonsense/jobs": 404, "/v1/builds/" + group + "/jobs/nonsense": 404, "/v1/builds/" + group + "/jobs/0": 404,
		"/v1/builds/" + group + "/jobs/-1": 404, "/v1/builds/" + group + "/jobs/99999999999999999999": 404,
		"/v1/builds?state=nonsense": 422, "/v1/builds/" + group + "/jobs?state=nonsense": 422, "/v1/builds/" + group + "/jobs?cursor=x": 422,
		"/v1/environments/" + strings.Repeat("a", 600): 422, "/v1/environments/..%2F..%2Fetc": 404, "/v1/pipelines/p0?hosts=x": 422,
	} {
		status, h, text := ask(t, "GET", at+path, "viewer", "", "If-None-Match", "*")
		if status != want || h.Get("Content-Type") != "application/problem+json" || h.Get("ETag") != "" {
			t.Errorf("%s: %d %v %s, want %d", path, status, h, text, want)
		}
	}
}

// Until something is appended the newest events are those that were sent; which came before one
// never changes.
func TestEventsThatHaveNotChangedAreNotSentAgain(t *testing.T) {
	log := logOf(t, 5)
	_, at := newServer(t, log)
	tags := map[string]string{}
	paths := []string{"/v1/events", "/v1/events?after=2", "/v1/events?last=2", "/v1/events?until=3", "/v1/log/latest?target=run/web.yaml&outcome=succeeded", "/v1/log/in-progress?target=run/web.yaml", "/v1/inventory"}
	for _, path := range paths {
		status, h, _ := ask(t, "GET", at+path, "viewer", "")
		if path == "/v1/inventory" && status == http.StatusConflict { // the server has none
			continue
		}
		if tags[path] = h.Get("ETag"); status != http.StatusOK || tags[path] == "" {
			t.Fatalf("%s: %d %v", path, status, h)
		}
		for other, tag := range tags {
			if other != path && tag == tags[path] {
				t.Errorf("%s and %s have the same ETag", other, path)
			}
		}
		if status, _, text := ask(t, "GET", at+path, "viewer", "", "If-None-Match", tags[path]); status != http.StatusNotModified || text != "" {
			t.Errorf("%s is sent again: %d %s", path, status, text)
		}
	}
	if _, err := log.Append(t.Context(), started(6), deploylog.Event{Deployment: "d6", Target: "run/web.yaml", Name: "run-succeeded", Attempt: 1}); err != nil {
		t.Fatal(err)
	}
	for path, tag := range tags {
		status, h, _ := ask(t, "GET", at+path, "viewer", "", "If-None-Match", tag)
		if held := strings.Contains(path, "until"); held != (status == http.StatusNotModified) || held != (h.Get("ETag") == tag) {
			t.Errorf("%s after more events: %d %v", path, status, h)
		}
	}
	if _, h, _ := ask(t, "GET", at+"/v1/events?last=1", "viewer", "", "Accept", "application/x-ndjson"); !strings.HasPrefix(h.Get("Content-Type"), "application/x-ndjson") {
		t.Errorf("%v", h)
	}
}

// The inventory is not sent again to who has it.
func TestTheInventoryThatHasNotChangedIsNotSentAgain(t *testing.T) {
	s := newShop(t)
	body, _ := read(t, s.api, s.url, "/v1/inventory", "/v1/inventory")
	if len(body["hosts"].([]any)) == 0 {
		t.Errorf("%v", body)
	}
}

// Who updates what they have read is told that somebody else was faster, and what to do.
func TestAnUpdateOfWhatHasChangedSinceIsRefused(t *testing.T) {
	s := newShop(t)
	if status, said := s.send("operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")}); status != 200 {
		t.Fatal(said)
	}
	_, h, _ := ask(t, "GET", s.url+"/v1/environments/shop", "viewer", "")
	before := h.Get("ETag")
	update := func(base int, manifest, match string) (int, http.Header, string) {
		return ask(t, "POST", s.url+"/v1/environments/shop/commands/update", "operator", string(mustJSON(t, body{"base": base, "definition": s.definition("shop", manifest)})), "If-Match", match)
	}
	if status, said := s.send("operator", "other", "create", body{"definition": s.definition("other", "other")}); status != 200 { // which is none of its business
		t.Fatal(said)
	}
	if status, _, said := update(1, "resources: {a: {}}", before); status != 200 {
		t.Errorf("%d %s", status, said)
	}
	status, h, said := update(2, "resources: {b: {}}", before)
	if status != 412 || h.Get("Content-Type") != "application/problem+json" || !strings.Contains(said, "has got revision 2 since, by the operator (event 3): read it again") {
		t.Errorf("%d %v %s", status, h, said)
	}
	for match, want := range map[string]int{`"99"`: 412, `"99-0"`: 412, `*`: 422, `"0"`: 422, `"-1"`: 422, `"x"`: 422, `W/"3"`: 422, `"3", "4"`: 422, `"1"`: 412, strings.Repeat("9", 90): 422} {
		if status, _, said := update(2, "resources: {b: {}}", match); status != want {
			t.Errorf("%s: %d %s, want %d", match, status, said, want)
		}
	}
	_, h, _ = ask(t, "GET", s.url+"/v1/environments/shop", "viewer", "")
	if status, _, said := update(2, "resources: {b: {}}", h.Get("ETag")); status != 200 {
		t.Errorf("%d %s", status, said)
	}
	if status, _, said := ask(t, "POST", s.url+"/v1/environments/shop/commands/delete", "operator", "{}", "If-Match", before); status != 422 || !strings.Contains(said, "leave it out") {
		t.Errorf("%d %s", status, said)
	}
}
