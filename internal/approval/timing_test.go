package approval_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/approval"
	machine "github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/record"
)

// How long a refusal takes tells neither which keys there are, nor how much of a signature is right:
// whatever is wrong, a signature is verified. Of many tries of each the fastest counts, in which
// nothing else was at work.
func TestTimingTellsNothing(t *testing.T) {
	var keys machine.Keys
	for _, k := range []record.KeyInfo{
		{ID: "ci", Public: public(keyOf(1))},
		{ID: "elsewhere", Public: public(keyOf(3)), Stages: []string{"eu/approve"}},
		{ID: "later", Public: public(keyOf(4)), NotBefore: noon.Add(time.Hour)},
		{ID: "lost", Public: public(keyOf(5))},
	} {
		e, err := keys.Add("pipeline/web", k, "id", "ann")
		require.NoError(t, err)
		keys.Apply(e)
	}
	e, err := keys.Revoke("pipeline/web", "lost", "id", "ann", "")
	require.NoError(t, err)
	e.Seq = 5
	keys.Apply(e)

	sign := func(seed byte, keyID string) approval.Request {
		r := approval.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "deploy.example", Path: approval.Path("web", "approve")}, Body: []byte("{}")}
		r.Header, err = approval.Sign(r, keyOf(seed), keyID, "a nonce that is long", noon, time.Minute)
		require.NoError(t, err)
		return r
	}
	// altered is the right signature, but for one byte.
	altered := func(at int) approval.Request {
		r := sign(1, "ci")
		text := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Signature"), "sig1=:"), ":")
		signature, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		signature[at] ^= 1
		r.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(signature)+":")
		return r
	}
	tries := []struct {
		name    string
		keys    *machine.Keys
		request approval.Request
		fastest time.Duration
	}{
		{"another key by the name of one", &keys, sign(2, "ci"), 0},
		{"an unknown key", &keys, sign(2, "nobody"), 0},
		{"the key that stands for nobody", &keys, sign(0, "nobody"), 0},
		{"no key is configured", &machine.Keys{}, sign(2, "ci"), 0},
		{"a key of another stage", &keys, sign(3, "elsewhere"), 0},
		{"a key that is not valid yet", &keys, sign(4, "later"), 0},
		{"a revoked key", &keys, sign(5, "lost"), 0},
		{"a signature whose beginning is wrong", &keys, altered(0), 0},
		{"a signature whose beginning is right", &keys, altered(40), 0},
	}
	for range 200 {
		for i := range tries {
			one := &tries[i]
			began := time.Now()
			_, _, err := approval.Verify(one.request, one.keys, "approve", noon)
			took := time.Since(began)
			require.Error(t, err)
			if one.fastest == 0 || took < one.fastest {
				one.fastest = took
			}
		}
	}
	for _, one := range tries[1:] {
		if known := tries[0].fastest; one.fastest > 2*known || known > 2*one.fastest {
			t.Errorf("%s: it takes %s, and %s %s", one.name, one.fastest, tries[0].name, known)
		}
	}
}
