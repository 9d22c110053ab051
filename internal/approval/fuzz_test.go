package approval_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/approval"
	machine "github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/record"
)

// What is decoded has all that is needed, and decodes to itself.
func FuzzDecodeBody(f *testing.F) {
	hash := "sha256:" + strings.Repeat("0", 64)
	for _, text := range []string{
		"", "{}", "[]", "null", `{"pipeline":"web","stage":"approve","revision":"3","carries":"` + hash + `"}`,
		`{"pipeline":"web","stage":"eu/approve","revision":"3","carries":"` + hash + `","reason":"ok"} {}`, `{"Pipeline":1}`, "{\"reason\":\"\x00\"}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := approval.DecodeBody(text)
		if err != nil {
			return
		}
		if b.Pipeline == "" || b.Stage == "" || b.Revision == "" || len(b.Carries) != len(hash) {
			t.Errorf("%q decodes to %+v", text, b)
		}
		again, _ := json.Marshal(b)
		if len(again) > approval.MaxBody {
			return // what is escaped is longer
		}
		if other, err := approval.DecodeBody(again); err != nil || other != b {
			t.Errorf("%+v decodes to %+v (%v)", b, other, err)
		}
	})
}

// Whatever the fields of a signed request are made of, it is refused unless it is the one
// that was signed.
func FuzzVerify(f *testing.F) {
	key := keyOf(1)
	var keys machine.Keys
	e, err := keys.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: public(key)}, "id", "ann")
	require.NoError(f, err)
	keys.Apply(e)
	target := &url.URL{Scheme: "https", Host: "deploy.example", Path: approval.Path("web", "approve")}
	signed := approval.Request{Method: http.MethodPost, URL: target, Body: []byte("{}")}
	header, err := approval.Sign(signed, key, "ci", "a nonce that is long", noon, time.Minute)
	require.NoError(f, err)
	f.Add(header.Get("Signature-Input"), header.Get("Signature"), header.Get("Content-Digest"), signed.Body)
	f.Add(`sig1=("@method" "@target-uri" "content-digest")`, `sig1=:AAAA:`, `sha-256=1`, []byte{})
	f.Add(`sig1=("@method";req "@target-uri" "content-digest");created=1;expires=2;nonce="0123456789abcdef";keyid="ci"`, `sig1`, `sha-256=:AAAA:`, []byte("x"))
	f.Add(`sig1=1;created="x"`, `sig1=()`, `sha-256=(1 2)`, []byte("x"))
	f.Fuzz(func(t *testing.T, input, signature, digest string, body []byte) {
		r := approval.Request{Method: http.MethodPost, URL: target, Body: body, Header: http.Header{"Signature-Input": {input}, "Signature": {signature}, "Content-Digest": {digest}}}
		identity, s, err := approval.Verify(r, &keys, "approve", noon)
		var refused *approval.Refused
		switch {
		case err == nil && (identity != "key:ci" || s.Nonce != "a nonce that is long" || string(body) != "{}"):
			t.Errorf("%q %q %q %q is believed to be of %s", input, signature, digest, body, identity)
		case err != nil && !errors.As(err, &refused):
			t.Errorf("it is refused by %v", err)
		case err != nil && strings.Contains(err.Error(), header.Get("Signature")):
			t.Errorf("%v shows the signature", err)
		}
	})
}

var _ approval.Keys = (*machine.Keys)(nil)

func TestTheLogSaysWhyAndTheAnswerDoesNot(t *testing.T) {
	s := newSite(t, 1)
	h := approval.New(s.all(), func() time.Time { return s.now })
	f := s.good()
	f.keyID = "nobody"
	text, _ := json.Marshal(f.body)
	target := &url.URL{Scheme: "https", Host: "deploy.example", Path: approval.Path("web", "approve")}
	r := approval.Request{Method: http.MethodPost, URL: target, Body: text}
	header, err := approval.Sign(r, f.key, f.keyID, f.nonce, f.created, f.life)
	require.NoError(t, err)
	r.Header = header
	_, err = h.Approve(t.Context(), "web", "approve", r)
	assert.Equal(t, `the signature is refused: key "nobody" is not known`, err.Error(), "the log says")
	for range s.log.Read(t.Context(), deploylog.Filter{Name: record.StageApproved}) {
		t.Error("it is recorded")
	}
}
