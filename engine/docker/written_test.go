package docker

import (
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatContainersWriteBesideTheirMountsIsMeasured(t *testing.T) {
	e := open(t)
	f := loadProbe(t, e)
	labels := map[string]string{"deployster.test": t.TempDir()}
	for _, file := range []string{"/tmp/f", "/declared/f"} {
		created, err := e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
			Config:     &container.Config{Image: f.ref, Cmd: []string{"write", file, strings.Repeat("x", 100_000)}, Labels: labels, Volumes: map[string]struct{}{"/declared": {}}, NetworkDisabled: true},
			HostConfig: &container.HostConfig{NetworkMode: "none"},
		})
		require.NoError(t, err)
		defer func() {
			assert.NoError(t, e.Remove(t.Context(), created.ID))
		}()
		if _, err := e.client.ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{}); err != nil {
			t.Fatal(err)
		}
		if exit, err := e.Wait(t.Context(), created.ID); err != nil || exit.Code != 0 {
			t.Fatalf("%s, %v", exit, err)
		}
	}
	bytes, dir, err := e.Written(t.Context(), labels)
	if err != nil || bytes < 200_000 || bytes > 300_000 || !strings.HasPrefix(dir, "/") {
		t.Errorf("they have written %d bytes below %q: %v", bytes, dir, err)
	}
	if bytes, _, err = e.Written(t.Context(), map[string]string{"deployster.test": "none"}); err != nil || bytes != 0 {
		t.Errorf("those that are not there have written %d bytes: %v", bytes, err)
	}
}
