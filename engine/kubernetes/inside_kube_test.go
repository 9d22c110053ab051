//go:build kube

package kubernetes

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/engine"
)

// Deployster in a Pod uses the cluster of that, with the token of its service account and in its
// namespace. Without an account it has no token, and knows no cluster.
func TestAPodKnowsItsOwnCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	f.options.Program = f.cluster.Program()
	program, err := f.shimImage(t.Context())
	must(t, err)
	image, err := f.held(t.Context(), f.ref)
	must(t, err)
	image.pinned, image.config = program, v1.Config{Entrypoint: []string{shimPath}}
	f.remember("deployster", image)

	in := "/api/v1/namespaces/" + f.options.Namespace
	f.cluster.Create(t, in+"/serviceaccounts", map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "deployer"}})
	f.grant(t, Rights(), map[string]any{"kind": "ServiceAccount", "name": "deployer", "namespace": f.options.Namespace})
	dir := t.TempDir()
	inventory := "hosts: [{name: here, engine: kubernetes, kubernetes: {in_cluster: true, types_image: " + f.cluster.Registry + "/test/inside}}]\n"
	must(t, os.WriteFile(filepath.Join(dir, "inventory.yaml"), []byte(inventory), 0o600))
	server, err := url.Parse(f.cluster.Server)
	must(t, err)
	check := func(account string) (exit engine.Exit, said string) {
		t.Helper()
		f.options.ServiceAccount = account
		var output bytes.Buffer
		exit, err := f.Run(t.Context(), engine.Spec{
			Image: "deployster", Args: []string{"host", "check", "--inventory", "/work/inventory.yaml"}, WorkDir: "/work",
			Mounts: []engine.Mount{{Source: dir, Target: "/work", ReadOnly: true}},
			Env:    []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}, // there is no proxy for services
		}, engine.IO{Stdout: &output, Stderr: &output})
		must(t, err)
		return exit, output.String()
	}
	if exit, said := check("deployer"); exit.Code != 0 || !strings.Contains(said, "✔ kubernetes v") || !strings.Contains(said, "namespace "+f.options.Namespace) {
		t.Errorf("as a service account: %v\n%s", exit, said)
	}
	if exit, said := check(""); exit.Code != 1 || !strings.Contains(said, "this runs in no Pod that knows its cluster") {
		t.Errorf("as nobody: %v\n%s", exit, said)
	}
}
