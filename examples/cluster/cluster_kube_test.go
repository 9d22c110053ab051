//go:build kube

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/yaml"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// paths are where the objects of a kind are made, in a namespace.
var paths = map[string]string{
	"Deployment":          "/apis/apps/v1/namespaces/%s/deployments",
	"PodDisruptionBudget": "/apis/policy/v1/namespaces/%s/poddisruptionbudgets",
	"Role":                "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles",
	"RoleBinding":         "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"Service":             "/api/v1/namespaces/%s/services",
	"ServiceAccount":      "/api/v1/namespaces/%s/serviceaccounts",
	"StatefulSet":         "/apis/apps/v1/namespaces/%s/statefulsets",
}

// site is the example in a namespace of the test cluster. There are no controllers in it, so the
// test makes the Pods that they would, and tells these where the database is.
type site struct {
	*kubetest.Cluster
	*testing.T
	namespace string
	templates map[string]corev1.PodTemplateSpec // by the name of what makes Pods
	images    map[string]string                 // those of the test, by those of the example
}

// newSite makes all objects: a member that the API server does not know is an error.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Cluster: kubetest.Shared(t), T: t, templates: map[string]corev1.PodTemplateSpec{}}
	s.namespace = s.Namespace(t, "restricted")
	s.images = map[string]string{
		"postgres:15":                            s.push("postgres", postgresImage(t)),
		"registry.example.com/deployster-server": s.push("deployster-server", serverImage(t)),
	}
	s.Create(t, s.path("secrets"), map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "postgres"}, "stringData": map[string]any{"password": "a secret"},
	})
	for _, file := range []string{"rights.yaml", "postgres.yaml", "deployster.yaml"} {
		text, err := os.ReadFile(filepath.Join("objects", file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var object map[string]any
			if err := yaml.UnmarshalStrict(document, &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			path, known := paths[fmt.Sprint(object["kind"])]
			if !known {
				t.Fatalf("%s: a %v", file, object["kind"])
			}
			s.Create(t, fmt.Sprintf(path, s.namespace)+"?fieldValidation=Strict", object)
			var maker struct {
				Metadata metav1.ObjectMeta
				Spec     struct{ Template corev1.PodTemplateSpec }
			}
			if err := yaml.Unmarshal(document, &maker); err != nil {
				t.Fatal(err)
			}
			if len(maker.Spec.Template.Spec.Containers) > 0 {
				s.templates[maker.Metadata.Name] = maker.Spec.Template
			}
		}
	}
	return s
}

// push has the nodes find an image by the name that it returns.
func (s *site) push(repository string, image v1.Image) string {
	s.Helper()
	ref, err := name.NewTag(s.Registry+"/test/"+repository+":latest", name.Insecure)
	if err == nil {
		err = remote.Write(ref, image)
	}
	if err != nil {
		s.Fatal(err)
	}
	return ref.String()
}

func serverImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := enginetest.BuildImage(enginetest.ImageSpec{
		Binary: kubetest.Shared(t).Program(), Path: "/deployster", Entrypoint: []string{"/deployster"}, Cmd: []string{"serve"}, WorkDir: "/var/lib/deployster",
	})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func (s *site) path(resource string, more ...string) string {
	return strings.Join(append([]string{"/api/v1/namespaces", s.namespace, resource}, more...), "/")
}

// start makes a Pod as the controller of a template does, which knows the database by an address.
func (s *site) start(name, template, database string, change func(*corev1.PodSpec)) {
	s.Helper()
	of := s.templates[template]
	made := of.DeepCopy()
	spec := &made.Spec
	for i := range spec.Containers {
		c := &spec.Containers[i]
		require.True(s, s.images[c.Image] != "", "the image %s is none of those that are known", c.Image)
		c.Image = s.images[c.Image]
		for _, mount := range c.VolumeMounts { // one of a claim
			if !hasVolume(spec, mount.Name) {
				spec.Volumes = append(spec.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			}
		}
	}
	if database != "" {
		spec.HostAliases = []corev1.HostAlias{{IP: database, Hostnames: []string{"postgres"}}}
	}
	if change != nil {
		change(spec)
	}
	for n, arg := range spec.Containers[0].Args {
		spec.Containers[0].Args[n] = strings.ReplaceAll(arg, "registry.example.com", s.Registry+"/test")
	}
	s.Create(s.T, s.path("pods"), corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: made.Labels}, Spec: *spec,
	})
}

func hasVolume(spec *corev1.PodSpec, name string) bool {
	for _, v := range spec.Volumes {
		if v.Name == name {
			return true
		}
	}
	return false
}

// await returns a Pod once it is as asked for.
func (s *site) await(name string, is func(corev1.Pod) bool) corev1.Pod {
	s.Helper()
	pod := kubetest.Await(s.T, s.Cluster, s.path("pods", name), "the Pod is as asked for, or has failed", func(pod corev1.Pod) bool {
		return is(pod) || pod.Status.Phase == corev1.PodFailed
	})
	if !is(pod) {
		status, _ := json.MarshalIndent(pod.Status, "", "  ")
		s.Fatalf("the Pod %s: %s\n%s", name, status, s.log(name))
	}
	return pod
}

func (s *site) log(name string) string {
	s.Helper()
	return string(s.Ask(s.T, http.MethodGet, s.path("pods", name, "log"), nil))
}

// execute is what a command prints that is executed in the container of a Pod.
func (s *site) execute(pod string, command ...string) string {
	s.Helper()
	query := url.Values{"command": command, "stdout": {"true"}, "stderr": {"true"}}
	config := &rest.Config{Host: s.Server, BearerToken: s.Token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, s.Server+s.path("pods", pod, "exec")+"?"+query.Encode())
	if err != nil {
		s.Fatal(err)
	}
	var out, failed bytes.Buffer
	if err := executor.StreamWithContext(s.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &failed}); err != nil {
		s.Fatalf("%s in %s: %v\n%s", command, pod, err, &failed)
	}
	return out.String()
}

func ready(pod corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// command is what the program prints in a Pod like those of the servers, to its end.
func (s *site) command(name, database string, change func(*corev1.PodSpec), args ...string) string {
	s.Helper()
	s.start(name, "deployster", database, func(spec *corev1.PodSpec) {
		spec.RestartPolicy = corev1.RestartPolicyNever
		spec.Containers[0].Args = args
		spec.Containers[0].ReadinessProbe, spec.Containers[0].LivenessProbe = nil, nil
		if change != nil {
			change(spec)
		}
	})
	s.await(name, func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	return s.log(name)
}

// applies has a manifest applied here, where the registry can be reached, as the service account of
// the servers: a type asks for an address of the cluster.
func (s *site) applies(address string) {
	s.Helper()
	var granted struct{ Status struct{ Token string } }
	answer := s.Ask(s.T, http.MethodPost, s.path("serviceaccounts", "deployster", "token"), map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
	if err := json.Unmarshal(answer, &granted); err != nil {
		s.Fatal(err)
	}
	dir := s.TempDir()
	kubetest.Kubeconfig(s.T, filepath.Join(dir, "kubeconfig"), s.Server, granted.Status.Token, s.namespace)
	manifest := "resources:\n  server:\n    type: deployster/http\n    config: {url: \"" + address + "\"}\n"
	if err := os.WriteFile(filepath.Join(dir, "wait.yaml"), []byte(manifest), 0o600); err != nil {
		s.Fatal(err)
	}
	program := s.Program()
	apply := exec.CommandContext(s.Context(), program, "apply", "wait.yaml", "--confirm", "NO", "--engine", "kubernetes", "--kubeconfig", "kubeconfig", "--types-image", s.Registry+"/test/deployster-types")
	apply.Dir, apply.Env = dir, append(os.Environ(), "HOME="+dir)
	if said, err := apply.CombinedOutput(); err != nil || !strings.Contains(string(said), "1 unchanged") {
		s.Errorf("apply: %v\n%s", err, said)
	}
}

// Both servers answer from the log in the database of the cluster, and one does without the other.
// Who applies has its types run as Pods, with the rights of the example alone.
func TestTheExampleRunsInACluster(t *testing.T) {
	s := newSite(t)
	s.start("postgres-0", "postgres", "", nil)
	database := s.await("postgres-0", ready).Status.PodIP
	token := regexp.MustCompile(`dpl_\S+`).FindString(s.command("token", database, nil, "token", "create", "ci", "--role", "operator"))
	require.NotEmpty(t, token, "no token was created")
	servers := []string{"deployster-1", "deployster-2"}
	for _, name := range servers {
		s.start(name, "deployster", database, func(spec *corev1.PodSpec) {
			c := &spec.Containers[0]
			c.Env = append(c.Env, corev1.EnvVar{Name: "DEPLOYSTER_TOKEN", Value: token}) // of the client that is executed there
		})
	}
	answers := func(server string) {
		t.Helper()
		s.await(server, ready)
		if said := s.execute(server, "/deployster", "log", "list", "--server", "http://127.0.0.1:7450"); !strings.Contains(said, "token-created") {
			t.Errorf("%s says\n%s", server, said)
		}
	}
	for _, name := range servers {
		answers(name)
	}

	s.applies("http://" + s.await(servers[0], ready).Status.PodIP + ":7450/readyz")

	s.Ask(t, http.MethodDelete, s.path("pods", servers[0])+"?gracePeriodSeconds=0", nil)
	answers(servers[1])
}
