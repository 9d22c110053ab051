package approval_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	machine "github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
)

const unsigned = `{"type":"about:blank","title":"The approval is not signed as it should be","status":401,"detail":"Nothing was recorded. The log of the server says why."}` + "\n"

// kinds are the ways in which a revision comes to the stage that waits for approval: it was released, or is observed.
var kinds = map[string]struct {
	begin func(*testing.T) (*site, *forged)
	later string // stage
}{
	"released": {func(t *testing.T) (*site, *forged) { s := newSite(t, 1); return s, s.good() }, "eu/approve"},
	"observed": {func(t *testing.T) (*site, *forged) { s := promoting(t, 1); return s, s.ofShop("prod", "2.0") }, "eu-prod"},
}

// Whatever is wrong with a signature, the answer is the same to the byte: it shows neither
// which keys there are nor what the signature should have been.
func TestForgedApprovalsAreRefused(t *testing.T) {
	toRequest := func(change func(*http.Request)) func(*site, *forged, string) {
		return func(_ *site, f *forged, _ string) { f.resent = change }
	}
	toPath := func(path func(f *forged, later string) string) func(*site, *forged, string) {
		return func(_ *site, f *forged, later string) {
			f.resent = func(r *http.Request) { r.URL.Path, r.URL.RawPath = path(f, later), path(f, later) }
		}
	}
	input := func(was, is string) func(*http.Request) { // of the signature
		return func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), was, is, 1))
		}
	}
	withBody := func(r *http.Request, text string) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
	attacks := map[string]func(s *site, f *forged, later string){
		"other path: another stage":    toPath(func(f *forged, later string) string { return approval.Path(f.name, later) }),
		"other path: another pipeline": toPath(func(f *forged, _ string) string { return approval.Path("other", f.stage) }),
		"other path: no pipeline":      toPath(func(f *forged, _ string) string { return approval.Path("none", f.stage) }),
		"other path: written otherwise": func(_ *site, f *forged, _ string) {
			written := fmt.Sprintf("/stages/%%%02x%s/", f.stage[0], f.stage[1:])
			f.resent = func(r *http.Request) { r.URL.RawPath = strings.Replace(r.URL.Path, "/stages/"+f.stage+"/", written, 1) }
		},
		"other path: with a query": toRequest(func(r *http.Request) { r.URL.RawQuery = "revision=2" }),
		"other host":               toRequest(func(r *http.Request) { r.Host = "deploy.example" }),
		"other revision": toRequest(func(r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			withBody(r, regexp.MustCompile(`"revision":"[0-9.]+"`).ReplaceAllString(string(text), `"revision":"1"`))
		}),
		"other method": func(_ *site, f *forged, _ string) {
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
		"without the path":               toRequest(input(` "@target-uri"`, "")),
		"a query parameter in its place": toRequest(input(`"@target-uri"`, `"@target-uri";req`)),
		"unknown parameter":              toRequest(func(r *http.Request) { r.Header.Set("Signature-Input", r.Header.Get("Signature-Input")+`;admin=?1`) }),
		"a key id that is a number":      toRequest(input(`keyid="ci"`, `keyid=1`)),
		"a time that is text":            toRequest(input(`created=`, `created="x";x=`)),
		"another nonce":                  toRequest(input(`nonce="a`, `nonce="b`)),
		"a later expiry":                 toRequest(input(`expires=1`, `expires=2`)),
		"an algorithm with a secret":     toRequest(input(`ed25519`, `hmac-sha256`)),
		"a field of 1 MB":                toRequest(func(r *http.Request) { r.Header.Set("Signature", "sig1=:"+strings.Repeat("A", 900_000)+":") }),
		"short nonce":                    func(_ *site, f *forged, _ string) { f.nonce = "short" },
		"expired":                        func(s *site, f *forged, _ string) { f.created, f.life = s.now.Add(-2*time.Minute), time.Minute },
		"expires as it is created":       func(_ *site, f *forged, _ string) { f.life = 0 },
		"expires too late":               func(_ *site, f *forged, _ string) { f.life = time.Hour },
		"too old":                        func(s *site, f *forged, _ string) { f.created, f.life = s.now.Add(-6*time.Minute), 14*time.Minute },
		"clock skew: from the future":    func(s *site, f *forged, _ string) { f.created = s.now.Add(2 * time.Minute) },
		"unknown key":                    func(_ *site, f *forged, _ string) { f.keyID, f.key = "nobody", keyOf(2) },
		"empty key":                      func(_ *site, f *forged, _ string) { f.keyID = "" },
		"another key by its name":        func(_ *site, f *forged, _ string) { f.key = keyOf(2) },
		"the key that stands for nobody": func(_ *site, f *forged, _ string) { f.keyID, f.key = "nobody", keyOf(0) },
		"no key is configured": func(s *site, f *forged, _ string) {
			f.name, f.body.Pipeline, f.body.Carries = "other", "other", s.carries("other", "3")
		},
		"a pipeline that is not there": func(_ *site, f *forged, _ string) { f.name, f.body.Pipeline = "none", "none" },
		"revoked key": func(s *site, f *forged, _ string) {
			require.NoError(s, must.Fail(s.all().RevokeKey(s.Context(), f.name, machine.RevokeKey{Key: "ci", Reason: "lost", ID: s.id(), By: "ann"})))
		},
		"a key of another stage": func(s *site, f *forged, later string) {
			f.keyID, f.key = "later", keyOf(3)
			s.addKey(f.name, "later", f.key, later)
		},
		"a key of another pipeline": func(s *site, f *forged, _ string) {
			f.keyID, f.key = "elsewhere", keyOf(4)
			s.addKey("other", "elsewhere", f.key)
		},
	}
	for kind, k := range kinds {
		for name, attack := range attacks {
			t.Run(kind+", "+name, func(t *testing.T) {
				s, f := k.begin(t)
				attack(s, f, k.later)
				s.answers(f, http.StatusUnauthorized, unsigned)
				assert.Zero(t, s.approvals())
			})
		}
	}
}

// What is signed as it should be and makes no sense is told why: that is said to who has a key.
func TestSignedRequestsThatMakeNoSenseAreToldWhy(t *testing.T) {
	type sense struct {
		change func(*site, *forged)
		status int
		want   string
	}
	for kind, all := range map[string]map[string]sense{"released": {
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
	}, "observed": {
		"the hash of something else": {func(_ *site, f *forged) { f.body.Carries = "sha256:" + strings.Repeat("0", 64) }, http.StatusConflict, "is not what is approved"},
		"a revision that came since": {func(s *site, _ *forged) { s.deploy("dev", "3.0") }, http.StatusConflict, "what comes to stage prod next is revision 3.0"},
		"the revision came anew since": {func(s *site, _ *forged) {
			s.deploy("dev", "3.0")
			s.deploy("dev", "2.0")
		}, http.StatusConflict, "is not what is approved"},
		"another revision":                {func(_ *site, f *forged) { f.body.Revision = "1.0" }, http.StatusConflict, "what comes to stage prod next is revision 2.0"},
		"the first stage":                 {func(_ *site, f *forged) { f.stage, f.body.Stage = "dev", "dev" }, http.StatusConflict, "nothing is promoted to stage dev, which is the first"},
		"a stage that it has not come to": {func(_ *site, f *forged) { f.stage, f.body.Stage = "eu-prod", "eu-prod" }, http.StatusConflict, "nothing can come to stage eu-prod"},
		"a part of a stage's name":        {func(_ *site, f *forged) { f.stage, f.body.Stage = "shop/prod", "shop/prod" }, http.StatusUnprocessableEntity, "named in full"},
		"an unknown stage":                {func(_ *site, f *forged) { f.stage, f.body.Stage = "none", "none" }, http.StatusConflict, "none"},
		"it was rejected": {func(s *site, _ *forged) {
			all := s.all()
			require.NoError(s, all.Environments.Follow(s.Context(), 0))
			_, err := all.Observed.Change(s.Context(), "shop", false, func(p *promotion.State) ([]deploylog.Event, error) {
				return p.Propose(promotion.Reject{Stage: "prod", Revision: "2.0", ID: s.id(), By: "ann", Reason: "no"}, observed(all, p), s.now)
			})
			require.NoError(s, err)
		}, http.StatusConflict, "it was rejected at stage prod by ann"},
	}} {
		for name, c := range all {
			t.Run(kind+", "+name, func(t *testing.T) {
				s, f := kinds[kind].begin(t)
				c.change(s, f)
				s.answers(f, c.status, c.want)
				assert.Zero(t, s.approvals())
			})
		}
	}
}

func TestASignedApprovalIsRecorded(t *testing.T) {
	s := newSite(t, 1)
	f := s.good()
	f.body.Reason = "tests passed"
	s.answers(f, http.StatusCreated, `"by":"key:ci","approved":true`)
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
		s.answers(f, http.StatusCreated, "")
	}
}

// poisoned is a log to which something could not be written.
type poisoned struct{ deploylog.Log }

func (poisoned) Append(context.Context, ...deploylog.Event) ([]deploylog.Event, error) {
	return nil, deploylog.ErrPoisoned
}

// Whoever has a server run learns by an approval, too, that its log takes nothing any more.
func TestAnApprovalThatCannotBeRecordedIsTold(t *testing.T) {
	s := newSite(t, 1)
	now := func() time.Time { return s.now }
	var told []error
	h := approval.New(approval.Of(poisoned{s.log}, now), now)
	h.Failed = func(err error) { told = append(told, err) }
	mux := http.NewServeMux()
	mux.Handle(approval.Pattern, h)
	f := s.good()
	f.to = httptest.NewServer(mux)
	defer f.to.Close()
	s.answers(f, http.StatusServiceUnavailable, "before the server is started again")
	require.Len(t, told, 1)
	assert.ErrorIs(t, told[0], deploylog.ErrPoisoned, "%v is told", told)
	f.keyID = "nobody"
	s.answers(f, http.StatusUnauthorized, unsigned)
	assert.Len(t, told, 1, "who has not signed does not make the server believe that its log failed")
}

// Who has not proved to be anybody cannot fill the log of the server: a line of it is short.
func TestWhoIsRefusedFillsNoLog(t *testing.T) {
	s := newSite(t, 1)
	now := func() time.Time { return s.now }
	var said bytes.Buffer
	h := approval.New(s.all(), now)
	h.Log = slog.New(slog.NewTextHandler(&said, nil))
	mux := http.NewServeMux()
	mux.Handle(approval.Pattern, h)
	f := s.good()
	f.to = httptest.NewServer(mux)
	defer f.to.Close()
	f.name, f.stage, f.keyID = strings.Repeat("p", 10_000), strings.Repeat("s", 10_000), strings.Repeat("k", 3000)
	s.answers(f, http.StatusUnauthorized, unsigned)
	require.LessOrEqual(t, said.Len(), 1000)
	assert.Contains(t, said.String(), "is not known")
}

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
		assert.True(t, b.Pipeline != "" && b.Stage != "" && b.Revision != "" && len(b.Carries) == len(hash), "%q decodes to %+v", text, b)
		again, _ := json.Marshal(b)
		if len(again) > approval.MaxBody {
			return // what is escaped is longer
		}
		other, err := approval.DecodeBody(again)
		assert.True(t, err == nil && other == b, "%+v decodes to %+v (%v)", b, other, err)
	})
}

// Whatever the fields of a signed request are made of, it is refused unless it is the one
// that was signed.
func FuzzVerify(f *testing.F) {
	key := keyOf(1)
	var keys machine.Keys
	e := must.Get(keys.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: public(key)}, "id", "ann"))(f)
	keys.Apply(e)
	target := &url.URL{Scheme: "https", Host: "deploy.example", Path: approval.Path("web", "approve")}
	signed := approval.Request{Method: http.MethodPost, URL: target, Body: []byte("{}")}
	header := must.Get(approval.Sign(signed, key, "ci", "a nonce that is long", noon, time.Minute))(f)
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
		e := must.Get(keys.Add("pipeline/web", k, "id", "ann"))(t)
		keys.Apply(e)
	}
	e, err := keys.Revoke("pipeline/web", "lost", "id", "ann", "")
	require.NoError(t, err)
	e.Seq = 5
	keys.Apply(e)

	sign := func(seed byte, keyID string) approval.Request {
		r := approval.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "deploy.example", Path: approval.Path("web", "approve")}, Body: []byte("{}")}
		r.Header = must.Get(approval.Sign(r, keyOf(seed), keyID, "a nonce that is long", noon, time.Minute))(t)
		return r
	}
	// altered is the right signature, but for one byte.
	altered := func(at int) approval.Request {
		r := sign(1, "ci")
		text := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Signature"), "sig1=:"), ":")
		signature := must.Get(base64.StdEncoding.DecodeString(text))(t)
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

// A request is recorded, and sent again: at once, after a restart, and to a second replica,
// though the revision waits for another approval and the key for nothing.
func TestAReplayIsRefused(t *testing.T) {
	s := newSite(t, 3)
	f := s.good()
	s.answers(f, http.StatusCreated, `"approved":false,"missing":{"needed":3,"by":["key:ci"]`)
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned)
	_, _, second := s.replica()
	s.answersAgain(f, second, http.StatusUnauthorized, unsigned)
	s.server.Close()
	_ = s.log.Close()
	s.start()
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // after a restart
	// The revision is retried: what was approved before it does not count again.
	s.do("web", pipeline.Reject{Stage: "approve", Revision: "3", By: "ann", Reason: "no"})
	s.do("web", pipeline.Retry{Revision: "3"})
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // after a retry
	// The pipeline is deleted, and defined again with the same key.
	s.do("web", pipeline.Delete{ID: s.id(), Cancel: true})
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // after the pipeline was deleted
	s.do("web", pipeline.Define{Definition: &definition.Definition{Name: "web", Stages: []definition.Stage{{Name: "approve", Approval: &definition.Approval{}}}}, ID: s.id()})
	s.do("web", pipeline.Release{Revision: "3", ID: s.id(), Carries: record.Files{"m.yaml": "3"}})
	s.proceed("web")
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // without its key
	s.addKey("web", "ci", s.key)
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // in a pipeline of the same name
	assert.Equal(t, 1, s.approvals(), "approvals are recorded")
}

func TestAReplayAtTheSameTimeCountsOnce(t *testing.T) {
	s := newSite(t, 3)
	_, _, second := s.replica()
	f := s.good()
	text := must.Get(json.Marshal(f.body))(t)
	target, _ := url.Parse("http://deploy.example" + approval.Path(f.name, f.stage))
	header := must.Get(approval.Sign(approval.Request{Method: http.MethodPost, URL: target, Body: text}, f.key, f.keyID, f.nonce, f.created, f.life))(t)
	var all sync.WaitGroup
	statuses := make([]int, 8)
	for i := range statuses {
		server := []*httptest.Server{s.server, second}[i%2]
		all.Go(func() {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+approval.Path(f.name, f.stage), bytes.NewReader(text))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header, r.Host = header.Clone(), "deploy.example"
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
			statuses[i] = response.StatusCode
		})
	}
	all.Wait()
	slices.Sort(statuses)
	if statuses[0] != http.StatusCreated || statuses[1] != http.StatusUnauthorized || s.approvals() != 1 {
		t.Errorf("the answers are %v, and %d approvals are recorded", statuses, s.approvals())
	}
}

// A key is replaced while both are valid: they are of one owner, who counts once.
func TestKeysOfOneOwnerCountOnce(t *testing.T) {
	s := newSite(t, 2)
	f := s.good()
	s.answers(f, http.StatusCreated, "")
	next := keyOf(5)
	require.NoError(t, must.Fail(s.all().AddKey(t.Context(), "web", machine.AddKey{Key: "ci-next", Owner: "ci", Public: public(next), ID: s.id(), By: "ann"})))
	f = s.good()
	f.keyID, f.key = "ci-next", next
	s.answers(f, http.StatusConflict, "approved at stage approve by key:ci, who counts once")
	f = s.good()
	f.keyID, f.key = "manager", keyOf(6)
	s.addKey("web", "manager", f.key)
	s.answers(f, http.StatusCreated, `"approved":true`)
}

// Behind a proxy the target is what clients address, whatever the proxy sends.
func TestTheTargetIsThatOfClients(t *testing.T) {
	s := newSite(t, 1)
	h := approval.New(s.all(), func() time.Time { return s.now })
	h.Base = &url.URL{Scheme: "https", Host: "deploy.example"}
	f := s.good()
	text, _ := json.Marshal(f.body)
	for _, c := range []struct {
		signed string
		status int
	}{{"http://127.0.0.1", http.StatusUnauthorized}, {"https://deploy.example", http.StatusCreated}} {
		target, _ := url.Parse(c.signed + approval.Path("web", "approve"))
		header := must.Get(approval.Sign(approval.Request{Method: http.MethodPost, URL: target, Body: text}, f.key, f.keyID, f.nonce, f.created, f.life))(t)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, approval.Path("web", "approve"), bytes.NewReader(text))
		r.Header, r.Host = header, "127.0.0.1"
		r.SetPathValue("pipeline", "web")
		r.SetPathValue("stage", "approve")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, c.status, w.Code, "signed for %s it is answered %d %s", c.signed, w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	assert.Equal(t, http.MethodPost, w.Header().Get("Allow"), "GET is answered")
}

// An approval is refused because its stage does not wait yet. Who has seen it cannot have it taken
// when the stage does: not at once, not by another replica, and not after a restart. Whoever signs
// anew can.
func TestWhatWasRefusedIsNotTakenLater(t *testing.T) {
	s := newSite(t, 1)
	early := func() *forged {
		f := s.good()
		f.stage, f.body.Stage = "eu/approve", "eu/approve"
		return f
	}
	f := early()
	s.answers(f, http.StatusConflict, "")
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned)
	s.do("web", pipeline.Approve{Stage: "approve", Revision: "3", By: "ann"})
	s.proceed("web")
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned)
	_, _, second := s.replica()
	s.answersAgain(f, second, http.StatusUnauthorized, unsigned)
	s.server.Close()
	_ = s.log.Close()
	s.start()
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned)
	again := early()
	again.body.Carries = f.body.Carries
	s.answers(again, http.StatusCreated, "")
	refused := 0
	for e, err := range s.log.Read(t.Context(), deploylog.Filter{Name: record.ApprovalRefused}) {
		require.NoError(t, err)
		refused++
		cause := record.Cause(e)
		assert.True(t, e.Target == record.Target("web") && cause != "" && !strings.Contains(cause, "\n"), "%+v", e)
	}
	assert.Equal(t, 1, refused, "refusals are recorded")
}

// What nobody has signed is not recorded, nor what is too long to be kept whole.
func TestRefusalsAreRecordedOfWhatIsSignedAlone(t *testing.T) {
	s := newSite(t, 1)
	before := s.head()
	for name, change := range map[string]func(*forged){
		"another key":  func(f *forged) { f.key = keyOf(9) },
		"unknown key":  func(f *forged) { f.keyID = "nobody" },
		"changed path": func(f *forged) { f.resent = func(r *http.Request) { r.URL.RawQuery = "x" } },
		"too old":      func(f *forged) { f.created = s.now.Add(-time.Hour) },
		"other stage":  func(f *forged) { f.stage = "eu/approve" },
	} {
		f := s.good()
		f.body.Revision = "7"
		change(f)
		if status, answer := s.send(f); status != http.StatusUnauthorized && status != http.StatusUnprocessableEntity {
			t.Errorf("%s is answered %d %s", name, status, answer)
		}
	}
	assert.Equal(t, before, s.head())
	f := s.good()
	f.body.Revision = strings.Repeat("ü", 400)
	if status, answer := s.send(f); status != http.StatusConflict && status != http.StatusInternalServerError {
		t.Errorf("a long one is answered %d %.200s", status, answer)
	}
	for e, err := range s.log.Read(t.Context(), deploylog.Filter{Name: record.ApprovalRefused}) {
		require.NoError(t, err)
		assert.LessOrEqual(t, len(e.Data), 1000)
	}
	assert.Equal(t, before+1, s.head())
}

func (s *site) head() (head int64) {
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Last: 1}) {
		require.NoError(s, err)
		head = e.Seq
	}
	return head
}
