package approval

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// Sign returns the header fields that a request is sent with: the digest of its body, its
// signature by a key, and what that covers. The nonce must never have been used with the key.
func Sign(r Request, key ed25519.PrivateKey, keyID, nonce string, created time.Time, life time.Duration) (http.Header, error) {
	sum := sha256.Sum256(r.Body)
	digest := httpsfv.NewDictionary()
	digest.Add("sha-256", httpsfv.NewItem(sum[:]))
	digestText, err := httpsfv.Marshal(digest)
	if err != nil {
		return nil, fmt.Errorf("writing the digest of the content: %w", err)
	}
	input := httpsfv.InnerList{Params: httpsfv.NewParams()}
	for _, name := range covered {
		input.Items = append(input.Items, httpsfv.NewItem(name))
	}
	input.Params.Add("created", created.Unix())
	input.Params.Add("expires", created.Add(life).Unix())
	input.Params.Add("nonce", nonce)
	input.Params.Add("keyid", keyID)
	input.Params.Add("alg", "ed25519")
	inputText, err := httpsfv.Marshal(input)
	if err != nil {
		return nil, fmt.Errorf("writing what the signature by key %s covers: %w", keyID, err)
	}
	base := fmt.Sprintf("\"@method\": %s\n\"@target-uri\": %s\n\"content-digest\": %s\n\"@signature-params\": %s", r.Method, r.URL, digestText, inputText)
	signature, err := httpsfv.Marshal(httpsfv.NewItem(ed25519.Sign(key, []byte(base))))
	if err != nil {
		return nil, fmt.Errorf("writing the signature by key %s: %w", keyID, err)
	}
	return http.Header{"Content-Type": {"application/json"}, "Content-Digest": {digestText}, "Signature-Input": {"sig1=" + inputText}, "Signature": {"sig1=" + signature}}, nil
}
