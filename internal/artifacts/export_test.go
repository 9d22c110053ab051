package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// DecodeManifest and EncodeManifest are for fuzzing.
var (
	DecodeManifest = decodeManifest
	EncodeManifest = encodeManifest
)

// Guarded is the way to registries.
func Guarded(inner http.RoundTripper) http.RoundTripper { return guarded{inner} }

// Impatient is a way to registries that gives up after so long without a byte.
func Impatient(inner http.RoundTripper, after time.Duration) http.RoundTripper {
	return impatient{inner, after}
}

// Unpack unpacks a layer, whatever it holds, into an empty directory.
func Unpack(ctx context.Context, dir string, layer []byte) (Artifact, error) {
	to, err := newTree(dir)
	if err != nil {
		return Artifact{}, err
	}
	sum := sha256.Sum256(layer)
	of := v1.Descriptor{Size: int64(len(layer)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}
	a, err := decode(ctx, bytes.NewReader(layer), of, Limits{Files: 1000, Bytes: 1 << 20}, to)
	if closed := to.close(); closed != nil {
		panic(closed)
	}
	return a, err
}

// Pack makes a layer of a directory.
func Pack(ctx context.Context, dir string) (Artifact, []byte, error) {
	var layer bytes.Buffer
	a, _, err := pack(ctx, dir, maxCopy, true, &layer)
	return a, layer.Bytes(), err
}
