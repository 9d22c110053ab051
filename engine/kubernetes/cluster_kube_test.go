//go:build kube

package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// run runs the probe and returns what it wrote.
func runProbe(t *testing.T, e *Engine, spec engine.Spec) (exit engine.Exit, stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	exit, err = e.Run(t.Context(), spec, engine.IO{Stdout: &out})
	return exit, out.String(), err
}

func TestPodsKeepToTheRestrictedStandard(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	e := f.Engine
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("for its owner"), 0o600))
	spec := engine.Spec{
		Image: f.ref, Args: []string{"user"}, Labels: map[string]string{"deployster.run": "a run"},
		Mounts: []engine.Mount{{Source: dir, Target: "/plug", ReadOnly: true}},
	}
	if exit, stdout, err := runProbe(t, e, spec); err != nil || exit.Code != 0 || stdout != "65532:65532" {
		t.Errorf("it is %q; %v, %v", stdout, exit, err)
	}
	spec.Args = []string{"read", "/plug/secret"}
	if _, stdout, err := runProbe(t, e, spec); err != nil || stdout != "for its owner" {
		t.Errorf("its plug says %q, %v", stdout, err)
	}
	spec.Args = []string{"write", "/plug/secret", "changed"}
	if exit, _, err := runProbe(t, e, spec); err != nil || exit.Code == 0 {
		t.Errorf("it writes to what is read-only: %v, %v", exit, err)
	}
	spec.Args, spec.Work = []string{"write", "/deployster-work/file", "its own"}, "/deployster-work"
	if exit, _, err := runProbe(t, e, spec); err != nil || exit.Code != 0 {
		t.Errorf("it cannot write to its work directory: %v, %v", exit, err)
	}
	spec.User = "root"
	if _, _, err := runProbe(t, e, spec); err == nil || !strings.Contains(err.Error(), "--pod-security baseline") {
		t.Errorf("root: %v", err)
	}
	baseline := *e.Cluster // which the namespace does not allow
	baseline.options.PodSecurity = Baseline
	e.Cluster = &baseline
	if _, _, err := runProbe(t, e, spec); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("a Pod that the namespace forbids: %v", err)
	}
}

func TestWhatTakesTooMuchMemoryIsKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Baseline)
	spec := engine.Spec{Image: f.ref, Args: []string{"allocate", "200000000"}, Memory: 64 << 20}
	if exit, _, err := runProbe(t, f.Engine, spec); err != nil || exit != (engine.Exit{Code: 137, OOMKilled: true}) {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestAnImageThatTheClusterCannotPullIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Baseline)
	image, err := f.held(t.Context(), f.ref)
	must(t, err)
	image.pinned = f.cluster.Registry + "/test/other@sha256:" + strings.Repeat("0", 64)
	f.remember("gone", image)
	_, _, err = runProbe(t, f.Engine, engine.Spec{Image: "gone"})
	if !errors.Is(err, engine.ErrNoImage) || !strings.Contains(err.Error(), image.pinned) || !strings.Contains(err.Error(), "--image-pull-secret") {
		t.Error(err)
	}
}

func TestTheRoleOfTheDocumentationIsEnoughAndNothingLessIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	e, err := Open(t.Context(), f.limited(t))
	must(t, err)
	defer func() { _ = e.Close() }()
	if _, err := e.Image(t.Context(), f.ref, engine.PullNever, nil); err != nil {
		t.Fatal(err)
	}
	spec := engine.Spec{Image: f.ref, Args: []string{"exit", "3"}, Labels: map[string]string{"deployster.run": "x"}}
	if _, _, err := runProbe(t, e, spec); err == nil || !strings.Contains(err.Error(), "grant the verb create on pods in namespace "+f.options.Namespace) {
		t.Errorf("without any right: %v", err)
	}
	if _, err := e.Containers(t.Context(), spec.Labels); err == nil || !strings.Contains(err.Error(), "grant the verb list on pods") {
		t.Errorf("without any right: %v", err)
	}
	checked := func() []Right {
		t.Helper()
		found, err := e.Check(t.Context())
		must(t, err)
		return found.Missing
	}
	if missing := checked(); !slices.Equal(missing, Rights()) {
		t.Errorf("without any right %v are missing", missing)
	}
	f.grant(t, Rights(), limitedUser)
	roles := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + f.options.Namespace + "/roles"
	for i, right := range Rights() {
		others := slices.Delete(Rights(), i, i+1)
		f.cluster.Ask(t, http.MethodPut, roles+"/deployster", roleOf(others))
		kubetest.Until(t, "all rights but "+right.String(), func() (string, bool) {
			missing := checked()
			return fmt.Sprint("without ", missing), len(missing) == 1 && missing[0] == right
		})
	}
	f.cluster.Ask(t, http.MethodPut, roles+"/deployster", role(t))
	kubetest.Until(t, "all rights", func() (string, bool) {
		missing := checked()
		return fmt.Sprint("without ", missing), len(missing) == 0
	})
	if exit, _, err := runProbe(t, e, spec); err != nil || exit.Code != 3 {
		t.Errorf("with the Role: %v, %v", exit, err)
	}
	if found, err := e.Containers(t.Context(), spec.Labels); err != nil || len(found) > 0 {
		t.Errorf("with the Role: %v, %v", found, err)
	}
	if identity, err := e.Identity(t.Context()); err == nil || identity.ID != "" || identity.Context != "test" {
		t.Errorf("whoever may not ask for the namespace knows it: %+v, %v", identity, err)
	}
}

// roleOf grants rights.
func roleOf(rights []Right) map[string]any {
	var rules []any
	for _, r := range rights {
		rules = append(rules, map[string]any{"apiGroups": []string{""}, "resources": []string{r.Resource}, "verbs": []string{r.Verb}})
	}
	return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "deployster"}, "rules": rules}
}

// A Pod of a program that serves takes many requests, which is far quicker than one for each.
func TestOnePodServesManyRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	served := newEcho(100)
	begun := time.Now()
	exit, err := f.Run(t.Context(), engine.Spec{Image: f.ref, Args: []string{"cat"}}, engine.IO{Stdin: served, Stdout: served})
	must(t, err)
	whole := time.Since(begun)
	require.True(t, exit.Code == 0 && len(served.took) == 100, "%v after %d answers", exit, len(served.took))
	slices.Sort(served.took)
	t.Logf("a Pod took %s; a request %s (median of 100)", whole.Round(time.Millisecond), served.took[50].Round(10*time.Microsecond))
}

// echo sends a line when it has the one before, and notes how long that took.
type echo struct {
	next chan struct{}
	left int
	sent time.Time
	took []time.Duration
}

func newEcho(requests int) *echo {
	e := &echo{next: make(chan struct{}, 1), left: requests}
	e.next <- struct{}{}
	return e
}

// Read implements io.Reader.
func (e *echo) Read(p []byte) (int, error) {
	<-e.next
	if e.left == 0 {
		return 0, io.EOF
	}
	e.left--
	e.sent = time.Now()
	return copy(p, "a request\n"), nil
}

// Write implements io.Writer.
func (e *echo) Write(p []byte) (int, error) {
	e.took = append(e.took, time.Since(e.sent))
	e.next <- struct{}{}
	return len(p), nil
}
