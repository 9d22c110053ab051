//go:build kube

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The types that ship, as restricted Pods: one that asks something of the network, and one that
// writes to a volume.
func TestManifestsAreAppliedInACluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	program := f.cluster.Program()
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
	must(t, os.WriteFile(filepath.Join(workspace, "motd.yaml"), []byte(manifest), 0o600))
	deployster := func(args ...string) (string, error) {
		args = append(args, "--engine", "kubernetes", "--kubeconfig", f.cluster.Kubeconfig, "--namespace", f.options.Namespace, "--types-image", f.cluster.Registry+"/test/types")
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir = workspace
		command.Env = append(os.Environ(), "HOME="+workspace)
		said, err := command.CombinedOutput()
		return string(said), err
	}
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"apply", "motd.yaml", "--confirm", "NO"}, "applied: 1 changed"},
		{[]string{"plan", "motd.yaml", "--detailed-exitcode"}, "2 unchanged"},
		{[]string{"drift", "motd.yaml"}, ""},
	} {
		if said, err := deployster(step.args...); err != nil || !strings.Contains(said, step.says) {
			t.Fatalf("%q: %v\n%s", step.args, err, said)
		}
	}
	if content, err := os.ReadFile(filepath.Join(directory, "etc", "motd")); err != nil || string(content) != "Welcome.\n" {
		t.Errorf("the volume has %q, %v", content, err)
	}
	if said, err := deployster("destroy", "motd.yaml", "--confirm", "NO"); err != nil {
		t.Errorf("destroy: %v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(directory, "etc", "motd")); err == nil {
		t.Error("the file is there after it was destroyed")
	}
	if left, err := f.Containers(t.Context(), map[string]string{"deployster.run": ""}); err != nil || len(left) > 0 {
		t.Errorf("Pods are left: %v, %v", left, err)
	}
}
