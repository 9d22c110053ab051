package dockerdtest

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// staying is what inspect prints of a container that nobody removes: one that has ended may be
// in the hands of the engine, which removes it on its own.
const staying = `{{if not (and .HostConfig.AutoRemove (or (eq .State.Status "exited") (eq .State.Status "removing")))}}{{.Name}} {{.State.Status}}{{end}}`

// NothingLeft looks for containers with a label, as NAME=VALUE, on the engine of the environment.
func NothingLeft(t testing.TB, label string) {
	t.Helper()
	ids, err := exec.Command("docker", "ps", "--all", "--quiet", "--filter", "label="+label).Output()
	if err != nil {
		t.Fatalf("list containers: %v", err)
	}
	for _, id := range strings.Fields(string(ids)) {
		left, err := exec.Command("docker", "inspect", "--type", "container", "--format", staying, id).CombinedOutput()
		gone := err != nil && bytes.Contains(bytes.ToLower(left), []byte("no such container"))
		if !gone && len(bytes.TrimSpace(left)) > 0 {
			t.Errorf("a container is left behind: %s", bytes.TrimSpace(left))
		}
	}
}
