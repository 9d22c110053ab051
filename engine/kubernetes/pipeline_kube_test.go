//go:build kube

package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// A pipeline deploys to two hosts of an inventory, which are a namespace of a cluster, each with
// another node.
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
	must(t, os.Mkdir(filepath.Join(workspace, "keys"), 0o700))
	kubetest.Kubeconfig(t, filepath.Join(workspace, "keys", "config"), f.cluster.Server, f.cluster.Token, "default")
	for name, content := range map[string]string{
		"inventory.yaml": inventory,
		"shop.yaml":      "pipeline: shop\nstages:\n  - name: prod\n    deploy:\n      host_groups: [{name: prod, hosts: \"attribute:stack == prod\"}]\n      steps: [{event: host-deployed, manifest: deploy.yaml}]\n",
		"deploy.yaml":    "plugs: {root: {path: \"" + source + "/{{ host }}\"}}\nresources:\n  current:\n    type: deployster/file\n    config: {path: current, content: \"{{ revision }} at {{ host }}\"}\n",
	} {
		must(t, os.WriteFile(filepath.Join(workspace, name), []byte(content), 0o600))
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
	t.Helper()
	var events corev1.EventList
	must(t, json.Unmarshal(f.cluster.Ask(t, http.MethodGet, "/api/v1/namespaces/"+f.options.Namespace+"/events", nil), &events))
	var nodes []string
	for _, e := range events.Items {
		if _, node, ok := strings.Cut(e.Message, " to "); ok && e.Reason == "Scheduled" {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
