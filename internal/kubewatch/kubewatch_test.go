package kubewatch_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/internal/kubewatch/apitest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// retry is the first pause after a failure.
const retry = 5 * time.Millisecond

// world is some clusters, and whoever watches them.
type world struct {
	*testing.T
	*kubewatch.Clusters
	mu     sync.Mutex
	access map[string]kubewatch.Access
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, access: map[string]kubewatch.Access{}}
	w.Clusters = kubewatch.New(kubewatch.Options{Retry: retry, Find: w.find})
	return w
}

// find is how a cluster is reached.
func (w *world) find(name string) (kubewatch.Access, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, is := w.access[name]; is {
		return a, nil
	}
	return kubewatch.Access{}, errors.New("the inventory has no such cluster")
}

func (w *world) cluster(name string, s *apitest.Server) {
	access := kubewatch.Access{Kubeconfig: s.Kubeconfig(w.T)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.access[name] = access
}

func (w *world) reaches(name, server string) {
	kubeconfig := filepath.Join(w.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q}}], "users": [{"name": "u", "user": {"token": "t"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, server)
	require.NoError(w, os.WriteFile(kubeconfig, []byte(text), 0o600))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.access[name] = kubewatch.Access{Kubeconfig: kubeconfig}
}

// reaching is a world that reaches a cluster, prod.
func reaching(t *testing.T) (*world, *apitest.Server) {
	t.Helper()
	w, s := newWorld(t), apitest.New(t)
	w.cluster("prod", s)
	return w, s
}

// view is what somebody sees.
type view struct {
	*testing.T
	seen  chan string
	leave func()
}

// views watches an object as a path names it: CLUSTER/KIND/NAMESPACE/NAME.
func (w *world) views(path string) *view {
	parts := strings.Split(path, "/")
	groups := map[string]string{"Kustomization": "kustomize.toolkit.fluxcd.io", "Application": "argoproj.io", "Site": "acme.example"}
	v := &view{T: w.T, seen: make(chan string, 1000)}
	v.leave = w.Watch(kubewatch.Object{Cluster: parts[0], Group: groups[parts[1]], Kind: parts[1], Namespace: parts[2], Name: parts[3]}, func(live map[string]any, err error) {
		switch {
		case err != nil:
			v.seen <- "error: " + err.Error()
		case live == nil:
			v.seen <- "nothing"
		default:
			v.seen <- fmt.Sprint("is ", live["is"])
		}
	})
	w.Cleanup(v.leave)
	return v
}

// sees waits until it sees something, whatever is before.
func (v *view) sees(want string) {
	v.Helper()
	for {
		if got := waittest.Receive(v.T, v.seen, want); got == want || strings.HasPrefix(got, "error: ") && strings.Contains(got, want) {
			return
		}
	}
}

func (v *view) next() string {
	v.Helper()
	return waittest.Receive(v.T, v.seen, "what it sees next")
}

// gone waits until nothing is watched any more.
func (w *world) gone() {
	clusters, watches := w.Watched()
	assert.Zero(w, clusters+watches, "%d watches of %d clusters are left", watches, clusters)
	w.Wait()
}

func TestWhoWatchesAnObjectIsToldWhatItIs(t *testing.T) {
	w, s := reaching(t)
	v := w.views("prod/Kustomization/flux/shop")
	v.sees("nothing")
	s.Put("kustomizations/flux/shop", `{"is": 1}`)
	v.sees("is 1")
	s.Put("kustomizations/flux/other", `{"is": 7}`)
	s.Put("kustomizations/other/shop", `{"is": 8}`)
	s.Put("kustomizations/flux/shop", `{"is": 2}`)
	assert.Equal(t, "is 2", v.next(), "it is told of another one")
	s.Delete("kustomizations/flux/shop") // such as when it is renamed
	v.sees("nothing")
	v.leave()
	w.gone()
}

func TestThereIsOneWatchForAll(t *testing.T) {
	w, s := reaching(t)
	s.Put("kustomizations/flux/a", `{"is": "a"}`)
	s.Put("kustomizations/flux/b", `{"is": "b"}`)
	s.Put("sites/c", `{"is": "c"}`)
	a, again, b, c := w.views("prod/Kustomization/flux/a"), w.views("prod/Kustomization/flux/a"), w.views("prod/Kustomization/flux/b"), w.views("prod/Site//c")
	for v, want := range map[*view]string{a: "is a", again: "is a", b: "is b", c: "is c"} {
		v.sees(want)
	}
	clusters, watches := w.Watched()
	assert.True(t, clusters == 1 && watches == 2, "there are %d watches of %d clusters", watches, clusters)
	s.Await(t, 2)
	a.leave()
	a.leave() // which changes nothing
	b.leave()
	s.Put("kustomizations/flux/a", `{"is": "A"}`)
	again.sees("is A")
	again.leave()
	c.leave()
	w.gone()
	s.Await(t, 0)
}

// Who comes to view something is told what it is at once, however many come, and however long others
// have been told.
func TestManyComeOneAfterAnother(t *testing.T) {
	w, s := reaching(t)
	w.Clusters = kubewatch.New(kubewatch.Options{Retry: time.Hour, Find: w.find}) // who waits for that hangs
	for i := range 20 {
		s.Put(fmt.Sprintf("kustomizations/flux/%d", i), fmt.Sprintf(`{"is": %d}`, i))
		w.views(fmt.Sprintf("prod/Kustomization/flux/%d", i)).sees(fmt.Sprint("is ", i))
	}
}

// A watch that says nothing is made anew, and what it was of is known as long as the cluster answers.
func TestAWatchThatSaysNothingIsMadeAnew(t *testing.T) {
	w, s := reaching(t)
	w.Clusters = kubewatch.New(kubewatch.Options{Retry: retry, Quiet: 20 * time.Millisecond, Find: w.find})
	s.Put("kustomizations/flux/shop", `{"is": 1}`)
	v := w.views("prod/Kustomization/flux/shop")
	for range 3 {
		require.Equal(t, "is 1", v.next())
	}
	s.Down()
	got := v.next()
	assert.True(t, strings.HasPrefix(got, "error: cluster prod does not answer") || got == "is 1", "it sees %q", got)
	v.sees("cluster prod does not answer")
}

func TestAClusterThatIsGoneIsUnknownUntilItIsBack(t *testing.T) {
	w, s := reaching(t)
	s.Put("kustomizations/flux/shop", `{"is": 1}`)
	v := w.views("prod/Kustomization/flux/shop")
	v.sees("is 1")
	s.Down()
	v.sees("cluster prod does not answer: find kind Kustomization")
	late := w.views("prod/Kustomization/flux/shop")
	late.sees("cluster prod does not answer")
	s.Put("kustomizations/flux/shop", `{"is": 2}`)
	s.Up()
	v.sees("is 2")
	late.sees("is 2")
}

// A cluster that closes a connection, or has forgotten what happened, is not gone.
func TestWatchesAreMadeAnew(t *testing.T) {
	w, s := reaching(t)
	v := w.views("prod/Kustomization/flux/shop")
	v.sees("nothing")
	for i, end := range []func(){s.Cut, s.Forget, s.Expire} {
		s.Await(t, 1)
		before, _ := s.Requests("list")
		end()
		s.Put("kustomizations/flux/shop", fmt.Sprintf(`{"is": %d}`, i))
		for last := ""; last != fmt.Sprint("is ", i); {
			if last = v.next(); strings.HasPrefix(last, "error") {
				t.Fatalf("it is told %s", last)
			}
		}
		after, _ := s.Requests("list")
		assert.True(t, i <= 0 || after != before, "it goes on where nobody knows what came in between")
	}
}

func TestWhatAClusterRefusesIsSaid(t *testing.T) {
	w, s := reaching(t)
	s.Put("applications/argo/shop", `{"is": 1}`)
	s.Refuse("list", `403 applications.argoproj.io is forbidden: User "ci" cannot list resource "applications"`)
	v := w.views("prod/Application/argo/shop")
	v.sees(`cluster prod: list applications.argoproj.io: applications.argoproj.io is forbidden: User "ci" cannot list resource "applications"; grant the verbs list and watch on applications.argoproj.io`)
	s.Refuse("watch", "403 no")
	s.Refuse("list", "")
	v.sees("cluster prod: watch applications.argoproj.io: no; grant the verbs list and watch")
	for range 3 { // and not what it is in between, when that cannot be followed
		assert.True(t, strings.HasPrefix(v.next(), "error: "), "it is told")
	}
	s.Refuse("watch", "503 not now")
	s.Cut()
	v.sees("cluster prod does not answer: watch applications.argoproj.io: not now")
	s.Refuse("watch", "")
	v.sees("is 1")
	s.Without("/apis/argoproj.io/v1alpha1", true)
	v.sees("it has no kind Application of argoproj.io: its CustomResourceDefinition is not installed")
	s.Without("/apis/argoproj.io/v1alpha1", false)
	v.sees("is 1")
}

func TestAnObjectIsInANamespaceOrNot(t *testing.T) {
	w, _ := reaching(t)
	w.views("prod/Kustomization//shop").sees("each of them is in a namespace, and none is named")
	w.views("prod/Site/a/shop").sees("they are in no namespace, and a is named")
}

func TestAClusterIsReachedAsItIsToBeNow(t *testing.T) {
	w, s, other := newWorld(t), apitest.New(t), apitest.New(t)
	other.Put("kustomizations/flux/shop", `{"is": "moved"}`)
	v := w.views("prod/Kustomization/flux/shop")
	v.sees("cluster prod: find out how it is reached: the inventory has no such cluster")
	w.cluster("prod", s)
	v.sees("nothing")
	w.cluster("prod", other)
	s.Cut()
	v.sees("is moved")

	// So it is where the file has another server by now.
	moved := must.Get(os.ReadFile(s.Kubeconfig(t)))(t)
	require.NoError(t, os.WriteFile(w.access["prod"].Kubeconfig, moved, 0o600))
	s.Put("kustomizations/flux/shop", `{"is": "back"}`)
	other.Cut()
	v.sees("is back")

	// A file that cannot be read is the same as a cluster that does not answer.
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(empty, []byte("{}"), 0o600))
	for access, want := range map[kubewatch.Access]string{
		{Kubeconfig: broken}: "cluster prod: read how it is reached", {Kubeconfig: broken + "x"}: "no such file", {Kubeconfig: w.access["prod"].Kubeconfig, Context: "none"}: "context was not found for specified context: none",
		{}: "it is not said which cluster it is", {InCluster: true}: "unable to load in-cluster configuration",
		{Kubeconfig: empty}: "its kubeconfig names no cluster",
	} {
		w.mu.Lock()
		w.access["prod"] = access
		w.mu.Unlock()
		s.Cut()
		v.sees(want)
	}
}

// What answers may be anything: it is neither trusted nor read without end, and gets no credentials
// that are of another server.
func TestWhatIsNoAPIServerIsUnknown(t *testing.T) {
	w := newWorld(t)
	for name, answer := range hostile {
		w.reaches(name, serving(t, answer))
		v := w.views(name + "/Kustomization/flux/shop")
		want := "cluster " + name
		if strings.HasPrefix(name, "watches-") { // what is there is known, though nobody tells when it changes
			want = "nothing"
		}
		v.sees(want)
		v.leave()
	}
	w.gone()
}

func TestAnEventWithoutANameIsOfNoObject(t *testing.T) {
	w := newWorld(t)
	for name, event := range map[string]string{
		"no-name": `{"type": "DELETED", "object": {}}`, "no-object": `{"type": "DELETED"}`, "no-type": `{"type": "GONE", "object": {"metadata": {"name": "shop"}}}`,
	} {
		w.reaches(name, serving(t, watching(event)))
		v := w.views(name + "/Kustomization/flux/here")
		for range 3 {
			assert.Equal(t, "is 1", v.next(), "%s: it sees", name)
		}
		v.leave()
	}
	w.gone()
}

// hostile are servers that are no API servers, or none that means well.
var hostile = map[string]http.HandlerFunc{
	"speaks-html":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>sign in</html>")) },
	"says-nothing": func(http.ResponseWriter, *http.Request) {},
	"is-a-list":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[1, 2]")) },
	"leads-away": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	},
	"has-odd-names": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"preferredVersion": {"version": "../../v1"}}`))
	},
	"has-odd-kinds": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"preferredVersion": {"version": "v1"}, "resources": [{"kind": "Kustomization", "name": "../secrets", "namespaced": true}]}`))
	},
	"is-overwhelmed": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
	"lists-nothing": func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/kustomizations") {
			_, _ = w.Write([]byte("{}"))
			return
		}
		watching("")(w, r)
	},
	"watches-html":  watching("<html>"),
	"watches-much":  watching(`{"type": "MODIFIED", "object": {"metadata": {"name": "` + strings.Repeat("x", 9<<20) + `"}}}`),
	"watches-oddly": watching(`{"type": "MODIFIED", "object": {"metadata": {"name": "shop"}, "a": 1e999}}`),
}

// watching is an API server whose watches say something.
func watching(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") != "":
			_, _ = w.Write([]byte(what + "\n"))
		case strings.HasSuffix(r.URL.Path, "/kustomizations"):
			_, _ = w.Write([]byte(`{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "here"}, "is": 1}]}`))
		default:
			_, _ = w.Write([]byte(`{"preferredVersion": {"version": "v1"}, "resources": [{"kind": "Kustomization", "name": "kustomizations", "namespaced": true}]}`))
		}
	}
}

func serving(t *testing.T, answer http.HandlerFunc) (url string) {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}
