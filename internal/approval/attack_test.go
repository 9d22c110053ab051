package approval_test

import (
	"bytes"
	"io"
	"net/http"
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

const unsigned = `{"type":"about:blank","title":"The approval is not signed as it should be","status":401,"detail":"Nothing was recorded. The log of the server says why."}` + "\n"

// Whatever is wrong with a signature, the answer is the same to the byte: it shows neither
// which keys there are nor what the signature should have been.
func TestForgedApprovalsAreRefused(t *testing.T) {
	toRequest := func(change func(*http.Request)) func(*site, *forged) {
		return func(_ *site, f *forged) { f.resent = change }
	}
	withBody := func(r *http.Request, text string) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
	for name, attack := range map[string]func(*site, *forged){
		"other path: another stage": toRequest(func(r *http.Request) {
			r.URL.Path = "/v1/pipelines/web/stages/eu%2Fapprove/approvals"
			r.URL.RawPath = r.URL.Path
		}),
		"other path: another pipeline":  toRequest(func(r *http.Request) { r.URL.Path = "/v1/pipelines/other/stages/approve/approvals" }),
		"other path: no pipeline":       toRequest(func(r *http.Request) { r.URL.Path = "/v1/pipelines/none/stages/approve/approvals" }),
		"other path: written otherwise": toRequest(func(r *http.Request) { r.URL.RawPath = "/v1/pipelines/web/stages/%61pprove/approvals" }),
		"other path: with a query":      toRequest(func(r *http.Request) { r.URL.RawQuery = "revision=2" }),
		"other host":                    toRequest(func(r *http.Request) { r.Host = "deploy.example" }),
		"other revision": toRequest(func(r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			withBody(r, strings.Replace(string(text), `"revision":"3"`, `"revision":"2"`, 1))
		}),
		"other method": func(_ *site, f *forged) {
			f.method = http.MethodPut
			f.resent = func(r *http.Request) { r.Method = http.MethodPost }
		},
		"changed body": toRequest(func(r *http.Request) { text, _ := io.ReadAll(r.Body); withBody(r, string(text)+" ") }),
		"changed body, and its digest": toRequest(func(r *http.Request) {
			withBody(r, "{}")
			r.Header.Set("Content-Digest", "sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:")
		}),
		"empty body":               toRequest(func(r *http.Request) { withBody(r, "") }),
		"no digest":                toRequest(func(r *http.Request) { r.Header.Del("Content-Digest") }),
		"a digest of another kind": toRequest(func(r *http.Request) { r.Header.Set("Content-Digest", "md5=:AAAA:") }),
		"two digests":              toRequest(func(r *http.Request) { r.Header.Add("Content-Digest", "sha-256=:AAAA:") }),
		"no signature":             toRequest(func(r *http.Request) { r.Header.Del("Signature") }),
		"no signature input":       toRequest(func(r *http.Request) { r.Header.Del("Signature-Input") }),
		"nothing signed":           toRequest(func(r *http.Request) { r.Header = http.Header{} }),
		"truncated signature":      toRequest(func(r *http.Request) { r.Header.Set("Signature", r.Header.Get("Signature")[:40]+":") }),
		"truncated to whole bytes": toRequest(func(r *http.Request) { r.Header.Set("Signature", "sig1=:"+strings.Repeat("A", 40)+":") }),
		"empty signature":          toRequest(func(r *http.Request) { r.Header.Set("Signature", "sig1=::") }),
		"a signature of another label": toRequest(func(r *http.Request) {
			r.Header.Set("Signature", strings.Replace(r.Header.Get("Signature"), "sig1", "sig2", 1))
		}),
		"two signatures": toRequest(func(r *http.Request) { r.Header.Set("Signature-Input", r.Header.Get("Signature-Input")+", sig2=()") }),
		"a signature of nothing": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", `sig1=();created=1;expires=2;nonce="0123456789abcdef";keyid="ci"`)
		}),
		"without the path": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), ` "@target-uri"`, "", 1))
		}),
		"a query parameter in its place": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), `"@target-uri"`, `"@target-uri";req`, 1))
		}),
		"unknown parameter": toRequest(func(r *http.Request) { r.Header.Set("Signature-Input", r.Header.Get("Signature-Input")+`;admin=?1`) }),
		"a key id that is a number": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), `keyid="ci"`, `keyid=1`, 1))
		}),
		"a time that is text": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), `created=`, `created="x";x=`, 1))
		}),
		"another nonce": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), `nonce="a`, `nonce="b`, 1))
		}),
		"a later expiry": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), `expires=1`, `expires=2`, 1))
		}),
		"an algorithm with a secret": toRequest(func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), `ed25519`, `hmac-sha256`, 1))
		}),
		"a field of 1 MB":                toRequest(func(r *http.Request) { r.Header.Set("Signature", "sig1=:"+strings.Repeat("A", 900_000)+":") }),
		"short nonce":                    func(_ *site, f *forged) { f.nonce = "short" },
		"expired":                        func(s *site, f *forged) { f.created, f.life = s.now.Add(-2*time.Minute), time.Minute },
		"expires as it is created":       func(_ *site, f *forged) { f.life = 0 },
		"expires too late":               func(_ *site, f *forged) { f.life = time.Hour },
		"too old":                        func(s *site, f *forged) { f.created, f.life = s.now.Add(-6*time.Minute), 14*time.Minute },
		"clock skew: from the future":    func(s *site, f *forged) { f.created = s.now.Add(2 * time.Minute) },
		"unknown key":                    func(_ *site, f *forged) { f.keyID, f.key = "nobody", keyOf(2) },
		"empty key":                      func(_ *site, f *forged) { f.keyID = "" },
		"another key by its name":        func(_ *site, f *forged) { f.key = keyOf(2) },
		"the key that stands for nobody": func(_ *site, f *forged) { f.keyID, f.key = "nobody", keyOf(0) },
		"no key is configured": func(s *site, f *forged) {
			f.name, f.body.Pipeline, f.body.Carries = "other", "other", s.carries("other", "3")
		},
		"a pipeline that is not there": func(_ *site, f *forged) { f.name, f.body.Pipeline = "none", "none" },
		"revoked key": func(s *site, _ *forged) {
			if _, err := s.all().RevokeKey(s.Context(), "web", machine.RevokeKey{Key: "ci", Reason: "lost", ID: s.id(), By: "ann"}); err != nil {
				s.Fatal(err)
			}
		},
		"a key of another stage": func(s *site, f *forged) {
			f.keyID, f.key = "eu", keyOf(3)
			s.addKey("web", "eu", f.key, "eu/approve")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 1)
			f := s.good()
			attack(s, f)
			status, answer := s.send(f)
			require.Equal(t, http.StatusUnauthorized, status, "it is answered %d %s", status, answer)
			assert.Equal(t, unsigned, answer, "it is answered %d %s", status, answer)
			assert.Zero(t, s.approvals())
		})
	}
}

// What is signed as it should be and makes no sense is told why: that is said to who has a key.
func TestSignedRequestsThatMakeNoSenseAreToldWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site, *forged)
		status int
		want   string
	}{
		"an empty body":                   {func(_ *site, f *forged) { f.text = []byte{} }, http.StatusUnprocessableEntity, "the body is not what it should be"},
		"unknown fields":                  {func(_ *site, f *forged) { f.text = []byte(`{"admin":true}`) }, http.StatusUnprocessableEntity, "unknown field"},
		"a body of another stage":         {func(_ *site, f *forged) { f.body.Stage = "eu/approve" }, http.StatusUnprocessableEntity, "another pipeline or stage than the path"},
		"a part of a stage's name":        {func(_ *site, f *forged) { f.stage, f.body.Stage = "web/approve", "web/approve" }, http.StatusUnprocessableEntity, "named in full"},
		"no hash":                         {func(_ *site, f *forged) { f.body.Carries = "" }, http.StatusUnprocessableEntity, "carries must be the hash"},
		"the hash of something else":      {func(_ *site, f *forged) { f.body.Carries = "sha256:" + strings.Repeat("0", 64) }, http.StatusConflict, "does not carry what is approved"},
		"another revision":                {func(_ *site, f *forged) { f.body.Revision = "2" }, http.StatusConflict, "it is skipped since"},
		"a stage that it has not come to": {func(_ *site, f *forged) { f.stage, f.body.Stage = "eu/approve", "eu/approve" }, http.StatusConflict, "has not reached it"},
		"an unknown stage":                {func(_ *site, f *forged) { f.stage, f.body.Stage = "none", "none" }, http.StatusConflict, "unknown stage"},
		"a huge body":                     {func(_ *site, f *forged) { f.text = bytes.Repeat([]byte("x"), approval.MaxBody+1) }, http.StatusRequestEntityTooLarge, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 1)
			f := s.good()
			c.change(s, f)
			if status, answer := s.send(f); status != c.status || !strings.Contains(answer, c.want) {
				t.Errorf("it is answered %d %s", status, answer)
			}
			assert.Zero(t, s.approvals())
		})
	}
}

func TestASignedApprovalIsRecorded(t *testing.T) {
	s := newSite(t, 1)
	f := s.good()
	f.body.Reason = "tests passed"
	status, answer := s.send(f)
	require.Equal(t, http.StatusCreated, status, "it is answered %d %s", status, answer)
	require.Contains(t, answer, `"by":"key:ci","approved":true`, "it is answered %d %s", status, answer)
	for e := range s.log.Read(s.Context(), deploylog.Filter{Name: record.StageApproved}) {
		p, info := record.Read(e.Data), record.ApprovalOf(e)
		if p.By != "key:ci" || p.Reason != "tests passed" || info.Signature.Nonce != f.nonce || info.Carries != f.body.Carries {
			t.Errorf("it is recorded as %s", e.Data)
		}
	}
}

// The clock of who signs may be ahead a little, and the message may take a while.
func TestClocksMayDifferALittle(t *testing.T) {
	for _, created := range []time.Duration{59 * time.Second, -4 * time.Minute} {
		s := newSite(t, 1)
		f := s.good()
		f.created, f.life = s.now.Add(created), 10*time.Minute
		if status, answer := s.send(f); status != http.StatusCreated {
			t.Errorf("created %s from now it is answered %d %s", created, status, answer)
		}
	}
}
