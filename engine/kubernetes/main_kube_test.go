//go:build kube

package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// The test binary stands in for a caller that is killed when this variable says "die". Its
// arguments are then options of an engine, and an order.
const actAs = "DEPLOYSTER_TEST_ACT_AS"

func TestMain(m *testing.M) {
	if os.Getenv(actAs) == "die" {
		e, err := Open(context.Background(), optionsOf(os.Args[1:6]))
		if err == nil {
			e.idle = 20 * time.Second
			err = enginetest.Die(e, os.Args[6])
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// optionsOf are the options of an engine, as words: a kubeconfig, a namespace, the program, the
// repository and the level of security.
func optionsOf(words []string) Options {
	return Options{
		Kubeconfig: words[0], Namespace: words[1], Program: words[2], Repository: words[3], PodSecurity: PodSecurity(words[4]),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Env: os.Getenv,
	}
}

// fixture is an engine of a namespace of the test cluster, with the image of the suite's probe.
type fixture struct {
	*Engine
	cluster *kubetest.Cluster
	words   []string // see optionsOf
	ref     string
	tar     []byte
}

// newFixture makes a namespace that enforces the level to which Pods keep.
func newFixture(t testing.TB, level PodSecurity) *fixture {
	t.Helper()
	cluster := kubetest.Shared(t)
	shim := enginetest.Binary(t, "github.com/deployster-go/deployster/engine/docker/testdata/entrypoint", runtime.GOARCH)
	f := &fixture{cluster: cluster, words: []string{cluster.Kubeconfig, cluster.Namespace(t, string(level)), shim, cluster.Registry + "/test/deployster", string(level)}}
	f.ref = "probe:" + hash(t.Name())
	var err error
	if f.Engine, err = Open(t.Context(), optionsOf(f.words)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if f.tar, err = enginetest.ImageTar(f.ref, enginetest.ProbeImage(t, "")); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, f.Load(t.Context(), bytes.NewReader(f.tar)))
	return f
}

// caller is a process of this test binary that carries an order of the suite out.
func (f *fixture) caller(t *testing.T, order string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self, append(f.words, order)...)
	command.Env = append(os.Environ(), actAs+"=die")
	return command
}

// make makes a Pod with which nobody speaks yet.
func (f *fixture) make(t *testing.T, labels map[string]string) *run {
	t.Helper()
	image, err := f.held(t.Context(), f.ref)
	must(t, err)
	shim, err := f.shimImage(t.Context())
	must(t, err)
	p, err := newPlan(engine.Spec{Image: f.ref, Args: []string{"read-exit", "7"}, Labels: labels}, image, shim, f.idle, f.life)
	must(t, err)
	pod, err := p.pod(f.options)
	must(t, err)
	created, err := f.create(t.Context(), pod)
	must(t, err)
	return newRun(f.Engine, p, created.Name, engine.IO{}, func(error) {})
}

// leave starts a Pod as a crashed run leaves it.
func (f *fixture) leave(t *testing.T, labels map[string]string) (id string, end func()) {
	t.Helper()
	r := f.make(t, labels)
	release := make(chan struct{})
	attached := make(chan error, 1)
	reading := make(chan struct{})
	r.streams = engine.IO{Stdin: blocked{release}, Stdout: writerFunc(func(p []byte) (int, error) { close(reading); return len(p), nil })}
	go func() {
		go r.watchOver(t.Context())
		_, err := r.perform(t.Context())
		attached <- err
	}()
	select {
	case <-reading:
	case err := <-attached:
		t.Fatalf("what is to be left behind ended: %v", err)
	}
	return r.pod, func() { close(release) }
}

// blocked is an input that ends when a channel is closed.
type blocked struct{ until chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	<-b.until
	return 0, io.EOF
}

// volume makes a claim for a volume that is a directory of this machine.
func (f *fixture) volume(t *testing.T) (source, directory string) {
	t.Helper()
	in := f.options.Namespace
	directory = t.TempDir()
	require.NoError(t, os.Chmod(directory, 0o777))
	name := "claim-" + hash(directory)
	var claim corev1.PersistentVolumeClaim
	must(t, f.api.client.Post().Namespace(in).Resource("persistentvolumeclaims").Body(newClaim(name)).Do(t.Context()).Into(&claim))
	var volume corev1.PersistentVolume
	must(t, f.api.client.Post().Resource("persistentvolumes").Body(newVolume(name, directory, &claim)).Do(t.Context()).Into(&volume))
	volume.Status.Phase, claim.Status.Phase = corev1.VolumeBound, corev1.ClaimBound
	must(t, f.api.client.Put().Resource("persistentvolumes").Name(name).SubResource("status").Body(&volume).Do(t.Context()).Error())
	must(t, f.api.client.Put().Namespace(in).Resource("persistentvolumeclaims").Name(name).SubResource("status").Body(&claim).Do(t.Context()).Error())
	return Claim + name, directory
}

func must(t testing.TB, err error) {
	t.Helper()
	require.NoError(t, err)
}

// limited are the options of the user who may do nothing yet.
func (f *fixture) limited(t *testing.T) Options {
	t.Helper()
	o := f.options
	o.Kubeconfig, o.Context = filepath.Join(t.TempDir(), "kubeconfig"), ""
	kubetest.Kubeconfig(t, o.Kubeconfig, f.cluster.Server, f.cluster.Limited, o.Namespace)
	return o
}
