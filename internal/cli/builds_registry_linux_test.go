package cli_test

import (
	"archive/tar"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
)

// inRegistry has what is built pushed to a registry on this machine, signed, and returns the
// repository and the public key.
func (m *makers) inRegistry() (repository string, public ed25519.PublicKey) {
	m.Helper()
	m.Setenv("DOCKER_CONFIG", m.dir)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	m.Cleanup(server.Close)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(m, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(m, err)
	m.write("build.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	repository = strings.TrimPrefix(server.URL, "http://") + "/base"
	text, err := os.ReadFile(filepath.Join(m.dir, "packages.yaml"))
	require.NoError(m, err)
	m.write("packages.yaml", "artifacts: "+repository+string(text))
	return repository, public
}

// finished are how the jobs of a group ended that have finished.
func (m *makers) finished(group string) map[int]record.Finished {
	m.Helper()
	all := map[int]record.Finished{}
	for _, e := range m.events() {
		if id, job, _ := record.Parse(e.Target); id == group && e.Name == record.JobFinished {
			all[job] = record.Decode[record.Finished](e)
		}
	}
	return all
}

// pulled is what another client of registries finds under a reference: the files of the layer.
func pulled(t *testing.T, reference string) map[string]string {
	t.Helper()
	layers, err := imageAt(t, reference).Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%s has %d layers: %v", reference, len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	files := map[string]string{}
	for in := tar.NewReader(content); ; {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		files[entry.Name] = string(text)
	}
}

func imageAt(t *testing.T, reference string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(reference)
	require.NoError(t, err)
	image, err := remote.Image(ref)
	require.NoError(t, err)
	return image
}

// signed is the statement that is signed of an artifact, where cosign looks for it, checked
// with nothing but the public key.
func signed(t *testing.T, reference string, public ed25519.PublicKey) (statement struct {
	Subject   []struct{ Digest map[string]string }
	Predicate struct {
		BuildDefinition struct{ ExternalParameters struct{ Package string } }
	}
}) {
	t.Helper()
	at, digest, _ := strings.Cut(reference, "@")
	layers, err := imageAt(t, at+":"+strings.Replace(digest, ":", "-", 1)+".att").Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("there are %d attestations of %s: %v", len(layers), reference, err)
	}
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	var envelope struct {
		PayloadType string
		Payload     []byte
		Signatures  []struct{ Sig []byte }
	}
	if err := json.NewDecoder(content).Decode(&envelope); err != nil || len(envelope.Signatures) != 1 {
		t.Fatalf("%+v: %v", envelope, err)
	}
	text := fmt.Sprintf("DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(envelope.Payload), envelope.Payload)
	if !ed25519.Verify(public, []byte(text), envelope.Signatures[0].Sig) {
		t.Errorf("the signature of what is said of %s is wrong", reference)
	}
	require.NoError(t, json.Unmarshal(envelope.Payload, &statement))
	return statement
}

// What is built is pushed with its signed provenance, so that another client reads and checks
// it; what is altered here is built again, and is the same; and a workspace that has nothing
// uses what was released there.
func TestWhatIsBuiltIsInARegistryForOthers(t *testing.T) {
	m := newOCIMakers(t)
	repository, public := m.inRegistry()
	m.submit()
	m.must("run", "--until-idle", "--sign-key", "build.key")
	built := m.finished("base-1")
	require.Len(t, built, 8, "of 8 jobs there are %v", built)
	for job, f := range built {
		assert.Equal(t, repository+"@"+f.Artifact, f.Pushed, "job %d is at %q", job, f.Pushed)
		if made := pulled(t, f.Pushed)["made"]; !strings.HasPrefix(made, f.Metadata["MADE"]) || len(made) != 65 {
			t.Errorf("job %d is there with %q, and said %v", job, made, f.Metadata)
		}
		if s := signed(t, f.Pushed, public); len(s.Subject) != 1 || "sha256:"+s.Subject[0].Digest["sha256"] != f.Artifact || s.Predicate.BuildDefinition.ExternalParameters.Package == "" {
			t.Errorf("of job %d is said %+v", job, s)
		}
	}

	m.alter(built[1].Artifact)
	m.submit()
	m.must("run", "--until-idle", "--sign-key", "build.key")
	again := m.finished("base-2")
	for job, f := range again {
		if f.Artifact != built[job].Artifact || f.Pushed != built[job].Pushed || (job == 1) != (f.Reused == "") {
			t.Errorf("job %d is %+v", job, f)
		}
	}
	if len(again) != 8 || m.count("base-2", record.JobLost) != 1 {
		t.Errorf("of 8 jobs there are %v, and %d were lost", again, m.count("base-2", record.JobLost))
	}

	other := newMakers(t, m.flags...)
	other.write("packages.yaml", fmt.Sprintf("group: apps\nartifacts: %s\njob: {image: %q, args: [\"{{ package.name }}\"], network: none}\npackages:\n  glibc: {released: {artifact: %q}}\n  app: {build: [glibc]}\n",
		repository, maker, built[1].Artifact))
	other.submit("--touched", "app")
	other.must("run", "--until-idle")
	alone := other.finished("apps-1")
	other.write("packages.yaml", fmt.Sprintf("group: apps\njob: {image: %q, args: [app], network: none}\npackages:\n  app: {}\n", maker))
	other.submit()
	other.must("run", "--until-idle")
	if without := other.finished("apps-2"); len(alone) != 1 || len(without) != 1 || alone[1].Artifact == without[1].Artifact {
		t.Errorf("with what was released it is %v, without %v", alone, without)
	}
}

// alter changes an artifact on the disk, as nobody may.
func (m *makers) alter(digest string) {
	m.Helper()
	sum := strings.TrimPrefix(digest, "sha256:")
	blobs := filepath.Join(m.dir, ".deployster/artifacts/blobs/sha256")
	var manifest struct{ Layers []struct{ Digest string } }
	text, err := os.ReadFile(filepath.Join(blobs, sum))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	require.NoError(m, err)
	layer := filepath.Join(blobs, strings.TrimPrefix(manifest.Layers[0].Digest, "sha256:"))
	content, err := os.ReadFile(layer)
	require.NoError(m, err)
	content[600] ^= 1
	require.NoError(m, os.WriteFile(layer, content, 0o600))
}
