//go:build kube

package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// underway is a run whose program has said something.
type underway struct {
	pod   string
	ended chan error
}

// begin runs a program that goes on until it is told to end, and fails then.
func (f *fixture) begin(t *testing.T) underway {
	t.Helper()
	labels := map[string]string{"deployster.run": rand.Text()}
	spoke := make(chan struct{})
	said := sync.OnceFunc(func() { close(spoke) })
	u := underway{ended: make(chan error, 1)}
	go func() {
		exit, err := f.Run(t.Context(), engine.Spec{Image: f.ref, Args: []string{"hang"}, Labels: labels},
			engine.IO{Stdout: writerFunc(func(p []byte) (int, error) { said(); return len(p), nil })})
		if err == nil && exit.Code == 0 {
			err = errors.New("it is a success")
		}
		u.ended <- err
	}()
	select {
	case <-spoke:
	case err := <-u.ended:
		t.Fatalf("it ended before it was disturbed: %v", err)
	}
	found, err := f.Containers(t.Context(), labels)
	require.True(t, err == nil && len(found) == 1, "%v, %v", found, err)
	u.pod = found[0].ID
	return u
}

func TestAPodThatIsEndedByOthersIsNoSuccess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	for name, c := range map[string]struct {
		end  func(t *testing.T, pod string)
		want string
	}{
		"it is removed":         {func(t *testing.T, pod string) { require.NoError(t, f.api.delete(t.Context(), pod, 30)) }, "removed by somebody else"},
		"it is removed at once": {func(t *testing.T, pod string) { require.NoError(t, f.api.delete(t.Context(), pod, 0)) }, "removed by somebody else"},
		"its node is drained": {func(t *testing.T, pod string) {
			f.cluster.Create(t, "/api/v1/namespaces/"+f.options.Namespace+"/pods/"+pod+"/eviction", map[string]any{
				"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metav1.ObjectMeta{Name: pod, Namespace: f.options.Namespace},
			})
		}, "the cluster evicted the Pod: EvictionByEvictionAPI"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := f.begin(t)
			c.end(t, u.pod)
			if err := <-u.ended; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left, err := f.Containers(t.Context(), nil); err != nil || slices.ContainsFunc(left, func(c engine.Container) bool { return c.ID == u.pod }) {
				t.Errorf("%v, %v", left, err)
			}
		})
	}
}

// A run whose process is killed leaves nothing that is there for ever.
func TestAPodEndsWhoseRunIsDead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	f.life = time.Second
	left := f.make(t, map[string]string{"deployster.run": "dead"})
	if exit, err := f.Wait(t.Context(), left.pod); err != nil || exit.Code == 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	assert.NoError(t, f.sweep(t.Context(), time.Now()))
	if left, err := f.Containers(t.Context(), nil); err != nil || len(left) != 1 || left[0].Running {
		t.Errorf("what ended just now may be waited for by another run: %v, %v", left, err)
	}
	assert.NoError(t, f.sweep(t.Context(), time.Now().Add(leftFor+time.Minute)))
	if left, err := f.Containers(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("a day later there is %v, %v", left, err)
	}
}

// Without one of its rights an engine says which it lacks, and for what it is needed.
func TestARightThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	for _, right := range Rights() {
		if right == (Right{"get", "pods/attach"}) {
			continue // without it there is another protocol, which API servers are about to drop
		}
		if right == (Right{"get", "pods/log"}) {
			continue // it is wanted where a connection breaks
		}
		t.Run(right.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Restricted)
			rights := slices.DeleteFunc(Rights(), func(r Right) bool { return r == right })
			f.grant(t, rights, limitedUser)
			e, err := Open(t.Context(), f.limited(t))
			require.NoError(t, err)
			defer func() { _ = e.Close() }()
			for _, right := range rights {
				kubetest.Until(t, right.String(), func() (string, bool) {
					may, err := e.api.may(t.Context(), right)
					require.NoError(t, err)
					return "not granted", may
				})
			}
			labels := map[string]string{"deployster.run": "x"}
			_, _, err = runProbe(t, e, engine.Spec{Image: f.ref, Args: []string{"exit", "0"}, Labels: labels})
			switch right.Verb + " " + right.Resource {
			case "list pods":
				require.NoError(t, err)
				_, err = e.Containers(t.Context(), labels)
			case "delete pods":
				require.NoError(t, err)
				found, listed := e.Containers(t.Context(), labels)
				require.True(t, listed == nil && len(found) == 1, "%v, %v", found, listed)
				err = e.Remove(t.Context(), found[0].ID)
			}
			want := "grant the verb " + right.Verb + " on " + right.Resource + " in namespace " + f.options.Namespace
			assert.True(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
		})
	}
}

func (f *fixture) grant(t *testing.T, rights []Right, subject map[string]any) {
	rbac := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + f.options.Namespace
	f.cluster.Create(t, rbac+"/roles", roleOf(rights))
	f.cluster.Create(t, rbac+"/rolebindings", map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "deployster"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployster"},
		"subjects": []any{subject},
	})
}

// limitedUser is the one that may do nothing yet.
var limitedUser = map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "limited"}

func TestTheAPIServerMayBeStartedAnew(t *testing.T) {
	f := newFixture(t, Restricted)
	id, end := f.leave(t, map[string]string{"deployster.run": "left"})
	waited := make(chan error, 1)
	go func() {
		exit, err := f.Wait(t.Context(), id)
		if err == nil && exit.Code == 0 {
			err = errors.New("it is a success")
		}
		waited <- err
	}()
	release := make(chan struct{})
	spoke := make(chan struct{})
	type result struct {
		exit engine.Exit
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		spec := engine.Spec{Image: f.ref, Args: []string{"read-exit", "7"}}
		exit, err := f.Run(t.Context(), spec, engine.IO{Stdin: blocked{release}, Stdout: writerFunc(func(p []byte) (int, error) { close(spoke); return len(p), nil })})
		ended <- result{exit, err}
	}()
	<-spoke
	f.cluster.RestartAPIServer(t)
	// Its connection is gone, and with that its input, and nothing else.
	if r := <-ended; r.err != nil || r.exit.Code != 7 {
		t.Errorf("a run whose connection broke: %v, %v", r.exit, r.err)
	}
	close(release)
	if left, err := f.Containers(t.Context(), nil); err != nil || len(left) != 1 || left[0].ID != id {
		t.Errorf("the run whose connection broke left %v, %v", left, err)
	}
	end()
	assert.NoError(t, <-waited, "who waits for a Pod")
	if exit, _, err := runProbe(t, f.Engine, engine.Spec{Image: f.ref, Args: []string{"exit", "3"}}); err != nil || exit.Code != 3 {
		t.Errorf("a run after that: %v, %v", exit, err)
	}
}

func TestTwentyMegabytesGoBothWays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	sent := make([]byte, 20_000_000)
	_, _ = rand.Read(sent)
	var got bytes.Buffer
	var first time.Time
	output := writerFunc(func(p []byte) (int, error) {
		if first.IsZero() {
			first = time.Now()
		}
		return got.Write(p)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	exit, err := f.Run(ctx, engine.Spec{Image: f.ref, Args: []string{"cat"}}, engine.IO{Stdin: bytes.NewReader(sent), Stdout: output})
	require.True(t, err == nil && exit.Code == 0 && bytes.Equal(got.Bytes(), sent), "%v, %v, %d bytes", exit, err, got.Len())
	t.Logf("20 MB both ways took %s after the first byte", time.Since(first).Round(time.Millisecond))
}

// spoken is what a process has written so far.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// The process that applies is killed in the middle of an action, whose Pod goes on. The next one
// finds it, waits for it, removes it, and does nothing beside it.
func TestAnActionThatOutlivesItsRunIsWaitedForInACluster(t *testing.T) {
	t.Parallel()
	program := enginetest.Binary(t, "github.com/deployster-go/deployster/internal/cli/testdata/slowtype", runtime.GOARCH)
	for kind, entrypoint := range map[string][]string{"a Pod of its own": {"/slowtype", "one-shot"}, "a process that serves": {"/slowtype"}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Restricted)
			image, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/slowtype", Entrypoint: entrypoint})
			require.NoError(t, err)
			ref, err := name.NewTag(f.cluster.Registry+"/test/slowtype:"+hash(kind), name.Insecure)
			require.NoError(t, err)
			require.NoError(t, remote.Write(ref, image))
			source, directory := f.volume(t)
			thing := func(name string) string { return filepath.Join(directory, name) }
			workspace := t.TempDir()
			manifest := `plugs: {dir: {path: "` + source + `"}}
resources:
  a: {type: "` + ref.String() + `", config: {value: one}}
`
			require.NoError(t, os.WriteFile(filepath.Join(workspace, "m.yaml"), []byte(manifest), 0o600))
			require.NoError(t, os.WriteFile(thing("a.hold"), nil, 0o600))
			var heard [2]spoken
			first := f.command(t, workspace, "apply", "m.yaml", "--confirm", "NO")
			first.Stdout, first.Stderr = &heard[0], &heard[0]
			require.NoError(t, first.Start())
			kubetest.Until(t, "the action is at work", func() (string, bool) {
				_, err := os.Stat(thing("a.busy"))
				return heard[0].String(), err == nil
			})
			require.NoError(t, first.Process.Kill())
			_ = first.Wait()
			left, err := f.Containers(t.Context(), map[string]string{"deployster.run": ""})
			if err != nil || !slices.ContainsFunc(left, func(c engine.Container) bool { return c.Running }) {
				t.Fatalf("the killed run left %v, %v", left, err)
			}
			second := f.command(t, workspace, "apply", "m.yaml", "--confirm", "NO", "--output", "json")
			second.Stdout, second.Stderr = &heard[1], &heard[1]
			require.NoError(t, second.Start())
			kubetest.Until(t, "it waits for what is left", func() (string, bool) {
				said := heard[1].String()
				return said, strings.Contains(said, "left running")
			})
			require.NoError(t, os.Remove(thing("a.hold")))
			said := heard[1].String
			if err := second.Wait(); err != nil || strings.Contains(said(), `"type":"action-started"`) {
				t.Errorf("the second run: %v\n%s", err, said())
			}
			if content, err := os.ReadFile(thing("a")); err != nil || string(content) != "one" {
				t.Errorf("the action of the killed run made %q, %v", content, err)
			}
			if _, err := os.Stat(thing("two-at-once")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the action ran twice at once: %v", err)
			}
			f.noneLeft(t)
		})
	}
}
