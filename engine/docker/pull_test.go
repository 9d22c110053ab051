package docker

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

func TestPullPolicies(t *testing.T) {
	e := open(t)
	registry := serveRegistry(t, "", "")
	first, second := bulk(t, 1000), bulk(t, 1000)
	ref, _ := registry.push(t, "policies:tag", first)
	t.Cleanup(func() { forget(t, e, ref) })
	asked := func(f func()) bool {
		before := registry.requests.Load()
		f()
		return registry.requests.Load() > before
	}
	image := func(policy engine.PullPolicy) engine.Image {
		t.Helper()
		found, err := e.Image(t.Context(), ref, policy, nil)
		require.NoError(t, err, "policy %s", policy)
		return found
	}

	if asked(func() {
		if _, err := e.Image(t.Context(), ref, engine.PullNever, nil); !errors.Is(err, engine.ErrNoImage) {
			t.Errorf("never, and it is not there: %v; want ErrNoImage", err)
		}
	}) {
		t.Error("never asks the registry")
	}
	var pulled engine.Image
	if !asked(func() { pulled = image(engine.PullMissing) }) {
		t.Error("missing does not ask the registry for what is missing")
	}
	checkImage(t, pulled, ref, first)
	for _, policy := range []engine.PullPolicy{engine.PullMissing, engine.PullNever} {
		if asked(func() { checkImage(t, image(policy), ref, first) }) {
			t.Errorf("%s asks the registry for what is there", policy)
		}
	}

	registry.push(t, "policies:tag", second)
	checkImage(t, image(engine.PullMissing), ref, first)
	checkImage(t, image(engine.PullAlways), ref, second)
	forget(t, e, pulled.ID) // it has lost its name to the second
}

func checkImage(t *testing.T, got engine.Image, ref string, want v1.Image) {
	t.Helper()
	id, err := want.ConfigName()
	require.NoError(t, err)
	digest, err := want.Digest()
	require.NoError(t, err)
	if want := (engine.Image{Ref: ref, ID: id.String(), Digest: digest.String(), OS: "linux", Arch: "amd64"}); got != want {
		t.Errorf("image is %+v\n   want %+v", got, want)
	}
}

func TestPullByDigest(t *testing.T) {
	e := open(t)
	registry := serveRegistry(t, "", "")
	image := bulk(t, 1000)
	tag, digest := registry.push(t, "digests:tag", image)
	_, sum, _ := strings.Cut(digest, "@")
	for _, ref := range []string{digest, tag + "@" + sum} {
		t.Cleanup(func() { forget(t, e, digest) })
		for _, policy := range []engine.PullPolicy{engine.PullMissing, engine.PullAlways, engine.PullNever} {
			got, err := e.Image(t.Context(), ref, policy, nil)
			require.NoError(t, err, "%s, policy %s", ref, policy)
			checkImage(t, got, ref, image)
		}
		forget(t, e, digest)
	}

	wrong := digest[:len(digest)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(digest, "0")]
	_, err := e.Image(t.Context(), wrong, engine.PullMissing, nil)
	checkError(t, err, engine.ErrNoImage, wrong, "manifest unknown", "check name, tag and digest")
}

func TestPullReportsProgress(t *testing.T) {
	e := open(t)
	registry := serveRegistry(t, "", "")
	image := bulk(t, 4<<20)
	ref, _ := registry.push(t, "progress:tag", image)
	t.Cleanup(func() { forget(t, e, ref) })
	layers, err := image.Layers()
	require.NoError(t, err)
	var size int64
	for _, layer := range layers {
		n, err := layer.Size()
		require.NoError(t, err)
		size += n
	}

	var reports []engine.Progress
	if _, err := e.Image(t.Context(), ref, engine.PullMissing, func(p engine.Progress) { reports = append(reports, p) }); err != nil {
		t.Fatal(err)
	}
	require.True(t, len(reports) >= 3, "only %d reports: %v", len(reports), reports)
	if reports[0] != (engine.Progress{Image: ref}) {
		t.Errorf("the first report is %+v, want one that only names the image", reports[0])
	}
	if last := reports[len(reports)-1]; last != (engine.Progress{Image: ref, Current: size, Total: size}) {
		t.Errorf("the last report is %+v, want all %d bytes", last, size)
	}
	for i, p := range reports {
		assert.False(t, p.Total != 0 && p.Current > p.Total || p.Total > size, "report %d is out of bounds: %+v", i, p)
		if i > 0 && p.Current < reports[i-1].Current {
			t.Errorf("report %d goes back: %+v after %+v", i, p, reports[i-1])
		}
	}
}

// dockerConfig writes a config.json and returns its directory.
func dockerConfig(t *testing.T, content map[string]any) string {
	t.Helper()
	directory := t.TempDir()
	writeJSON(t, filepath.Join(directory, "config.json"), content)
	return directory
}

func auths(host, user, password string) map[string]any {
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return map[string]any{"auths": map[string]any{host: map[string]any{"auth": encoded}}}
}

func TestPullWithCredentials(t *testing.T) {
	registry := serveRegistry(t, "somebody", "secret:word")
	ref, _ := registry.push(t, "private:tag", bulk(t, 1000))

	// A credential helper is a program that is asked on stdin and answers on
	// stdout.
	helpers := t.TempDir()
	helper := func(name, script string) {
		file := filepath.Join(helpers, "docker-credential-"+name)
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755))
	}
	helper("right", `read host; echo "{\"ServerURL\":\"$host\",\"Username\":\"somebody\",\"Secret\":\"secret:word\"}"`)
	helper("locked", `echo "the key chain is locked"; exit 1`)
	t.Setenv("PATH", helpers+string(os.PathListSeparator)+os.Getenv("PATH"))

	for _, c := range []struct {
		name   string
		config map[string]any
		fails  []string // nil: it succeeds
	}{
		{name: "right ones in the file", config: auths(registry.host, "somebody", "secret:word")},
		{name: "a helper for this registry", config: map[string]any{"credHelpers": map[string]any{registry.host: "right"}}},
		{name: "a helper for all registries", config: map[string]any{"credsStore": "right"}},
		{name: "none", config: map[string]any{}, fails: []string{ref, "no basic auth credentials", "docker login " + registry.host}},
		{name: "those of another registry", config: auths("registry.example", "somebody", "secret:word"), fails: []string{"docker login " + registry.host}},
		{name: "wrong ones", config: auths(registry.host, "somebody", "wrong"), fails: []string{ref, "does not accept the credentials", "docker login " + registry.host}},
		{name: "a helper that fails", config: map[string]any{"credsStore": "locked"}, fails: []string{ref, registry.host, "the key chain is locked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := openWith(t, Options{ConfigDir: dockerConfig(t, c.config)})
			t.Cleanup(func() { forget(t, e, ref) })
			_, err := e.Image(t.Context(), ref, engine.PullMissing, nil)
			if c.fails == nil {
				require.NoError(t, err)
				return
			}
			checkError(t, err, nil, c.fails...)
			if strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestPullFails(t *testing.T) {
	e := open(t)
	registry := serveRegistry(t, "", "")
	registry.push(t, "there:tag", bulk(t, 100))
	foreign := registry.pushIndex(t, "foreign:tag", bulk(t, 100), v1.Platform{OS: "linux", Architecture: "s390x"})
	for _, c := range []struct {
		name, ref string
		says      []string
	}{
		{"no such tag", registry.host + "/there:other", []string{"check name, tag and digest", registry.host}},
		{"no such repository", registry.host + "/missing:tag", []string{"check name, tag and digest", registry.host}},
		{"nobody listens", "127.0.0.1:1/there:tag", []string{"connection refused", "registry 127.0.0.1:1 cannot be reached"}},
		{"no such registry", "registry.invalid/there:tag", []string{"registry registry.invalid cannot be reached", "check the registry's name"}},
		{"another platform", foreign, []string{"no matching manifest", "no variant of it for the engine's platform"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := e.Image(t.Context(), c.ref, engine.PullMissing, nil)
			checkError(t, err, engine.ErrNoImage, append(c.says, c.ref)...)
			unreachable := errors.As(err, new(*engine.UnreachableError))
			if unreachable != strings.Contains(err.Error(), "cannot be reached") || unreachable == strings.Contains(err.Error(), "no such image") {
				t.Errorf("it says that there is no such image, which nobody knows, or not that there is none: %v", err)
			}
		})
	}
	_, err := e.Image(t.Context(), "Not A Reference", engine.PullMissing, nil)
	checkError(t, err, nil, "Not A Reference", "invalid reference format")
}

// checkError wants an error that is target (nil: any) and says the texts.
func checkError(t *testing.T, err, target error, texts ...string) {
	t.Helper()
	require.Error(t, err, "no error, want one that says %q", texts)
	assert.False(t, target != nil && !errors.Is(err, target), "error %q is not %q", err, target)
	for _, text := range texts {
		assert.Contains(t, err.Error(), text, "error %q does not say %q", err, text)
	}
}
