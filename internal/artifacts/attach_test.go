package artifacts_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/artifacts"
)

func TestAttestationsAreBesideAnArtifact(t *testing.T) {
	r := serve(t)
	a, ref := pushed(t, r)
	digest := must1(name.NewDigest(ref))
	const predicate = "https://slsa.dev/provenance/v1"
	for _, one := range []artifacts.Attestation{
		{"application/vnd.in-toto+json", predicate, []byte(`{"signed":false}`)},
		{artifacts.EnvelopeType, predicate, []byte(`{"signed":1}`)},
		{artifacts.EnvelopeType, predicate, []byte(`{"signed":2}`)},
	} {
		for range 2 {
			at, err := artifacts.Attach(t.Context(), ref, one)
			must(t, err)
			image, err := remote.Image(must1(name.NewDigest(at)))
			must(t, err)
			manifest, err := image.Manifest()
			must(t, err)
			if manifest.Subject == nil || manifest.Subject.Digest.String() != a.Digest || manifest.ArtifactType != "application/vnd.in-toto+json" || manifest.Annotations["in-toto.io/predicate-type"] != predicate {
				t.Errorf("the referrer is %+v", manifest)
			}
			assert.Equal(t, string(one.Content), contentOf(t, image, 0))
		}
	}
	index, err := remote.Referrers(digest)
	must(t, err)
	list, err := index.IndexManifest()
	must(t, err)
	assert.True(t, len(list.Manifests) == 3, "listed are %+v", list.Manifests)
	signed, err := remote.Image(digest.Context().Tag(strings.Replace(a.Digest, ":", "-", 1) + ".att"))
	must(t, err)
	manifest, err := signed.Manifest()
	must(t, err)
	if len(manifest.Layers) != 2 || manifest.Layers[1].Annotations["predicateType"] != predicate || contentOf(t, signed, 1) != `{"signed":2}` {
		t.Errorf("at the tag of cosign are %+v", manifest.Layers)
	}
}

func contentOf(t *testing.T, image v1.Image, layer int) string {
	t.Helper()
	layers, err := image.Layers()
	must(t, err)
	content, err := layers[layer].Compressed()
	must(t, err)
	text, err := io.ReadAll(content)
	must(t, err)
	return string(text)
}

func TestWhatCannotBeAttachedIsRefused(t *testing.T) {
	r := serve(t)
	a, ref := pushed(t, r)
	one := artifacts.Attestation{artifacts.EnvelopeType, "x", []byte("{}")}
	for to, want := range map[string]string{
		r.host + "/builds/gcc:9.1":           "write REGISTRY/REPOSITORY@sha256:…",
		r.host + "/builds/other@" + a.Digest: "does not have it",
		ref[:len(ref)-8] + "00000000":        "does not have it",
	} {
		at, err := artifacts.Attach(t.Context(), to, one)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %s, %v", to, at, err)
	}
	// What others have at the tag of cosign is not replaced.
	digest := must1(name.NewDigest(ref))
	tag := digest.Context().Tag(strings.Replace(a.Digest, ":", "-", 1) + ".att")
	many := v1.Manifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.manifest.v1+json", Layers: make([]v1.Descriptor, 1000)}
	for i := range many.Layers {
		many.Layers[i].Digest = v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	}
	text, err := json.Marshal(many)
	must(t, err)
	must(t, remote.Put(tag, raw(text)))
	assert.ErrorContains(t, errOf(artifacts.Attach(t.Context(), ref, one)), "remove it", "beside 1000 others")
}

type raw []byte

func (r raw) RawManifest() ([]byte, error) { return r, nil }
func (r raw) MediaType() (types.MediaType, error) {
	return "application/vnd.oci.image.manifest.v1+json", nil
}
