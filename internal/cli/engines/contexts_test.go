package engines

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
)

// contextIn makes a context of the docker command in a directory of its configuration.
func contextIn(t *testing.T, directory, name, address string) {
	sum := sha256.Sum256([]byte(name))
	dir := filepath.Join(directory, "contexts", "meta", hex.EncodeToString(sum[:]))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	meta := fmt.Sprintf(`{"Name": %q, "Metadata": {}, "Endpoints": {"docker": {"Host": %q, "SkipTLSVerify": false}}}`, name, address)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.json"), []byte(meta), 0o600))
}

func TestAHostMayBeAContextOfTheDockerCommand(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"DOCKER_CONFIG": dir, "DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_CONTEXT": "other"}
	a := &app.App{Printer: &output.Printer{Getenv: func(name string) string { return env[name] }}}
	address := func(h inventory.Host) string { return must.Get(Address(a, h))(t) }
	unknown := func(name string) string {
		return must.Fail(Address(a, inventory.Host{Engine: inventory.Docker, Context: name})).Error()
	}

	const remedy = ": make it with `docker context create lba --docker host=ssh://USER@HOST`"
	assert.Equal(t, "there is no docker context lba in "+dir+remedy, unknown("lba"))
	contextIn(t, dir, "prod-eu", "unix:///run/prod.sock")
	assert.Equal(t, "there is no docker context lba in "+dir+", which has prod-eu"+remedy, unknown("lba"))
	contextIn(t, dir, "lab", "ssh://deploy@lab.example:2222")
	assert.Equal(t, "there is no docker context lba in "+dir+`, did you mean "lab"?`+remedy, unknown("lba"))

	assert.Equal(t, "ssh://deploy@lab.example:2222", address(inventory.Host{Engine: inventory.Docker, Context: "lab"}), "the environment names other engines")
	assert.Equal(t, "unix:///run/prod.sock", address(inventory.Host{Engine: inventory.Docker, Context: "prod-eu"}))
	assert.Equal(t, "unix:///x", address(inventory.Host{Engine: inventory.Docker, Endpoint: "unix:///x"}))
	assert.Empty(t, address(inventory.Host{Engine: inventory.OCI}))

	other := filepath.Join(dir, "contexts", "meta", "broken")
	require.NoError(t, os.MkdirAll(other, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, "meta.json"), []byte("{"), 0o600))
	assert.Equal(t, "unix:///run/prod.sock", address(inventory.Host{Engine: inventory.Docker, Context: "prod-eu"}), "a broken context spoils another")
	assert.Contains(t, unknown("nothing"), "nothing")
}

func TestAnEngineThatIsNotTheUsualOneIsNamed(t *testing.T) {
	far := engine.Info{Name: Docker, Version: "28.2", Address: "ssh://far"}
	usual := engine.Info{Name: Docker, Version: "28.2", Address: docker.DefaultHost}
	both := map[string]string{"DOCKER_HOST": "ssh://far", "DOCKER_CONTEXT": "lab"}
	for _, test := range []struct {
		info   engine.Info
		source string
		env    map[string]string
		want   string
	}{
		{usual, "the default socket", nil, ""},
		{usual, "DOCKER_HOST", both, "this acts on docker 28.2 at " + docker.DefaultHost + ": DOCKER_HOST overrides DOCKER_CONTEXT"},
		{far, "DOCKER_HOST", both, "this acts on docker 28.2 at ssh://far: DOCKER_HOST overrides DOCKER_CONTEXT"},
		{far, `context "lab"`, map[string]string{"DOCKER_CONTEXT": "lab"}, `this acts on docker 28.2 at ssh://far (from context "lab")`},
		{engine.Info{Name: OCI, Version: "1", Address: "/run"}, "", both, ""},
		{engine.Info{Name: Kubernetes, Version: "v1.32", Address: "https://c/apps"}, "", both, "this acts on kubernetes v1.32 at https://c/apps"},
	} {
		assert.Equal(t, test.want, noteOf(test.info, test.source, func(name string) string { return test.env[name] }))
	}
}
