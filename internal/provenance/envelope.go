package provenance

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/deployster-go/deployster/internal/regularfile"
)

// EnvelopeType is the media type of an envelope.
const EnvelopeType = "application/vnd.dsse.envelope.v1+json"

// Key signs. It is one of Ed25519, or of ECDSA with the curve P-256.
type Key struct{ private crypto.Signer }

// ReadKey reads a private key: a file in PEM with PKCS #8, which only its owner may read.
func ReadKey(path string) (Key, error) {
	key, err := readKey(path)
	if err != nil {
		return Key{}, fmt.Errorf("reading the key %s: %w", path, err)
	}
	return key, nil
}

const makeKey = "make one with `openssl genpkey -algorithm ed25519`"

func readKey(path string) (Key, error) {
	text, info, err := read(path)
	if err != nil {
		return Key{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Key{}, fmt.Errorf("others than its owner may use it (%v): `chmod 600 %s`", info.Mode().Perm(), path)
	}
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return Key{}, errors.New("it is not in PEM; " + makeKey)
	case block.Type == "ENCRYPTED PRIVATE KEY":
		return Key{}, errors.New("it is encrypted, and nobody is there to ask for the password; `openssl pkey -in KEY -out PLAIN` decrypts it")
	case block.Type != "PRIVATE KEY":
		return Key{}, fmt.Errorf("it holds %.40q, not a PRIVATE KEY of PKCS #8; %s", block.Type, makeKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("%w; %s", err, makeKey)
	}
	private, is := parsed.(crypto.Signer)
	if !is {
		return Key{}, errors.New("it cannot sign; " + makeKey)
	}
	return Key{private}, usable(private.Public())
}

// ReadPublicKey reads a public key: a file in PEM.
func ReadPublicKey(path string) (crypto.PublicKey, error) {
	text, _, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("reading the public key %s: %w", path, err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("reading the public key %s: it holds no PUBLIC KEY in PEM; `openssl pkey -in KEY -pubout` writes that of a private one", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err == nil {
		err = usable(key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the public key %s: %w", path, err)
	}
	return key, nil
}

// usable refuses keys that the usual tools would take with other hashes than this package.
func usable(public crypto.PublicKey) error {
	switch key := public.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return nil
		}
		return fmt.Errorf("it is a key of ECDSA with the curve %s, not P-256", key.Params().Name)
	default:
		return fmt.Errorf("it is a key of the kind %T, neither Ed25519 nor ECDSA with the curve P-256", public)
	}
}

// read reads a small file.
func read(path string) ([]byte, fs.FileInfo, error) {
	f, info, err := regularfile.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	const most = 64 << 10
	if info.Size() > most {
		return nil, nil, fmt.Errorf("it is no key: it has more than %d bytes", most)
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return text, info, err
}

// Sign signs a text.
func (k Key) Sign(_ context.Context, text []byte) ([]byte, error) {
	if _, is := k.private.(ed25519.PrivateKey); is {
		return k.private.Sign(rand.Reader, text, crypto.Hash(0))
	}
	sum := sha256.Sum256(text)
	return k.private.Sign(rand.Reader, sum[:], crypto.SHA256)
}

// KeyID names the key as most tools do that are not told another name: by the fingerprint
// that SSH shows. Verifiers with another name for it do not try it.
func (k Key) KeyID() (string, error) { return dsse.SHA256KeyID(k.private.Public()) }

// Public is what verifies what the key signs.
func (k Key) Public() crypto.PublicKey { return k.private.Public() }

// Envelope signs a statement, and returns the envelope that holds it.
func (s Statement) Envelope(ctx context.Context, key Key) ([]byte, error) {
	text, err := s.JSON()
	if err != nil {
		return nil, err
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return nil, fmt.Errorf("signing a statement of provenance: %w", err)
	}
	envelope, err := signer.SignPayload(ctx, MediaType, text)
	if err != nil {
		return nil, fmt.Errorf("signing a statement of provenance: %w", err)
	}
	return canonical(envelope)
}

// verifier is a public key that verifies envelopes.
type verifier struct{ public crypto.PublicKey }

var errSignature = errors.New("the signature is not by this key")

// Verify, KeyID and Public make it one.
func (v verifier) Verify(_ context.Context, text, signature []byte) error {
	var right bool
	switch key := v.public.(type) {
	case ed25519.PublicKey:
		right = ed25519.Verify(key, text, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(text)
		right = ecdsa.VerifyASN1(key, sum[:], signature)
	}
	if !right {
		return errSignature
	}
	return nil
}

func (v verifier) KeyID() (string, error)   { return dsse.SHA256KeyID(v.public) }
func (v verifier) Public() crypto.PublicKey { return v.public }

// Verify returns the statement in an envelope that one of the keys signed.
func Verify(ctx context.Context, envelope []byte, keys ...crypto.PublicKey) (Statement, error) {
	s, err := verify(ctx, envelope, keys)
	if err != nil {
		return Statement{}, fmt.Errorf("verifying provenance: %w", err)
	}
	return s, nil
}

func verify(ctx context.Context, text []byte, keys []crypto.PublicKey) (Statement, error) {
	if len(text) > 2*maxStatement {
		return Statement{}, fmt.Errorf("its envelope has %d bytes, at most %d are possible", len(text), 2*maxStatement)
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return Statement{}, fmt.Errorf("it is in no envelope: %w", err)
	}
	if envelope.PayloadType != MediaType {
		return Statement{}, fmt.Errorf("its envelope holds %.90q, not %q", envelope.PayloadType, MediaType)
	}
	var verifiers []dsse.Verifier
	for _, key := range keys {
		if err := usable(key); err != nil {
			return Statement{}, err
		}
		verifiers = append(verifiers, verifier{key})
	}
	by, err := dsse.NewEnvelopeVerifier(verifiers...)
	if err == nil {
		_, err = by.Verify(ctx, &envelope)
	}
	if err != nil {
		return Statement{}, fmt.Errorf("none of the keys signed it: %w", err)
	}
	statement, err := envelope.DecodeB64Payload()
	if err != nil {
		return Statement{}, err
	}
	return Decode(statement)
}
