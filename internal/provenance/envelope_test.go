package provenance_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/provenance"
)

// newKey writes a key and its public key into files.
func newKey(tb testing.TB, kind string) (private, public string) {
	tb.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case "P-256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "P-384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "RSA":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	must(tb, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(tb, err)
	dir := tb.TempDir()
	private, public = filepath.Join(dir, "key.pem"), filepath.Join(dir, "public.pem")
	must(tb, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	must(tb, err)
	must(tb, os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return private, public
}

func signed(tb testing.TB, private string) []byte {
	tb.Helper()
	key, err := provenance.ReadKey(private)
	must(tb, err)
	envelope, err := statement(tb, job()).Envelope(tb.Context(), key)
	must(tb, err)
	return envelope
}

// anyones verifies as the libraries of the usual tools do.
type anyones struct{ key crypto.PublicKey }

func (a anyones) KeyID() (string, error)   { return "", nil }
func (a anyones) Public() crypto.PublicKey { return a.key }
func (a anyones) Verify(_ context.Context, text, signature []byte) error {
	right := false
	switch key := a.key.(type) {
	case ed25519.PublicKey:
		right = ed25519.Verify(key, text, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(text)
		right = ecdsa.VerifyASN1(key, sum[:], signature)
	}
	if !right {
		return errors.New("wrong")
	}
	return nil
}

func TestAnEnvelopeIsVerifiedByItsKeyAndNoOther(t *testing.T) {
	for _, kind := range []string{"Ed25519", "P-256"} {
		private, public := newKey(t, kind)
		key, err := provenance.ReadPublicKey(public)
		must(t, err)
		_, path := newKey(t, kind)
		other, err := provenance.ReadPublicKey(path)
		must(t, err)
		envelope := signed(t, private)

		s, err := provenance.Verify(t.Context(), envelope, other, key)
		must(t, err)
		if text, err := s.JSON(); err != nil || string(text) != want {
			t.Errorf("%s: it says %s, %v", kind, text, err)
		}
		for _, keys := range [][]crypto.PublicKey{{other}, {}, {"no key"}} {
			s, err := provenance.Verify(t.Context(), envelope, keys...)
			assert.True(t, err != nil && s.Type == "", "%s: %v verify it: %v", kind, keys, s)
		}
		var parsed dsse.Envelope
		must(t, json.Unmarshal(envelope, &parsed))
		by, err := dsse.NewEnvelopeVerifier(anyones{key})
		must(t, err)
		assert.NoError(t, errOf(by.Verify(t.Context(), &parsed)), kind)
	}
}

// No byte of what is said may be another.
func TestWhatIsAlteredInAnEnvelopeIsFound(t *testing.T) {
	private, public := newKey(t, "Ed25519")
	key, err := provenance.ReadPublicKey(public)
	must(t, err)
	var right dsse.Envelope
	must(t, json.Unmarshal(signed(t, private), &right))
	payload, err := base64.StdEncoding.DecodeString(right.Payload)
	must(t, err)
	verify := func(e dsse.Envelope) error {
		text, err := json.Marshal(e)
		must(t, err)
		_, err = provenance.Verify(t.Context(), text, key)
		return err
	}
	must(t, verify(right))
	for i := range payload {
		wrong, altered := right, bytes.Clone(payload)
		altered[i] ^= 1
		wrong.Payload = base64.StdEncoding.EncodeToString(altered)
		require.True(t, verify(wrong) != nil, "byte %d is another", i)
	}
	for what, change := range map[string]func(*dsse.Envelope){
		"no signature":  func(e *dsse.Envelope) { e.Signatures = nil },
		"another type":  func(e *dsse.Envelope) { e.PayloadType = "application/json" },
		"no base64":     func(e *dsse.Envelope) { e.Payload = "%" },
		"half of it":    func(e *dsse.Envelope) { e.Signatures = []dsse.Signature{{Sig: e.Signatures[0].Sig[:40]}} },
		"another's key": func(e *dsse.Envelope) { e.Signatures = []dsse.Signature{{KeyID: "x", Sig: e.Signatures[0].Sig}} },
	} {
		wrong := right
		change(&wrong)
		assert.ErrorContains(t, verify(wrong), "verifying provenance: ", what)
	}
	for _, text := range []string{"", "null", "{}", "[]", strings.Repeat(" ", 33<<20)} {
		assert.Error(t, errOf(provenance.Verify(t.Context(), []byte(text), key)), "%.10q is verified", text)
	}
}

func TestAKeyThatCannotServeIsRefusedWithTheRemedy(t *testing.T) {
	private, public := newKey(t, "Ed25519")
	large, _ := newKey(t, "P-384")
	old, _ := newKey(t, "RSA")
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	text, err := os.ReadFile(private)
	must(t, err)
	shared := file("shared", string(text), 0o640)
	for path, want := range map[string]string{
		filepath.Join(dir, "none"):    "no such file",
		dir:                           "it is a directory, not a file",
		file("text", "secret", 0o600): "it is not in PEM; make one with `openssl genpkey -algorithm ed25519`",
		file("huge", strings.Repeat("x", 65<<10), 0o600): "it has more than 65536 bytes",
		shared: "others than its owner may use it (-rw-r-----): `chmod 600 " + shared + "`",
		public: `it holds "PUBLIC KEY", not a PRIVATE KEY`,
		file("locked", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n", 0o600): "it is encrypted",
		file("broken", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n", 0o600):               "make one with",
		large: "with the curve P-384, not P-256",
		old:   "neither Ed25519 nor ECDSA",
	} {
		if _, err := provenance.ReadKey(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]string{
		private: "`openssl pkey -in KEY -pubout`", filepath.Join(dir, "none"): "no such file",
		file("wrong", "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n", 0o600): "reading the public key",
	} {
		_, err := provenance.ReadPublicKey(path)
		assert.True(t, err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), path), "%s: %v", path, err)
	}
}

// Whatever is in an envelope, it is not taken for what nobody signed.
func FuzzVerify(f *testing.F) {
	private, public := newKey(f, "Ed25519")
	key, err := provenance.ReadPublicKey(public)
	must(f, err)
	f.Add(signed(f, private))
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[{"sig":"AAAA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := provenance.Verify(t.Context(), text, key)
		if err != nil {
			return
		}
		said, err := s.JSON()
		assert.True(t, err == nil && string(said) == want, "%q says %s, %v", text, said, err)
	})
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }
