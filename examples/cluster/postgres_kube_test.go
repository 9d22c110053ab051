//go:build kube

package cluster

import (
	"bytes"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// entrypoint does what that of the image postgres does, so far as the example asks for it.
const entrypoint = `#!/bin/sh
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" >/var/run/postgresql/password
  initdb --no-sync --username="$POSTGRES_USER" --pwfile=/var/run/postgresql/password --auth=scram-sha-256 --no-locale --encoding=UTF8 "$PGDATA"
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_USER" | postgres --single -D "$PGDATA" postgres
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
`

// postgresImage is an image of the PostgreSQL of this machine.
func postgresImage(t *testing.T) v1.Image {
	t.Helper()
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.True(t, err == nil && len(installed) != 0, "there is no PostgreSQL below /usr/lib/postgresql: apt-get install postgresql")
	bin := installed[len(installed)-1]
	version := filepath.Base(filepath.Dir(bin))
	share := "/usr/share/postgresql/" + version
	files := map[string]bool{"/bin/sh": true, "/usr/share/zoneinfo/UTC": true, share: true}
	for _, program := range []string{"initdb", "postgres", "pg_isready"} {
		files[filepath.Join(bin, program)] = true
	}
	for _, library := range []string{"dict_snowball.so", "plpgsql.so", "libpqwalreceiver.so", "utf8_and_iso8859_1.so"} {
		files[filepath.Join(filepath.Dir(bin), "lib", library)] = true
	}
	loaded := regexp.MustCompile(`(/\S+) \(0x`)
	for _, file := range slices.Collect(maps.Keys(files)) {
		if strings.HasPrefix(file, "/usr/share/") {
			continue
		}
		said, err := exec.Command("ldd", file).Output()
		require.NoError(t, err, "ldd %s: %v", file, err)
		for _, m := range loaded.FindAllStringSubmatch(string(said), -1) {
			files[m[1]] = true
		}
	}
	root := t.TempDir()
	for name, content := range map[string]string{
		"entrypoint": entrypoint, "etc/passwd": "postgres:x:999:999::/:/bin/sh\n", "etc/group": "postgres:x:999:\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil { //nolint:gosec // others run it
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o755); err != nil { //nolint:gosec // others run it
			t.Fatal(err)
		}
	}
	var args []string
	for _, file := range slices.Sorted(maps.Keys(files)) {
		args = append(args, strings.TrimPrefix(file, "/"))
	}
	args = append([]string{"--create", "--dereference", "--file", "-", "--mode", "a+rX", "--directory", root, "entrypoint", "etc", "--directory", "/"}, args...)
	content, err := exec.Command("tar", args...).Output()
	require.NoError(t, err, "tar: %v", err)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	image, err = mutate.Config(image, v1.Config{Entrypoint: []string{"/entrypoint"}, Env: []string{"PATH=" + bin + ":/bin", "TZ=UTC"}})
	if err != nil {
		t.Fatal(err)
	}
	return image
}
