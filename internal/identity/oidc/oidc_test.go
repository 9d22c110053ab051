package oidc_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/identity/oidc"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// issuer is a server that signs tokens and publishes its keys.
type issuer struct {
	*httptest.Server
	*testing.T
	rsa   *rsa.PrivateKey
	asked atomic.Int32 // for its keys

	mu     sync.Mutex
	keys   []jose.JSONWebKey
	claims string // that it is another issuer; "" is that it is itself
	silent bool
}

var key, other = must(rsa.GenerateKey(rand.Reader, 2048)), must(rsa.GenerateKey(rand.Reader, 2048))

func must(k *rsa.PrivateKey, err error) *rsa.PrivateKey {
	if err != nil {
		panic(err)
	}
	return k
}

func newIssuer(t *testing.T, start func(http.Handler) *httptest.Server) *issuer {
	i := &issuer{T: t, rsa: key}
	i.keys = []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"}}
	i.Server = start(http.HandlerFunc(i.answer))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) answer(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	document := any(map[string]any{"keys": i.keys})
	switch {
	case i.silent:
		w.WriteHeader(http.StatusBadGateway)
		return
	case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		of := i.URL
		if i.claims != "" {
			of = i.claims
		}
		document = map[string]any{"issuer": of, "jwks_uri": i.URL + "/keys"}
	default:
		i.asked.Add(1)
	}
	assert.NoError(i, json.NewEncoder(w).Encode(document))
}

func (i *issuer) change(how func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	how()
}

func (i *issuer) sign(alg jose.SignatureAlgorithm, with any, id string, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: with, KeyID: id}}, nil)
	require.NoError(i, err)
	text, err := json.Marshal(claims)
	require.NoError(i, err)
	signed, err := signer.Sign(text)
	require.NoError(i, err)
	token, err := signed.CompactSerialize()
	require.NoError(i, err)
	return token
}

// job is what a token of a CI system says, but for what is changed; nil is left out.
func (i *issuer) job(changed map[string]any) map[string]any {
	claims := map[string]any{
		"iss": i.URL, "sub": "repo:acme/gateway:ref:refs/heads/main", "aud": "https://deploy.example", "repository": "acme/gateway",
		"ref": "refs/heads/main", "groups": []string{"dev", "ops"}, "iat": noon.Unix(), "nbf": noon.Unix(), "exp": noon.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changed)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// accepting is a server that accepts the tokens of an issuer, with what it logs.
type accepting struct {
	*oidc.Tokens
	*testing.T
	now time.Time
	log bytes.Buffer
}

func accept(t *testing.T, i *issuer, more string) *accepting {
	text := fmt.Sprintf(`issuers:
  - name: ci
    issuer: %s
    audience: https://deploy.example
%s    grants:
      - {claims: {repository: acme/gateway, ref: [refs/heads/main, refs/heads/next]}, role: operator, pipelines: [gateway]}
      - {claims: {groups: ops}, role: approver}
`, i.URL, more)
	issuers, err := oidc.Parse("oidc.yaml", t.TempDir(), []byte(text))
	require.NoError(t, err)
	a := &accepting{T: t, now: noon}
	a.Tokens, err = oidc.New(issuers, func() time.Time { return a.now }, slog.New(slog.NewTextHandler(&a.log, nil)))
	require.NoError(t, err)
	return a
}

// wantRefused checks that a token is refused for a reason, which is logged without anything
// of the token.
func (a *accepting) wantRefused(name, token, reason string) {
	a.Helper()
	a.log.Reset()
	who, err := a.Identify(context.Background(), token)
	if !errors.Is(err, identity.ErrUnknown) || !strings.Contains(err.Error(), reason) || len(who.Grants) > 0 {
		a.Errorf("%s: %+v, %v, want %q", name, who, err, reason)
	}
	assert.Contains(a, a.log.String(), reason, "%s: logged is %s", name, &a.log)
	for _, part := range append(strings.Split(token, "."), "acme", "hunter2", "elsewhere") {
		said := a.log.String() + fmt.Sprint(err)
		assert.True(a, len(part) <= 3 || !strings.Contains(said, part), "%s: the token is told of: %s", name, said)
	}
}

func TestATokenOfAnIssuerSaysWhoItIs(t *testing.T) {
	i := newIssuer(t, httptest.NewServer)
	a := accept(t, i, "")
	token := i.sign(jose.RS256, key, "1", i.job(nil))
	who, err := a.Identify(t.Context(), token)
	if err != nil || who.Name != "ci repo:acme/gateway:ref:refs/heads/main" || !who.May(identity.Operator, identity.Pipelines, "gateway") ||
		who.May(identity.Operator, identity.Pipelines, "other") || !who.May(identity.Approver, identity.Pipelines, "other") || who.May(identity.Admin, "", "") {
		t.Errorf("%+v, %v", who, err)
	}
	for _, list := range []any{[]string{"x", "https://deploy.example"}, "https://deploy.example"} {
		forList := i.sign(jose.RS256, key, "1", i.job(map[string]any{"aud": list, "groups": nil}))
		assert.NoError(t, errOf(a.Identify(t.Context(), forList)), "for %v", list)
	}
	assert.EqualValues(t, 1, i.asked.Load(), "how often it was asked for its keys")
	for _, at := range []time.Duration{-59 * time.Second, time.Hour + 59*time.Second} { // the clocks may differ
		a.now = noon.Add(at)
		assert.NoError(t, errOf(a.Identify(t.Context(), token)), "%s later", at)
	}
	named := accept(t, i, "    identity: email\n")
	for verified, want := range map[any]bool{true: true, "true": true, false: false, nil: false, "yes": false} {
		_, err := named.Identify(t.Context(), i.sign(jose.RS256, key, "1", i.job(map[string]any{"email": "ada@acme.example", "email_verified": verified})))
		assert.Equal(t, want, (err == nil), "an address that is verified %v: %v", verified, err)
	}
}

// Each way to be let in without a token that the issuer has made for this server.
func TestWhatNoIssuerSaidIsRefused(t *testing.T) {
	i, elsewhere := newIssuer(t, httptest.NewServer), newIssuer(t, httptest.NewServer)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	good := i.sign(jose.RS256, key, "1", i.job(map[string]any{"password": "hunter2"}))
	parts := strings.Split(good, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	changed, err := json.Marshal(i.job(map[string]any{"groups": []string{"ops", "admin"}}))
	require.NoError(t, err)
	with := func(claims map[string]any) string { return i.sign(jose.RS256, key, "1", i.job(claims)) }
	full, err := jose.ParseSigned(good, []jose.SignatureAlgorithm{jose.RS256})
	require.NoError(t, err)
	for _, c := range []struct{ name, token, reason string }{
		{"nothing", "", "it is not a token"},
		{"two parts", parts[0] + "." + parts[1], "it is not a token"},
		{"a token as JSON", full.FullSerialize(), "it is not a token"},
		{"one that is too large", good + strings.Repeat("A", 17<<10), "it is not a token"},
		{"claims that are none", parts[0] + "." + encode("[]") + "." + parts[2], "it is not a token"},
		{"alg none", encode(`{"alg":"none","kid":"1"}`) + "." + parts[1] + ".", "not signed as it should be"},
		{"alg none with the signature", encode(`{"alg":"none","kid":"1"}`) + "." + parts[1] + "." + parts[2], "not signed as it should be"},
		{"HS256 with the public key", i.sign(jose.HS256, inPEM, "1", i.job(nil)), "not signed as it should be"},
		{"HS256 with the public key in DER", i.sign(jose.HS256, public, "1", i.job(nil)), "not signed as it should be"},
		{"an algorithm that is not that of the key", i.sign(jose.RS512, key, "1", i.job(nil)), "not signed as it should be"},
		{"another key of the same id", i.sign(jose.RS256, other, "1", i.job(nil)), "not signed as it should be"},
		{"a curve of the same id", i.sign(jose.ES256, curve, "1", i.job(nil)), "not signed as it should be"},
		{"a key that is not known", i.sign(jose.RS256, other, "2", i.job(nil)), "no key with that id"},
		{"no id of a key", i.sign(jose.RS256, key, "", i.job(nil)), "no key with that id"},
		{"changed claims", parts[0] + "." + base64.RawURLEncoding.EncodeToString(changed) + "." + parts[2], "not signed as it should be"},
		{"no signature", parts[0] + "." + parts[1] + ".", "not signed as it should be"},
		{"a signature that is cut", good[:len(good)-4], "not signed as it should be"},
		{"another issuer with the same subject", elsewhere.sign(jose.RS256, other, "1", elsewhere.job(nil)), "not configured"},
		{"another issuer that says it is this one", elsewhere.sign(jose.RS256, other, "1", i.job(nil)), "not signed as it should be"},
		{"an issuer with a slash", with(map[string]any{"iss": i.URL + "/"}), "has a slash at its end"},
		{"no issuer", with(map[string]any{"iss": nil}), "not configured"},
		{"another audience", with(map[string]any{"aud": "https://elsewhere.example"}), "another audience"},
		{"an audience that begins alike", with(map[string]any{"aud": "https://deploy.example.org"}), "another audience"},
		{"no audience", with(map[string]any{"aud": nil}), "another audience"},
		{"one that has expired", with(map[string]any{"exp": noon.Add(-time.Minute).Unix()}), "has expired"},
		{"one that never does", with(map[string]any{"exp": nil}), "has expired"},
		{"one that does in a far future", with(map[string]any{"exp": 1e300}), "has expired"},
		{"one that is not valid yet", with(map[string]any{"nbf": noon.Add(61 * time.Second).Unix()}), "not valid yet"},
		{"one that is not issued yet", with(map[string]any{"iat": noon.Add(61 * time.Second).Unix()}), "not valid yet"},
		{"no subject", with(map[string]any{"sub": nil}), "does not say who"},
		{"a subject that drives terminals", with(map[string]any{"sub": "a\x1b[2J"}), "does not say who"},
		{"a subject that turns lines", with(map[string]any{"sub": "\u202eada"}), "does not say who"},
		{"no claim of a grant", with(map[string]any{"repository": nil, "groups": nil}), "those of no grant"},
		{"another repository", with(map[string]any{"repository": "acme/gateway2", "groups": nil}), "those of no grant"},
		{"another branch", with(map[string]any{"ref": "refs/heads/evil", "groups": "dev"}), "those of no grant"},
	} {
		accept(t, i, "").wantRefused(c.name, c.token, c.reason)
	}
}

// A key that comes is found when a token has its id, and one that goes is of no use after an
// hour. Whoever sends tokens with ids that there are not cannot have the issuer asked often.
func TestKeysComeAndGo(t *testing.T) {
	i := newIssuer(t, httptest.NewServer)
	a := accept(t, i, "")
	later := func(after time.Duration) (first, second error) {
		a.now = a.now.Add(after)
		claims := i.job(map[string]any{"exp": a.now.Add(time.Hour).Unix()})
		_, first = a.Identify(t.Context(), i.sign(jose.RS256, key, "1", claims))
		_, second = a.Identify(t.Context(), i.sign(jose.RS256, other, "2", claims))
		return first, second
	}
	if first, second := later(0); first != nil || second == nil {
		t.Fatal(first, second)
	}
	i.change(func() { i.keys = append(i.keys, jose.JSONWebKey{Key: other.Public(), KeyID: "2", Use: "sig"}) })
	for range 10 {
		require.Error(t, errOf(later(0)), "the issuer was asked again at once")
	}
	assert.EqualValues(t, 1, i.asked.Load(), "how often it was asked for tokens with an unknown key")
	if first, second := later(30 * time.Second); first != nil || second != nil || i.asked.Load() != 2 {
		t.Errorf("half a minute later: %v, %v, asked %d times", first, second, i.asked.Load())
	}
	i.change(func() { i.keys = i.keys[1:] })
	if first, second := later(59 * time.Minute); first != nil || second != nil {
		t.Errorf("before an hour has passed: %v, %v", first, second)
	}
	if first, second := later(2 * time.Minute); first == nil || second != nil {
		t.Errorf("after an hour: %v, %v", first, second)
	}
	i.change(func() { i.silent = true })
	_, second := later(23 * time.Hour)
	require.NoError(t, second, "as long as the issuer is silent its keys serve")
	_, second = later(2 * time.Hour)
	require.ErrorContains(t, second, "cannot be asked for its keys", "a day later")
	assert.NotErrorIs(t, second, identity.ErrUnknown)
	i.change(func() { i.silent = false })
	require.NoError(t, errOf(later(time.Minute)), "when the issuer answers again")
}

// Who cannot be asked does not refuse anybody, and admits nobody.
func TestAnIssuerThatCannotBeAsked(t *testing.T) {
	for name, change := range map[string]func(*issuer){
		"it is gone":                     func(i *issuer) { i.Close() },
		"it answers badly":               func(i *issuer) { i.change(func() { i.silent = true }) },
		"it says that it is another one": func(i *issuer) { i.change(func() { i.claims = "https://elsewhere.example" }) },
	} {
		i := newIssuer(t, httptest.NewServer)
		a := accept(t, i, "")
		token := i.sign(jose.RS256, key, "1", i.job(nil))
		change(i)
		for range 2 {
			if who, err := a.Identify(t.Context(), token); !errors.Is(err, identity.ErrLater) || errors.Is(err, identity.ErrUnknown) || !strings.Contains(err.Error(), "issuer ci: ") {
				t.Errorf("%s: %+v, %v", name, who, err)
			}
		}
		assert.Equal(t, 1, strings.Count(a.log.String(), "\n"), "%s: it is logged once:\n%s", name, &a.log)
	}
}

// A key set may hold what is not a public key for signatures: none of it signs tokens.
func TestKeysThatAnybodyCouldSignWithAreNone(t *testing.T) {
	i := newIssuer(t, httptest.NewServer)
	secret := []byte("a secret that all know who read the key set of the issuer")
	i.keys = []jose.JSONWebKey{
		{Key: secret, KeyID: "oct", Algorithm: "HS256"}, {Key: other, KeyID: "private"}, {Key: other.Public(), KeyID: "enc", Use: "enc"},
	}
	a := accept(t, i, "    algorithms: [RS256, PS256]\n")
	a.wantRefused("a symmetric key", i.sign(jose.HS256, secret, "oct", i.job(nil)), "not signed as it should be")
	a.wantRefused("a private key that was published", i.sign(jose.RS256, other, "private", i.job(nil)), "no key with that id")
	a.now = a.now.Add(time.Hour)
	a.wantRefused("a key for encryption", i.sign(jose.PS256, other, "enc", i.job(nil)), "no key with that id")
}

func TestAnIssuerWithAnAuthorityOfItsOwn(t *testing.T) {
	i := newIssuer(t, httptest.NewTLSServer)
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600))
	token := i.sign(jose.RS256, key, "1", i.job(nil))
	require.NoError(t, errOf(accept(t, i, "    ca: "+path+"\n").Identify(t.Context(), token)))
	_, err := accept(t, i, "").Identify(t.Context(), token)
	require.Error(t, err, "an issuer that is not trusted is believed")
	assert.NotErrorIs(t, err, identity.ErrUnknown)
}

func FuzzToken(f *testing.F) {
	f.Add("a.e30.b")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEifQ.")
	tokens, err := oidc.New([]oidc.Issuer{{Name: "a", URL: "http://127.0.0.1:1", Audience: "b", Identity: "sub", Algorithms: []string{"RS256"}}}, time.Now, slog.New(slog.DiscardHandler))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, token string) {
		who, err := tokens.Identify(t.Context(), token)
		assert.Error(t, err, "%q is %+v", token, who)
	})
}

func errOf[T any](_ T, err error) error { return err }

func TestIssuersThatCannotBeMeantAreRefused(t *testing.T) {
	const grants = "grants: [{claims: {sub: a}, role: viewer}]"
	for text, want := range map[string]string{
		"":             "the file is empty; it must say whose tokens are accepted",
		"issuers: []":  "there are no issuers",
		"issuer: [{}]": `unknown key "issuer"`,
		"issuers: [{name: a, issuer: 'http://a.example', audience: b, " + grants + "}]":                                                                       "must begin with https://",
		"issuers: [{name: a, issuer: 'https://a.example?x=y', audience: b, " + grants + "}]":                                                                  "must be the URL of an issuer",
		"issuers: [{name: token, issuer: 'https://a.example', audience: b, " + grants + "}]":                                                                  `"token" cannot be the name`,
		"issuers: [{name: 'ada@vm', issuer: 'https://a.example', audience: b, " + grants + "}]":                                                               `"ada@vm" cannot be the name`,
		"issuers: [{name: a, issuer: 'https://a.example', " + grants + "}]":                                                                                   "has no audience",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b}]":                                                                                      "has no grants",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: []}]":                                                                          "nobody could do anything",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{role: viewer}]}]":                                                            "everybody whom the issuer knows",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {}, role: viewer}]}]":                                                "everybody whom the issuer knows",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: []}, role: viewer}]}]":                                         "no value that the claim could have",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: root}]}]":                                            `"root" is no role`,
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}}]}]":                                                        "has no role",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, algorithms: [HS256], " + grants + "}]":                                                 `"HS256" is not an algorithm`,
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, algorithms: [none], " + grants + "}]":                                                  `"none" is not an algorithm`,
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, algorithms: [], " + grants + "}]":                                                      "must not be empty",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, " + grants + "}, {name: a, issuer: 'https://b.example', audience: b, " + grants + "}]": "duplicate name",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, " + grants + "}, {name: b, issuer: 'https://a.example', audience: c, " + grants + "}]": "duplicate issuer",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: operator, pipelines: []}]}]":                         "leave it out where the role is for everything",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: operator, pipelines: [' ']}]}]":                      "must be a name, not blank",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: 7}, role: operator}]}]":                                        "must be the value of a claim, as text",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: operator, environments: prod}]}]":                    "must be a list of environments",
	} {
		all, err := oidc.Parse("oidc.yaml", "/", []byte(text))
		assert.ErrorContains(t, err, want, text)
		assert.Nil(t, all, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: viewer}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := oidc.Parse("oidc.yaml", "/", []byte(text))
		for _, of := range all {
			if err != nil || of.Name == "" || of.URL == "" || of.Audience == "" || of.Identity == "" || len(of.Algorithms) == 0 || len(of.Grants) == 0 {
				t.Errorf("%+v, %v", of, err)
			}
			for _, g := range of.Grants {
				assert.True(t, len(g.Claims) != 0 && g.Role != "", "a grant for everybody: %+v", g)
			}
		}
	})
}
