package build

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/provenance"
	"github.com/deployster-go/deployster/internal/registrytest"
)

func must(t *testing.T, err error) { require.NoError(t, err) }

// A job that was done leaves a statement beside the log, and one beside what is pushed that
// whoever has the public key verifies.
func TestHowAnArtifactWasMadeIsKeptAndAttached(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	registry := registrytest.Serve(t, new(registrytest.Registry))
	dir := t.TempDir()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	keyFile := filepath.Join(dir, "build.key")
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))

	store := artifacts.In(filepath.Join(dir, "artifacts"))
	out := t.TempDir()
	must(t, os.WriteFile(filepath.Join(out, "gcc"), []byte("program"), 0o700))
	made, err := store.Collect(t.Context(), out, artifacts.Limits{})
	must(t, err)
	digest := "sha256:" + strings.Repeat("a", 64)
	done := jobs.Made{
		Task:     build.Task{Group: "base-7", Job: 3, Attempt: 1, Package: "gcc", Version: "9.1", Worker: "local", Commit: strings.Repeat("1", 40), Uses: []build.Dependency{{Package: "make", Artifact: digest}, {Package: "tar"}}},
		Recipe:   recipe.Recipe{Image: recipe.Image{Image: "toolchain:1"}, Args: []string{"make"}, Artifact: digest},
		Artifact: made, Began: time.Now(), End: time.Now(), Engine: "oci 1", Image: engine.Image{ID: digest, OS: "linux", Arch: "amd64"}, Metadata: map[string]string{"tests": "12"},
	}
	for _, signKey := range []string{"", keyFile} {
		s, err := newStatements(objects.In(filepath.Join(dir, "objects"), nil), "1.2.3", signKey)
		must(t, err)
		hash, err := s.keep(t.Context(), done)
		must(t, err)
		kept, err := s.objects.Load(hash)
		must(t, err)
		statement, err := provenance.Decode(kept)
		must(t, err)
		if d := statement.Predicate.BuildDefinition; "sha256:"+statement.Subject[0].Digest["sha256"] != made.Digest || len(d.ResolvedDependencies) != 3 || d.InternalParameters.WorkspaceCommit != strings.Repeat("1", 40) || d.InternalParameters.Platform != "linux/amd64" || !strings.Contains(string(d.ExternalParameters.Recipe), `"toolchain:1"`) {
			t.Errorf("it says %s", kept)
		}
		for exact, commits := range map[bool]int{true: 1, false: 0} {
			of := done
			of.Task.Source = &record.Source{Repository: "https://example.org/base.git", Commit: strings.Repeat("1", 40), Exact: exact}
			other, err := s.keep(t.Context(), of)
			must(t, err)
			text, err := s.objects.Load(other)
			must(t, err)
			assert.Equal(t, commits, strings.Count(string(text), `"gitCommit"`), "of a commit, exact %t, it says %s", exact, text)
		}
		ref, err := store.Push(t.Context(), made.Digest, registry.Host+"/base", "gcc", nil)
		must(t, err)
		for range 2 {
			must(t, s.attach(t.Context(), ref, hash))
		}
		index, err := remote.Referrers(reference(t, ref))
		must(t, err)
		list, err := index.IndexManifest()
		must(t, err)
		want := 1
		if signKey != "" {
			want = 2
			envelope := layerOf(t, reference(t, ref).Context().Tag(strings.Replace(made.Digest, ":", "-", 1)+".att"))
			verified, err := provenance.Verify(t.Context(), envelope, key.Public())
			assert.True(t, err == nil && verified.Subject[0].Name == "gcc", "signed is %s: %v", envelope, err)
		}
		assert.Len(t, list.Manifests, want, "beside")
	}
}

func reference(t *testing.T, text string) name.Digest {
	ref, err := name.NewDigest(text)
	must(t, err)
	return ref
}

func layerOf(t *testing.T, ref name.Reference) []byte {
	image, err := remote.Image(ref)
	must(t, err)
	layers, err := image.Layers()
	must(t, err)
	content, err := layers[0].Compressed()
	must(t, err)
	text, err := io.ReadAll(content)
	must(t, err)
	return text
}
