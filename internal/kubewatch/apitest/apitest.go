// Package apitest is an API server of Kubernetes for tests that watch objects: it has the kinds that
// a test gives it, and fails as a test wants.
package apitest

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The kinds that a Server has, by where their objects are.
var kinds = map[string]string{
	"/apis/kustomize.toolkit.fluxcd.io/v1": "Kustomization kustomizations", "/apis/helm.toolkit.fluxcd.io/v2": "HelmRelease helmreleases",
	"/apis/argoproj.io/v1alpha1": "Application applications", "/apis/apps/v1": "Deployment deployments", "/apis/acme.example/v1": "Site sites",
}

// Server is an API server.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	changed  *sync.Cond
	kinds    map[string]string
	objects  map[string]map[string]any // by path
	history  []event
	dropped  int               // events that nobody can have any more
	refuses  map[string]string // "list" or "watch": how it is answered, "403 words"
	cuts     int               // watches are ended, when it is another number
	expired  int               // the cut before which watches are ended with an event that says why
	down     bool
	requests map[string]int // by their verb
	watches  int            // that there are
}

type event struct {
	kind, path string
	object     map[string]any
}

// New begins a server, which ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{kinds: maps.Clone(kinds), objects: map[string]map[string]any{}, refuses: map[string]string{}, expired: -1, requests: map[string]int{}}
	s.changed = sync.NewCond(&s.mu)
	s.http = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.Down()
		s.http.Close()
	})
	return s
}

// Kubeconfig writes a file by which the server is reached.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
		"users": [{"name": "u", "user": {"token": "secret-of-the-test"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`,
		s.http.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// change has something changed, and who watches told.
func (s *Server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.changed.Broadcast()
}

// Put makes an object, or changes it: its path is that of its kind, its namespace and its name, such as
// kustomizations/flux-system/shop.
func (s *Server) Put(path, object string) {
	var o map[string]any
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		panic(err)
	}
	s.change(func() {
		kind := "MODIFIED"
		if s.objects[path] == nil {
			kind = "ADDED"
		}
		s.record(kind, path, o)
		s.objects[path] = o
	})
}

// Delete removes an object.
func (s *Server) Delete(path string) {
	s.change(func() {
		s.record("DELETED", path, maps.Clone(s.objects[path]))
		delete(s.objects, path)
	})
}

func (s *Server) record(kind, path string, o map[string]any) {
	metadata, _ := o["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"], metadata["resourceVersion"] = path[strings.LastIndexByte(path, '/')+1:], fmt.Sprint(s.dropped+len(s.history)+1)
	o["metadata"] = metadata
	s.history = append(s.history, event{kind, path, o})
}

// Without has the server not know an API, such as /apis/argoproj.io/v1alpha1, or know it again.
func (s *Server) Without(api string, without bool) {
	s.change(func() {
		s.kinds = maps.Clone(kinds)
		if without {
			delete(s.kinds, api)
		}
	})
	s.Cut()
}

// Refuse has a verb, list or watch, answered with a status and words, such as "403 forbidden"; "" ends
// that.
func (s *Server) Refuse(verb, answer string) { s.change(func() { s.refuses[verb] = answer }) }

// Bookmark tells all watches how far they are, as real servers do once a minute.
func (s *Server) Bookmark() { s.change(func() {}) }

// Cut ends all watches.
func (s *Server) Cut() { s.change(func() { s.cuts++ }) }

// Forget has the server know nothing of what happened before, as after a compaction. Watches end, and
// cannot go on.
func (s *Server) Forget() {
	s.change(func() {
		s.dropped += len(s.history) + 1
		s.history = nil
		s.cuts++
	})
}

// Expire ends all watches with an event that says that they are too old.
func (s *Server) Expire() { s.change(func() { s.expired, s.cuts = s.cuts, s.cuts+1 }) }

// Down has the server close all connections, until Up.
func (s *Server) Down() {
	s.change(func() { s.down, s.cuts = true, s.cuts+1 })
}

// Up ends Down.
func (s *Server) Up() { s.change(func() { s.down = false }) }

// Requests is how many of a verb there were: get, list or watch; and how many watches there are now.
func (s *Server) Requests(verb string) (all, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[verb], s.watches
}

// Await waits until there are as many watches.
func (s *Server) Await(t testing.TB, watches int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	late := false
	defer time.AfterFunc(time.Minute, func() { s.change(func() { late = true }) }).Stop()
	for s.watches != watches {
		if late {
			t.Fatalf("there are %d watches, and never %d", s.watches, watches)
		}
		s.changed.Wait()
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	api, rest, listing := s.route(r.URL.Path)
	verb := "get"
	switch {
	case listing && r.URL.Query().Get("watch") != "":
		verb = "watch"
	case listing:
		verb = "list"
	}
	s.requests[verb]++
	if s.down {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
		return
	}
	if r.Header.Get("Authorization") != "Bearer secret-of-the-test" {
		refuse(w, "401 Unauthorized")
		return
	}
	if answer := s.refuses[verb]; answer != "" {
		refuse(w, answer)
		return
	}
	switch {
	case verb == "watch":
		s.watch(w, r, rest)
	case verb == "list":
		s.list(w, rest)
	case s.kinds[api] != "":
		kind, plural, _ := strings.Cut(s.kinds[api], " ")
		answer(w, map[string]any{"resources": []any{
			map[string]any{"name": plural + "/status", "kind": kind, "namespaced": true}, map[string]any{"name": plural, "kind": kind, "namespaced": kind != "Site"},
		}})
	default:
		for known := range s.kinds {
			if group, version, _ := cutLast(known); group == r.URL.Path {
				answer(w, map[string]any{"preferredVersion": map[string]any{"version": version}})
				return
			}
		}
		refuse(w, "404 the server could not find the requested resource")
	}
}

func cutLast(path string) (before, after string, found bool) {
	at := strings.LastIndexByte(path, '/')
	return path[:at], path[at+1:], true
}

// route divides a path into that of an API and the prefix of the paths of its objects.
func (s *Server) route(path string) (api, rest string, listing bool) {
	for known, names := range s.kinds {
		_, plural, _ := strings.Cut(names, " ")
		after, is := strings.CutPrefix(path, known)
		switch namespace, of, _ := strings.Cut(strings.TrimPrefix(after, "/namespaces/"), "/"); {
		case !is:
		case after == "":
			return known, "", false
		case after == "/"+plural:
			return known, plural + "/", true
		case of == plural:
			return known, plural + "/" + namespace + "/", true
		}
	}
	return "", "", false
}

func answer(w http.ResponseWriter, document any) { _ = json.NewEncoder(w).Encode(document) }

func refuse(w http.ResponseWriter, with string) {
	code, message, _ := strings.Cut(with, " ")
	status := 0
	_, _ = fmt.Sscan(code, &status)
	w.WriteHeader(status)
	answer(w, map[string]any{"kind": "Status", "code": status, "message": message})
}

func (s *Server) version() string { return fmt.Sprint(s.dropped + len(s.history)) }

func (s *Server) list(w http.ResponseWriter, prefix string) {
	items := []any{}
	for _, path := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(path, prefix) {
			items = append(items, s.objects[path])
		}
	}
	answer(w, map[string]any{"metadata": map[string]any{"resourceVersion": s.version()}, "items": items})
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, prefix string) {
	at := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &at)
	if at < s.dropped {
		refuse(w, "410 too old resource version")
		return
	}
	s.watches++
	s.changed.Broadcast()
	defer func() {
		s.watches--
		s.changed.Broadcast()
	}()
	defer contextWakes(r, s.changed)()
	flusher := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = flusher.Flush()
	cuts := s.cuts
	for ; cuts == s.cuts && r.Context().Err() == nil; s.changed.Wait() {
		for ; at-s.dropped < len(s.history); at++ {
			if e := s.history[at-s.dropped]; strings.HasPrefix(e.path, prefix) {
				answer(w, map[string]any{"type": e.kind, "object": e.object})
			}
		}
		answer(w, map[string]any{"type": "BOOKMARK", "object": map[string]any{"metadata": map[string]any{"resourceVersion": s.version()}}})
		_ = flusher.Flush()
	}
	if cuts == s.expired {
		answer(w, map[string]any{"type": "ERROR", "object": map[string]any{"kind": "Status", "code": http.StatusGone, "message": "too old resource version"}})
	}
}

// contextWakes has who waits woken when whoever asked is gone.
func contextWakes(r *http.Request, waiting *sync.Cond) (end func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			waiting.L.Lock()
			defer waiting.L.Unlock()
			waiting.Broadcast()
		case <-done:
		}
	}()
	return func() { close(done) }
}
