package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Attestation is a document that says something about an artifact, such as how it came to be.
type Attestation struct {
	MediaType     string // of the document: EnvelopeType if it is signed
	PredicateType string // what it says, as a verifier asks for it
	Content       []byte
}

// EnvelopeType is the media type of a signed attestation.
const EnvelopeType = "application/vnd.dsse.envelope.v1+json"

const (
	attestationType     = "application/vnd.in-toto+json"
	predicateAnnotation = "in-toto.io/predicate-type"

	// What cosign looks for, below a tag that is made of the digest.
	cosignPredicate = "predicateType"
	cosignSignature = "dev.cosignproject.cosign/signature" // empty: it is in the envelope
	cosignSuffix    = ".att"

	maxAttestations = 1000 // below one tag
)

// Attach puts an attestation beside an artifact in a registry, REGISTRY/REPOSITORY@DIGEST: as
// a referrer of it, which the registry lists; and where it is signed, also below the tag at
// which cosign looks. Doing so again changes nothing. It returns the name of the referrer.
func Attach(ctx context.Context, ref string, a Attestation) (string, error) {
	at, err := attach(ctx, ref, a)
	if err != nil {
		return "", fmt.Errorf("attaching an attestation to %s: %w", ref, err)
	}
	return at, nil
}

func attach(ctx context.Context, text string, a Attestation) (string, error) {
	ref, err := name.NewDigest(text, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("%w; write REGISTRY/REPOSITORY@sha256:…", err)
	}
	to, err := open(ref.Context())
	if err != nil {
		return "", err
	}
	subject, err := to.puller.Head(ctx, ref)
	if err != nil {
		return "", to.explainRemote(ctx, err)
	}
	document := static.NewLayer(a.Content, types.MediaType(a.MediaType))
	layer, err := documentDescriptor(a)
	if err != nil {
		return "", err
	}
	empty, err := v1.NewHash(digestOf([]byte(emptyJSON)))
	if err != nil {
		return "", err
	}
	config := v1.Descriptor{MediaType: emptyType, Digest: empty, Size: int64(len(emptyJSON)), Data: []byte(emptyJSON)}
	referrer, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: attestationType, Config: config,
		Layers:      []v1.Descriptor{layer},
		Annotations: map[string]string{predicateAnnotation: a.PredicateType},
		Subject:     &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	})
	if err != nil {
		return "", err
	}
	at := ref.Context().Digest(digestOf(referrer))
	for _, upload := range []func() error{
		func() error { return to.pusher.Upload(ctx, ref.Context(), document) },
		func() error {
			return to.pusher.Upload(ctx, ref.Context(), static.NewLayer([]byte(emptyJSON), emptyType))
		},
		func() error { return to.pusher.Put(ctx, at, manifest(referrer)) },
		func() error { return to.tagForCosign(ctx, ref, a, layer, config) },
	} {
		if err := upload(); err != nil {
			return "", to.explainRemote(ctx, err)
		}
	}
	return at.Name(), nil
}

// documentDescriptor describes the document of an attestation.
func documentDescriptor(a Attestation) (v1.Descriptor, error) {
	digest, err := v1.NewHash(digestOf(a.Content))
	return v1.Descriptor{MediaType: types.MediaType(a.MediaType), Digest: digest, Size: int64(len(a.Content))}, err
}

// tagForCosign adds a signed attestation to those below the tag at which cosign looks, which
// others may have put there.
func (r *repository) tagForCosign(ctx context.Context, ref name.Digest, a Attestation, layer, config v1.Descriptor) error {
	if a.MediaType != EnvelopeType {
		return nil
	}
	tag := ref.Context().Tag(strings.Replace(ref.DigestStr(), ":", "-", 1) + cosignSuffix)
	all := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config}
	found, err := r.puller.Get(ctx, tag)
	answer := new(transport.Error)
	switch {
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
	case err != nil:
		return err
	default:
		there, err := v1.ParseManifest(bytes.NewReader(found.Manifest))
		if err != nil || found.MediaType != types.OCIManifestSchema1 || len(there.Layers) >= maxAttestations {
			return fmt.Errorf("what is at %s is no list of attestations, or has %d of them: remove it", tag, maxAttestations)
		}
		all = *there
	}
	for _, has := range all.Layers {
		if has.Digest == layer.Digest {
			return nil
		}
	}
	layer.Annotations = map[string]string{cosignPredicate: a.PredicateType, cosignSignature: ""}
	all.Layers = append(all.Layers, layer)
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return r.pusher.Put(ctx, tag, manifest(text))
}
