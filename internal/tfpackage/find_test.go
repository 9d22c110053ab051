package tfpackage

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// archive is a package with a program.
func archive(t *testing.T, program string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range map[string]string{"LICENSE": "free", program: "the program"} {
		w := must.Get(z.Create(name))(t)
		require.NoError(t, must.Fail(w.Write([]byte(content))))
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// tree makes files in a directory; those whose name ends in .zip are packages.
func tree(t *testing.T, files ...string) string {
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		content := []byte("the program")
		if strings.HasSuffix(f, ".zip") {
			content = archive(t, "terraform-provider-random_v3.7.2_x5")
		}
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	return dir
}

func finder(t *testing.T) Finder {
	return Finder{OS: "linux", Arch: "amd64", HTTP: http.DefaultClient, Temp: t.TempDir()}
}

// check finds a provider, and compares it with what is wanted: its name and version, or an
// error.
func check(t *testing.T, f Finder, provider, want string) {
	p, err := f.Find(t.Context(), provider)
	got := p.Name + " " + p.Version
	if err != nil {
		got = err.Error()
	}
	assert.Contains(t, got, want, "%s is %q, want %q", provider, got, want)
	if err != nil {
		return
	}
	text, err := os.ReadFile(p.Path)
	assert.True(t, err == nil && string(text) == "the program", "%s has the program %q: %v", provider, text, err)
	assert.NoError(t, p.Close())
	left, err := os.ReadDir(f.Temp)
	assert.True(t, err == nil && len(left) == 0, "%s left %v", provider, left)
}

func TestFilesAndDirectories(t *testing.T) {
	f := finder(t)
	dir := tree(t, "terraform-provider-random", "terraform-provider-tls_v4.1.0_x5", "terraform-provider-random_3.7.2_linux_amd64.zip", "other", "terraform-provider-")
	for path, want := range map[string]string{
		"/terraform-provider-random":                       "random ",
		"/terraform-provider-random@1.0":                   "random 1.0",
		"/terraform-provider-random@":                      "after the @ there must be a version",
		"/terraform-provider-random@new":                   "after the @ there must be a version",
		"/terraform-provider-tls_v4.1.0_x5":                "tls 4.1.0",
		"/terraform-provider-random_3.7.2_linux_amd64.zip": "random 3.7.2",
		"/other":               "must be named terraform-provider-NAME",
		"/terraform-provider-": "must be named terraform-provider-NAME",
		"/nothing":             "no such file",
		"":                     "there are several versions: say which with @VERSION, or name one of",
	} {
		check(t, f, dir+path, want)
	}
	check(t, f, tree(t), "there is no file terraform-provider-* for linux/amd64")
}

func TestMirrors(t *testing.T) {
	f := finder(t)
	unpacked := tree(t,
		"registry.example.com/hashicorp/random/3.7.1/linux_amd64/terraform-provider-random_v3.7.1_x5",
		"registry.example.com/hashicorp/random/3.7.2/linux_amd64/terraform-provider-random_v3.7.2_x5",
		"registry.example.com/hashicorp/random/3.7.2/darwin_arm64/terraform-provider-random_v3.7.2_x5")
	check(t, f, unpacked+"@3.7.2", "random 3.7.2")
	check(t, f, unpacked+"@3.7.1", "random 3.7.1")
	check(t, f, unpacked+"@3.0.0", "there is no file terraform-provider-* for linux/amd64 of version 3.0.0")
	check(t, f, unpacked, "say which with @VERSION")
	packed := tree(t,
		"registry.example.com/hashicorp/random/index.json", "registry.example.com/hashicorp/random/3.7.2.json",
		"registry.example.com/hashicorp/random/terraform-provider-random_3.7.2_linux_amd64.zip",
		"registry.example.com/hashicorp/random/terraform-provider-random_3.7.2_windows_amd64.zip")
	check(t, f, packed, "random 3.7.2")
}

func TestArchivesThatAreNone(t *testing.T) {
	f := finder(t)
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{
		"terraform-provider-a_1.0.0_linux_amd64.zip": {[]byte("no archive"), "not a valid zip file"},
		"terraform-provider-b_1.0.0_linux_amd64.zip": {archive(t, "terraform-provider-other"), "has no file terraform-provider-b*"},
		"terraform-provider-c_1.0.0_linux_amd64.zip": {archive(t, "../terraform-provider-c"), "has no file terraform-provider-c*"},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, tc.content, 0o600))
		check(t, f, path, tc.want)
	}
}

// registry is one that answers with documents, by path.
func registry(t *testing.T, sum string) *httptest.Server {
	content := archive(t, "terraform-provider-random_v3.7.2_x5")
	if sum == "" {
		hash := sha256.Sum256(content)
		sum = hex.EncodeToString(hash[:])
	}
	platforms := []any{map[string]any{"os": "linux", "arch": "amd64"}}
	answers := map[string]any{
		"/.well-known/terraform.json": map[string]any{"providers.v1": "/v1/providers/"},
		"/v1/providers/hashicorp/random/versions": map[string]any{"versions": []any{
			map[string]any{"version": "3.7.2", "platforms": platforms}, map[string]any{"version": "3.10.0-beta1", "platforms": platforms},
			map[string]any{"version": "3.6.0", "platforms": platforms}, map[string]any{"version": "4.0.0", "platforms": []any{}},
			map[string]any{"version": "../x", "platforms": platforms},
		}},
		"/v1/providers/hashicorp/random/3.7.2/download/linux/amd64": map[string]any{"download_url": "/random.zip", "shasum": sum},
		"/v1/providers/hashicorp/bad/versions":                      "no document",
		"/v1/providers/hashicorp/none/versions":                     map[string]any{},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/random.zip" {
			_, _ = w.Write(content)
			return
		}
		answer, there := answers[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestRegistries(t *testing.T) {
	f := finder(t)
	f.Registry = registry(t, "").URL
	check(t, f, "hashicorp/random@3.7.2", "random 3.7.2")
	check(t, f, "random", "random 3.7.2") // the newest that is for the platform
	check(t, f, "hashicorp/random@3.7.3", "is not there: is it spelled right, and is there a package for linux/amd64?")
	check(t, f, "hashicorp/other", "is not there")
	check(t, f, "hashicorp/bad", "fetching the provider hashicorp/bad from")
	check(t, f, "hashicorp/none", "it has no version for linux/amd64")
	check(t, f, "hashicorp/../random", "is neither a file nor a directory, nor a name")
	check(t, f, "Hashi Corp/random", "is neither a file nor a directory, nor a name")
	f.Registry = registry(t, strings.Repeat("0", 64)).URL
	check(t, f, "hashicorp/random@3.7.2", "is not the one that the registry names: its SHA-256 is")
	f.Registry = registry(t, "none").URL
	check(t, f, "hashicorp/random@3.7.2", "does not say what the package must be")
	f.Registry = "ftp://example.com"
	check(t, f, "hashicorp/random", "must be an address that begins with https://")
	f.Registry = ""
	check(t, f, "hashicorp/random", "say which: --registry URL, DEPLOYSTER_TERRAFORM_REGISTRY, or HOST/hashicorp/random")
}
