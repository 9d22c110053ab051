//go:build kube

package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/must"
)

func TestKubernetesPassesTheSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Baseline)
	enginetest.Run(t, func(*testing.T) engine.Engine { return f.Engine }, enginetest.Images{
		Probe: f.ref, Tar: f.tar,
		NoLimits: true, OneNetwork: true, Supervised: true, Unkept: true, HeldRuns: true, Works: true,
		Writable: f.volume,
		Leave:    f.leave,
		Caller:   func(t *testing.T, order string) *exec.Cmd { return f.caller(t, order) },
	})
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	class := ""
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: space()},
		},
	}
}

func newVolume(name, directory string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: space(),
			ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: directory}},
		},
	}
}

func space() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

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
	self := must.Get(os.Executable())(t)
	command := exec.CommandContext(t.Context(), self, append(f.words, order)...)
	command.Env = append(os.Environ(), actAs+"=die")
	return command
}

// make makes a Pod with which nobody speaks yet.
func (f *fixture) make(t *testing.T, labels map[string]string) *run {
	image := must.Get(f.held(t.Context(), f.ref))(t)
	shim := must.Get(f.shimImage(t.Context()))(t)
	p := must.Get(newPlan(engine.Spec{Image: f.ref, Args: []string{"read-exit", "7"}, Labels: labels}, image, shim, f.idle, f.life))(t)
	pod := must.Get(p.pod(f.options))(t)
	created := must.Get(f.create(t.Context(), pod))(t)
	return newRun(f.Engine, p, created.Name, engine.IO{}, func(error) {})
}

// leave starts a Pod as a crashed run leaves it.
func (f *fixture) leave(t *testing.T, labels map[string]string) (id string, end func()) {
	t.Helper()
	r := f.make(t, labels)
	release := make(chan struct{})
	attached := make(chan error, 1)
	reading := make(chan struct{})
	r.input = newReplay(blocked{release})
	r.streams = engine.IO{Stdout: writerFunc(func(p []byte) (int, error) { close(reading); return len(p), nil })}
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

func (b blocked) Read([]byte) (int, error) { <-b.until; return 0, io.EOF }

func (f *fixture) volume(t *testing.T) (source, directory string) {
	in := f.options.Namespace
	directory = t.TempDir()
	require.NoError(t, os.Chmod(directory, 0o777))
	name := "claim-" + hash(directory)
	var claim corev1.PersistentVolumeClaim
	require.NoError(t, f.api.client.Post().Namespace(in).Resource("persistentvolumeclaims").Body(newClaim(name)).Do(t.Context()).Into(&claim))
	var volume corev1.PersistentVolume
	require.NoError(t, f.api.client.Post().Resource("persistentvolumes").Body(newVolume(name, directory, &claim)).Do(t.Context()).Into(&volume))
	volume.Status.Phase, claim.Status.Phase = corev1.VolumeBound, corev1.ClaimBound
	require.NoError(t, f.api.client.Put().Resource("persistentvolumes").Name(name).SubResource("status").Body(&volume).Do(t.Context()).Error())
	require.NoError(t, f.api.client.Put().Namespace(in).Resource("persistentvolumeclaims").Name(name).SubResource("status").Body(&claim).Do(t.Context()).Error())
	return Claim + name, directory
}

func (f *fixture) limited(t *testing.T) Options {
	o := f.options
	o.Kubeconfig, o.Context = filepath.Join(t.TempDir(), "kubeconfig"), ""
	kubetest.Kubeconfig(t, o.Kubeconfig, f.cluster.Server, f.cluster.Limited, o.Namespace)
	return o
}

func runProbe(t *testing.T, e *Engine, spec engine.Spec) (exit engine.Exit, stdout string, err error) {
	var out bytes.Buffer
	exit, err = e.Run(t.Context(), spec, engine.IO{Stdout: &out})
	return exit, out.String(), err
}

func TestPodsKeepToTheRestrictedStandard(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	e := f.Engine
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("for its owner"), 0o600))
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
	require.NoError(t, err)
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
	e := must.Get(Open(t.Context(), f.limited(t)))(t)
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
		found := must.Get(e.Check(t.Context()))(t)
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
	if identity, err := e.Identity(t.Context()); err != nil || identity.ID != "" || identity.Context != "test" {
		t.Errorf("whoever may not ask for the namespace knows it: %+v, %v", identity, err)
	}
}

func roleOf(rights []Right) map[string]any {
	var rules []any
	for _, r := range rights {
		rules = append(rules, map[string]any{"apiGroups": []string{""}, "resources": []string{r.Resource}, "verbs": []string{r.Verb}})
	}
	return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "deployster"}, "rules": rules}
}

func TestOnePodServesManyRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	served := newEcho(100)
	begun := time.Now()
	exit := must.Get(f.Run(t.Context(), engine.Spec{Image: f.ref, Args: []string{"cat"}}, engine.IO{Stdin: served, Stdout: served}))(t)
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

func (e *echo) Read(p []byte) (int, error) {
	<-e.next
	if e.left == 0 {
		return 0, io.EOF
	}
	e.left--
	e.sent = time.Now()
	return copy(p, "a request\n"), nil
}

func (e *echo) Write(p []byte) (int, error) {
	e.took = append(e.took, time.Since(e.sent))
	e.next <- struct{}{}
	return len(p), nil
}

// A Pod whose claim nobody has made would wait for it; whoever runs it is told soon.
func TestAClaimThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout/2+time.Minute)
	defer cancel()
	_, err := f.Run(ctx, engine.Spec{Image: f.ref, Args: []string{"read-exit", "7"}, Mounts: []engine.Mount{{Source: Claim + "nobodys/below", Target: "/data"}}}, engine.IO{})
	if err == nil || !strings.Contains(err.Error(), `persistentvolumeclaim "nobodys" not found in namespace `+f.options.Namespace+": make it") || !errors.As(err, new(*engine.SpecError)) {
		t.Errorf("it ended with %v", err)
	}
}

func (f *fixture) goTo(node string) {
	f.options.NodeSelector, f.options.Tolerations = map[string]string{corev1.LabelHostname: node}, []string{kubetest.Taint}
}

// Pods go to the node that is selected. What becomes of them when that is lost nobody knows: who
// runs them is told so, and waits for nothing that may never come.
func TestANodeIsSelectedAndLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	f.cluster.HoldApart(t)
	f.unconfirmed, f.lostFor = 20*time.Second, 20*time.Second
	begin := func(node string) underway {
		t.Helper()
		f.goTo(node)
		u := f.begin(t)
		if pod, err := f.api.get(t.Context(), u.pod); err != nil || pod.Spec.NodeName != node {
			t.Errorf("a Pod for %s is on %s, %v", node, pod.Spec.NodeName, err)
		}
		return u
	}
	fails := func(u underway, node string, is error, words string) {
		t.Helper()
		err := <-u.ended
		for _, want := range []string{"Pod " + u.pod + " on node " + node, words, "may have done all of its work, or part of it"} {
			if err == nil || !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	first, removed, drained, cut := begin("node-1"), begin(kubetest.Apart), begin(kubetest.Apart), begin(kubetest.Apart)
	require.NoError(t, f.api.delete(t.Context(), first.pod, 1))
	fails(first, "node-1", nil, "removed by somebody else")

	// The network of a node is gone: the cluster gives its Pods up, or an administrator does.
	thaw := f.cluster.FreezeNode(t)
	require.NoError(t, f.api.delete(t.Context(), removed.pod, 0))
	require.NoError(t, f.api.delete(t.Context(), drained.pod, 1))
	fails(removed, kubetest.Apart, nil, "removed by somebody else")
	fails(drained, kubetest.Apart, engine.ErrUnavailable, "does not confirm")
	thaw()
	patient := *f.Cluster // as a busy node needs a while
	patient.unconfirmed = confirmation
	require.NoError(t, patient.Remove(t.Context(), drained.pod))

	// Its kubelet is gone, and the program runs on.
	restore := f.cluster.LoseNode(t)
	fails(cut, kubetest.Apart, engine.ErrUnavailable, "has not said") // which leaves the Pod to others
	for what, err := range map[string]error{"remove": f.Remove(t.Context(), cut.pod), "wait": func() error { _, err := f.Wait(t.Context(), cut.pod); return err }()} {
		if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "kubectl delete pod "+cut.pod+" --namespace "+f.options.Namespace+" --force") {
			t.Errorf("%s what is left there: %v", what, err)
		}
	}
	require.NoError(t, f.api.delete(t.Context(), cut.pod, 0))
	if left, err := f.Containers(t.Context(), nil); err != nil || slices.ContainsFunc(left, func(c engine.Container) bool { return c.ID == cut.pod }) {
		t.Errorf("what is given up is left: %v, %v", left, err)
	}
	restore()
	if exit, _, err := runProbe(t, f.Engine, engine.Spec{Image: f.ref, Args: []string{"exit", "3"}}); err != nil || exit.Code != 3 {
		t.Errorf("a run on the node that is back: %v, %v", exit, err)
	}
}

// bound gives the namespace a quota, as its controller has it when nothing is used.
func (f *fixture) bound(t *testing.T, name string, hard map[string]string) {
	used := map[string]string{}
	for resource := range hard {
		used[resource] = "0"
	}
	quotas := "/api/v1/namespaces/" + f.options.Namespace + "/resourcequotas"
	quota := map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": name}, "spec": map[string]any{"hard": hard}}
	f.cluster.Create(t, quotas, quota)
	quota["status"] = map[string]any{"hard": hard, "used": used}
	f.cluster.Ask(t, http.MethodPut, quotas+"/"+name+"/status", quota)
}

// checked waits until a check says something; "" is that all is well.
func (f *fixture) checked(t *testing.T, wanted string) {
	kubetest.Until(t, "a check that says: "+wanted, func() (string, bool) {
		found := must.Get(f.Check(t.Context()))(t)
		if err := found.Err(); err != nil {
			return err.Error(), wanted != "" && strings.Contains(err.Error(), wanted)
		}
		return "all is well", wanted == ""
	})
}

// Namespaces with quotas are the usual ones: a Pod says what it needs, or it is said what to do.
func TestPodsRunInANamespaceWithAQuota(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	spec := engine.Spec{Image: f.ref, Args: []string{"exit", "3"}, Memory: 64 << 20}
	f.bound(t, "memory", map[string]string{"limits.memory": "1Gi", "requests.memory": "1Gi"})
	f.checked(t, "must specify limits.memory for: main,prepare; requests.memory for: main,prepare; make a LimitRange in namespace "+f.options.Namespace)
	if exit, _, err := runProbe(t, f.Engine, spec); err != nil || exit.Code != 3 {
		t.Errorf("a Pod that says how much memory it needs: %v, %v", exit, err)
	}
	f.bound(t, "processors", map[string]string{"requests.cpu": "2", "limits.cpu": "4"})
	f.checked(t, "must specify limits.cpu for: main,prepare; requests.cpu for: main,prepare")
	if _, _, err := runProbe(t, f.Engine, spec); err == nil || !strings.Contains(err.Error(), "make a LimitRange in namespace "+f.options.Namespace) {
		t.Errorf("a Pod that does not say how many processors it needs: %v", err)
	}
	f.cluster.Create(t, "/api/v1/namespaces/"+f.options.Namespace+"/limitranges", documented(t, "LimitRange"))
	f.checked(t, "")
	for _, memory := range []int64{0, spec.Memory} {
		spec.Memory = memory
		if exit, _, err := runProbe(t, f.Engine, spec); err != nil || exit.Code != 3 {
			t.Errorf("with the LimitRange, and %d bytes: %v, %v", memory, exit, err)
		}
	}
	spec.Memory = 2 << 30
	if _, _, err := runProbe(t, f.Engine, spec); err == nil || !strings.Contains(err.Error(), "exceeded quota: memory") || !strings.Contains(err.Error(), "name less --memory") {
		t.Errorf("a Pod that needs more than there is: %v", err)
	}
}
