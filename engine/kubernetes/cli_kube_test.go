//go:build kube

package kubernetes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/must"
)

// deployster runs the program in a workspace, with the options of the engine, and returns what it says.
func (f *fixture) deployster(t *testing.T, workspace string, args ...string) (string, error) {
	said, err := f.command(t, workspace, args...).CombinedOutput()
	return string(said), err
}

func (f *fixture) command(t *testing.T, workspace string, args ...string) *exec.Cmd {
	args = append(args, "--engine", "kubernetes", "--kubeconfig", f.cluster.Kubeconfig, "--namespace", f.options.Namespace, "--pod-security", string(f.options.PodSecurity))
	if !slices.Contains(args, "--types-image") {
		args = append(args, "--types-image", f.cluster.Registry+"/test/types")
	}
	command := exec.CommandContext(t.Context(), f.cluster.Program(), args...)
	command.Dir = workspace
	command.Env = append(os.Environ(), "HOME="+workspace)
	return command
}

func (f *fixture) noneLeft(t *testing.T) {
	t.Helper()
	if left, err := f.Containers(t.Context(), map[string]string{"deployster.run": ""}); err != nil || len(left) > 0 {
		t.Errorf("Pods are left: %v, %v", left, err)
	}
}

// The types that ship, as restricted Pods: one that asks something of the network, and one that writes to a volume.
func TestManifestsAreAppliedInACluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	source, directory := f.volume(t)
	workspace := t.TempDir()
	manifest := `plugs: {root: {path: "` + source + `"}}
resources:
  server:
    type: deployster/http
    config: {url: "` + f.cluster.Server + `/readyz", insecure_skip_verify: true}
  motd:
    type: deployster/file
    dependencies: {server: server}
    config: {path: etc/motd, content: "Welcome.\n", mode: "0644"}
`
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "motd.yaml"), []byte(manifest), 0o600))
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"apply", "motd.yaml", "--confirm", "NO"}, "applied: 1 changed"},
		{[]string{"plan", "motd.yaml", "--detailed-exitcode"}, "2 unchanged"},
		{[]string{"drift", "motd.yaml"}, ""},
	} {
		if said, err := f.deployster(t, workspace, step.args...); err != nil || !strings.Contains(said, step.says) || strings.Contains(said, "warning: ") {
			t.Fatalf("%q: %v\n%s", step.args, err, said)
		}
	}
	if content, err := os.ReadFile(filepath.Join(directory, "etc", "motd")); err != nil || string(content) != "Welcome.\n" {
		t.Errorf("the volume has %q, %v", content, err)
	}
	if said, err := f.deployster(t, workspace, "destroy", "motd.yaml", "--confirm", "NO"); err != nil {
		t.Errorf("destroy: %v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(directory, "etc", "motd")); err == nil {
		t.Error("the file is there after it was destroyed")
	}
	f.noneLeft(t)
}

func TestTypesReadCopiesOfTheWorkspace(t *testing.T) {
	t.Parallel()
	program := enginetest.Binary(t, "github.com/deployster-go/deployster/engine/kubernetes/testdata/publish", runtime.GOARCH)
	for level, user := range map[PodSecurity]string{Restricted: "", Baseline: "1000"} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, level)
			image := must.Get(enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/publish", Entrypoint: []string{"/publish"}, User: user}))(t)
			ref := must.Get(name.NewTag(f.cluster.Registry+"/test/publish:"+string(level), name.Insecure))(t)
			require.NoError(t, remote.Write(ref, image))
			source, directory := f.volume(t)
			workspace := t.TempDir()
			write := func(file, text string, mode os.FileMode) {
				t.Helper()
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(workspace, file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(workspace, file), []byte(text), mode))
			}
			write("pages/secret.html", "For some.\n", 0o600)
			manifest := func(config string) string {
				return `plugs: {site: {path: "` + source + `"}}
resources:
  page:
    type: ` + ref.String() + `
    config: {from: pages/secret.html` + config + `}
`
			}
			write("site.yaml", manifest(""), 0o600)
			write("noted.yaml", manifest(", note: pages/note"), 0o600)
			for _, step := range []struct {
				args, says []string
				fails      bool
			}{
				{[]string{"plan", "site.yaml"}, []string{"no such file or directory"}, true}, // without the workspace
				{[]string{"apply", "noted.yaml", "--confirm", "NO", "--copy-workspace"}, []string{"pages/note", "read-only file system"}, true},
				{[]string{"plan", "site.yaml", "--copy-workspace"}, []string{"publish pages/secret.html", "1 to change"}, false},
				{[]string{"apply", "site.yaml", "--confirm", "NO", "--copy-workspace"}, []string{"applied: 1 changed"}, false},
				{[]string{"plan", "site.yaml", "--copy-workspace", "--detailed-exitcode"}, []string{"1 unchanged"}, false},
			} {
				said, err := f.deployster(t, workspace, step.args...)
				require.True(t, (err != nil) == step.fails && !strings.Contains(said, "warning: "), "%q: %v\n%s", step.args, err, said)
				for _, text := range step.says {
					assert.Contains(t, said, text, "%q does not say %q:\n%s", step.args, text, said)
				}
			}
			if content, err := os.ReadFile(filepath.Join(directory, "page")); err != nil || string(content) != "For some.\n" {
				t.Errorf("the volume has %q, %v", content, err)
			}
			if _, err := os.Stat(filepath.Join(workspace, "pages", "note")); err == nil {
				t.Error("the type has written to the workspace")
			}
			if said, err := f.deployster(t, workspace, "destroy", "site.yaml", "--confirm", "NO", "--copy-workspace"); err != nil {
				t.Errorf("destroy: %v\n%s", err, said)
			}
			if _, err := os.Stat(filepath.Join(directory, "page")); err == nil {
				t.Error("the page is there after it was destroyed")
			}
			write("large", "", 0o600)
			require.NoError(t, os.Truncate(filepath.Join(workspace, "large"), copiedBytes+1))
			if said, err := f.deployster(t, workspace, "plan", "site.yaml", "--copy-workspace"); err == nil || !strings.Contains(said, "more than 64 MiB") || !strings.Contains(said, "leave --copy-workspace") {
				t.Errorf("a large workspace: %v\n%s", err, said)
			}
			f.noneLeft(t)
		})
	}
}

// A registry that wants to know who asks: from here it is a file of Docker's that says so, and in the cluster a Secret.
func TestTheTypesComeFromARegistryWithAPassword(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	workspace := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "ready.yaml"), []byte(`resources:
  server: {type: deployster/http, config: {url: "`+f.cluster.Server+`/readyz", insecure_skip_verify: true}}
`), 0o600))
	apply := []string{"apply", "ready.yaml", "--confirm", "NO", "--types-image", f.cluster.Private + "/test/types"}
	withSecret := append(slices.Clone(apply), "--image-pull-secret", "registry")
	refused := func(args []string, says ...string) {
		t.Helper()
		said, err := f.deployster(t, workspace, args...)
		for _, text := range says {
			assert.True(t, err != nil && strings.Contains(said, text), "%q: %v, and it does not say %q:\n%s", args, err, text, said)
		}
	}
	refused(apply, "docker login "+f.cluster.Private)
	login := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, f.cluster.Private, base64.StdEncoding.EncodeToString([]byte(kubetest.User+":"+kubetest.Password)))
	require.NoError(t, os.Mkdir(filepath.Join(workspace, ".docker"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(workspace, ".docker", "config.json"), []byte(login), 0o600))
	refused(apply, "--image-pull-secret", f.cluster.Private+"/test/types")
	refused(withSecret, "--image-pull-secret") // it is not there yet
	f.cluster.Create(t, "/api/v1/namespaces/"+f.options.Namespace+"/secrets", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "registry"}, "type": "kubernetes.io/dockerconfigjson", "stringData": map[string]string{".dockerconfigjson": login},
	})
	if said, err := f.deployster(t, workspace, withSecret...); err != nil || !strings.Contains(said, "applied: 1") {
		t.Errorf("with the Secret: %v\n%s", err, said)
	}
	f.noneLeft(t)
}

// Deployster in a Pod uses the cluster of that, with the token of its service account and in its
// namespace. Without an account it has no token, and knows no cluster.
func TestAPodKnowsItsOwnCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	f.options.Program = f.cluster.Program()
	program := must.Get(f.shimImage(t.Context()))(t)
	image := must.Get(f.held(t.Context(), f.ref))(t)
	image.pinned, image.config = program, v1.Config{Entrypoint: []string{shimPath}}
	f.remember("deployster", image)
	in := "/api/v1/namespaces/" + f.options.Namespace
	f.cluster.Create(t, in+"/serviceaccounts", map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "deployer"}})
	f.grant(t, Rights(), map[string]any{"kind": "ServiceAccount", "name": "deployer", "namespace": f.options.Namespace})
	dir := t.TempDir()
	inventory := "hosts: [{name: here, engine: kubernetes, kubernetes: {in_cluster: true, types_image: " + f.cluster.Registry + "/test/inside}}]\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "inventory.yaml"), []byte(inventory), 0o600))
	server := must.Get(url.Parse(f.cluster.Server))(t)
	check := func(account string) (exit engine.Exit, said string) {
		t.Helper()
		f.options.ServiceAccount = account
		var output bytes.Buffer
		exit, err := f.Run(t.Context(), engine.Spec{
			Image: "deployster", Args: []string{"host", "check", "--inventory", "/work/inventory.yaml"}, WorkDir: "/work",
			Mounts: []engine.Mount{{Source: dir, Target: "/work", ReadOnly: true}},
			Env:    []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}, // there is no proxy for services
		}, engine.IO{Stdout: &output, Stderr: &output})
		require.NoError(t, err)
		return exit, output.String()
	}
	if exit, said := check("deployer"); exit.Code != 0 || !strings.Contains(said, "✔ kubernetes v") || !strings.Contains(said, "namespace "+f.options.Namespace) {
		t.Errorf("as a service account: %v\n%s", exit, said)
	}
	if exit, said := check(""); exit.Code != 1 || !strings.Contains(said, "this runs in no Pod that knows its cluster") {
		t.Errorf("as nobody: %v\n%s", exit, said)
	}
}

// A pipeline deploys to two hosts of an inventory, which are a namespace of a cluster, each with another node.
func TestAPipelineDeploysToHostsThatAreNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	f.cluster.HoldApart(t)
	program := f.cluster.Program()
	source, directory := f.volume(t)
	workspace := t.TempDir()
	inventory := "hosts:\n"
	for host, node := range map[string]string{"near": "node-1", "far": kubetest.Apart} {
		inventory += fmt.Sprintf("  - name: %s\n    engine: kubernetes\n    attributes: {stack: prod}\n    kubernetes: {kubeconfig: keys/config, namespace: %s, types_image: %q, node_selector: {%s: %s}, tolerations: [%q]}\n",
			host, f.options.Namespace, f.cluster.Registry+"/test/types", corev1.LabelHostname, node, kubetest.Taint)
	}
	require.NoError(t, os.Mkdir(filepath.Join(workspace, "keys"), 0o700))
	kubetest.Kubeconfig(t, filepath.Join(workspace, "keys", "config"), f.cluster.Server, f.cluster.Token, "default")
	for name, content := range map[string]string{
		"inventory.yaml": inventory,
		"shop.yaml":      "pipeline: shop\nstages:\n  - name: prod\n    deploy:\n      host_groups: [{name: prod, hosts: \"attribute:stack == prod\"}]\n      steps: [{event: host-deployed, manifest: deploy.yaml}]\n",
		"deploy.yaml":    "plugs: {root: {path: \"" + source + "/{{ host }}\"}}\nresources:\n  current:\n    type: deployster/file\n    config: {path: current, content: \"{{ revision }} at {{ host }}\"}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(workspace, name), []byte(content), 0o600))
	}
	for _, args := range []string{"pipeline apply -f shop.yaml", "pipeline release shop 42", "pipeline run shop --until-idle"} {
		command := exec.CommandContext(t.Context(), program, strings.Fields(args)...)
		command.Dir, command.Env = workspace, append(os.Environ(), "HOME="+workspace)
		said, err := command.CombinedOutput()
		if err != nil || strings.Contains(args, "run") && !strings.Contains(string(said), "✔ pipeline-finished-successfully") {
			t.Fatalf("%s: %v\n%s", args, err, said)
		}
	}
	for _, host := range []string{"near", "far"} {
		if content, err := os.ReadFile(filepath.Join(directory, host, "current")); err != nil || string(content) != "42 at "+host {
			t.Errorf("%s has %q, %v", host, content, err)
		}
	}
	if nodes := f.scheduled(t); !slices.Equal(nodes, []string{"node-1", kubetest.Apart}) {
		t.Errorf("Pods came to the nodes %q", nodes)
	}
	if left, err := f.Containers(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("Pods are left: %v, %v", left, err)
	}
}

// scheduled are the nodes to which Pods of the namespace came.
func (f *fixture) scheduled(t *testing.T) []string {
	var events corev1.EventList
	require.NoError(t, json.Unmarshal(f.cluster.Ask(t, http.MethodGet, "/api/v1/namespaces/"+f.options.Namespace+"/events", nil), &events))
	var nodes []string
	for _, e := range events.Items {
		if _, node, ok := strings.Cut(e.Message, " to "); ok && e.Reason == "Scheduled" {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
