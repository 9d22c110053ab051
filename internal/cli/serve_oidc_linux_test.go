package cli_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/identity/oidc"
)

// A job of a CI system releases with the token that its system has issued to it, and is who
// the log says has done so. Nothing of the token gets into the log of the server.
func TestAServerTakesTheTokensOfACISystem(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		keys := []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig"}}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys", "keys": keys}))
	}))
	defer issuer.Close()
	token := func(repository string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
		require.NoError(t, err)
		signed, err := signer.Sign(fmt.Appendf(nil, `{"iss": %q, "aud": "https://deploy.example.com", "sub": "repo:%s", "repository": %q, "ref": "refs/heads/main", "exp": %d}`,
			issuer.URL, repository, repository, time.Now().Add(time.Hour).Unix()))
		require.NoError(t, err)
		text, err := signed.CompactSerialize()
		require.NoError(t, err)
		return text
	}
	s := served(t)
	example, err := os.ReadFile("../../examples/server/oidc.yaml")
	require.NoError(t, err)
	if _, err := oidc.Parse("oidc.yaml", "/", example); err != nil {
		t.Fatal(err)
	}
	ours := strings.ReplaceAll(strings.ReplaceAll(string(example), "https://token.actions.githubusercontent.com", issuer.URL), "[gateway]", "[one]")
	writeFiles(t, s.dir, map[string]string{"oidc.yaml": ours, "wrong.yaml": "issuers: [{name: github}]\n"})
	s.wantRefused("wrong.yaml:1:11: issuers[0]: the issuer has no issuer", "serve", "--oidc", "wrong.yaml")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json", "--oidc", "oidc.yaml")
	job := asker{program: binary, dir: s.dir, server: "http://" + r.address(t)}
	for repository, code := range map[string]int{"acme/gateway": 0, "acme/other": 1} {
		job.token = token(repository)
		job.want(t, code, "", "pipeline", "pause", "one")
		for _, part := range strings.Split(job.token, ".") {
			if strings.Contains(r.out.String(), part) {
				t.Errorf("the token is logged:\n%s", r.out)
			}
		}
	}
	s.wantBy("pipeline-paused", "github repo:acme/gateway")
	if !strings.Contains(r.out.String(), `"issuer":"github","reason":"its claims are those of no grant"`) {
		t.Errorf("it is not said why a token was refused:\n%s", r.out)
	}
	s.end(r)
}
