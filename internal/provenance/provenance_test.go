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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/provenance"
)

func must(tb testing.TB, err error) { require.NoError(tb, err) }

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func job() provenance.Job {
	return provenance.Job{
		Artifact: digest("a"), Group: "base-7", Number: 12, Attempt: 2, Package: "gcc", Version: "9.1 <&>",
		Recipe: map[string]any{"image": "toolchain:1", "args": []string{"make"}},
		Worker: "antworker001", Engine: "docker 28.1", Platform: "linux/amd64", Inputs: strings.Repeat("1", 64),
		Image: provenance.Material{Name: "toolchain:1", Digest: digest("b")}, Sources: digest("c"),
		Uses:   []provenance.Material{{Name: "make", Digest: digest("d")}, {Name: "glibc", Digest: digest("e")}},
		Commit: strings.Repeat("f", 40), Metadata: map[string]string{"tests": "12", "a": "b"}, Deployster: "1.2.3",
		Started: time.Date(2026, 3, 1, 12, 0, 0, 999, time.FixedZone("", 3600)), Finished: time.Date(2026, 3, 1, 12, 5, 0, 0, time.FixedZone("", 3600)),
	}
}

func statement(tb testing.TB, j provenance.Job) provenance.Statement {
	s, err := j.Statement()
	must(tb, err)
	return s
}

const want = `{"_type":"https://in-toto.io/Statement/v1","predicate":{"buildDefinition":{` +
	`"buildType":"https://github.com/deployster-go/deployster/build/v1",` +
	`"externalParameters":{"group":"base-7","job":12,"package":"gcc","recipe":{"args":["make"],"image":"toolchain:1"},"version":"9.1 <&>"},` +
	`"internalParameters":{"engine":"docker 28.1","inputs":"1111111111111111111111111111111111111111111111111111111111111111","platform":"linux/amd64","worker":"antworker001","workspaceCommit":"ffffffffffffffffffffffffffffffffffffffff"},` +
	`"resolvedDependencies":[` +
	`{"digest":{"sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},"name":"image toolchain:1"},` +
	`{"digest":{"sha256":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"name":"sources"},` +
	`{"digest":{"sha256":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"},"name":"package make"},` +
	`{"digest":{"sha256":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},"name":"package glibc"}]},` +
	`"runDetails":{"builder":{"id":"https://github.com/deployster-go/deployster","version":{"deployster":"1.2.3"}},` +
	`"byproducts":[{"content":"eyJhIjoiYiIsInRlc3RzIjoiMTIifQ==","mediaType":"application/json","name":"metadata"}],` +
	`"metadata":{"finishedOn":"2026-03-01T11:05:00Z","invocationId":"base-7/12/2","startedOn":"2026-03-01T11:00:00Z"}}},` +
	`"predicateType":"https://slsa.dev/provenance/v1",` +
	`"subject":[{"digest":{"sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"name":"gcc"}]}`

func TestAStatementSaysHowAnArtifactCameToBe(t *testing.T) {
	text, err := statement(t, job()).JSON()
	must(t, err)
	assert.Equal(t, want, string(text), "it says\n%s\nwant\n%s", text, want)
	again, err := provenance.Decode(text)
	must(t, err)
	same, err := again.JSON()
	assert.True(t, err == nil && bytes.Equal(same, text), "read and written again it is\n%s, %v", same, err)
}

// A commit of Git is what the sources were only where somebody has compared them.
func TestACommitIsADependency(t *testing.T) {
	j := job()
	j.Source = provenance.Source{Repository: "https://example.org/base.git", Commit: strings.Repeat("f", 40)}
	text, err := statement(t, j).JSON()
	must(t, err)
	commit := `"name":"sources"},{"digest":{"gitCommit":"` + strings.Repeat("f", 40) + `"},"name":"commit","uri":"git+https://example.org/base.git"},`
	assert.Equal(t, strings.Replace(want, `"name":"sources"},`, commit, 1), string(text), "it says\n%s", text)
	j.Source.Repository = ""
	if text, err := statement(t, j).JSON(); err != nil || strings.Contains(string(text), `"uri"`) || !strings.Contains(string(text), `"gitCommit"`) {
		t.Errorf("without a repository it says\n%s, %v", text, err)
	}
	j.Sources = ""
	text, err = statement(t, j).JSON()
	assert.True(t, err == nil && !strings.Contains(string(text), `"gitCommit"`), "without sources it says\n%s, %v", text, err)
	for _, wrong := range []string{"main", strings.Repeat("F", 40), strings.Repeat("f", 64)[:63]} {
		j := job()
		j.Source.Commit = wrong
		assert.ErrorContains(t, errOf(j.Statement()), "is no commit of Git", "%q", wrong)
	}
}

func TestALittleIsEnough(t *testing.T) {
	text, err := statement(t, provenance.Job{Artifact: digest("a"), Group: "base-7", Number: 1, Attempt: 1, Package: "make"}).JSON()
	must(t, err)
	var s struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct{ Digest map[string]string }
		Predicate     struct {
			BuildDefinition struct {
				BuildType          string
				ExternalParameters map[string]any
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	must(t, json.Unmarshal(text, &s))
	p := s.Predicate
	if s.Type == "" || s.PredicateType == "" || len(s.Subject) != 1 || s.Subject[0].Digest["sha256"] == "" || p.BuildDefinition.BuildType == "" || len(p.BuildDefinition.ExternalParameters) == 0 || p.RunDetails.Builder.ID == "" {
		t.Errorf("it says %s", text)
	}
	for _, empty := range []string{"null", `""`, "0001-01-01", "{}"} {
		assert.False(t, strings.Contains(string(text), empty), "it says %s of what is not known: %s", empty, text)
	}
}

func TestWhatIsNoDigestIsNoPartOfAStatement(t *testing.T) {
	for what, change := range map[string]func(*provenance.Job){
		"its artifact":  func(j *provenance.Job) { j.Artifact = "" },
		`image "x"`:     func(j *provenance.Job) { j.Image = provenance.Material{Name: "x", Digest: "sha512:00"} },
		`sources ""`:    func(j *provenance.Job) { j.Sources = digest("x") },
		`package "gcc"`: func(j *provenance.Job) { j.Uses[0] = provenance.Material{Name: "gcc", Digest: digest("A")} },
		"its recipe":    func(j *provenance.Job) { j.Recipe = func() {} },
	} {
		j := job()
		j.Uses = slices.Clone(j.Uses)
		change(&j)
		s, err := j.Statement()
		assert.True(t, err != nil && strings.Contains(err.Error(), "job 12 of base-7: "+what), "%s: %v, %v", what, s, err)
	}
}

func TestWhatIsNoProvenanceIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:     "unexpected end",
		`null`: "_type must be",
		`{}`:   "_type must be https://in-toto.io/Statement/v1\npredicateType must be https://slsa.dev/provenance/v1\nthere is no subject\nbuildType is missing\nbuilder.id is missing",
		strings.Replace(want, `"subject":[{"digest":{"sha256"`, `"subject":[{"digests":{"sha256"`, 1):      "subject 0 has no digest",
		strings.Replace(want, `{"digest":{"sha256":"eeee`, `{"x":{"sha256":"eeee`, 1):                      "resolved dependency 3 has neither",
		strings.Replace(want, `"https://slsa.dev/provenance/v1"`, `"https://slsa.dev/provenance/v0.2"`, 1): "predicateType must be",
		strings.Repeat(" ", 17<<20): "at most",
	} {
		s, err := provenance.Decode([]byte(text))
		assert.True(t, err != nil && strings.Contains(err.Error(), want) && s.Type == "", "%.100s: %v, %v", text, s, err)
	}
}

// What is read can be written, and that is the same then.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(want))
	f.Add([]byte(`{"_type":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := provenance.Decode(text)
		if err != nil {
			return
		}
		once, err := s.JSON()
		require.NoError(t, err, "%q is read, and not written", text)
		again, err := provenance.Decode(once)
		require.NoError(t, err, "%q is written, and not read", once)
		twice, err := again.JSON()
		require.True(t, err == nil && bytes.Equal(once, twice), "%q and then %q, %v", once, twice, err)
	})
}

func newKey(tb testing.TB, kind string) (private, public string) {
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

func errOf[T any](_ T, err error) error { return err }
