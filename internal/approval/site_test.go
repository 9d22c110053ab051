package approval_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	machine "github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// site is a server that takes approvals of pipeline web, whose revisions 1 and 2 wait at two
// stages, and a key that may approve.
type site struct {
	*testing.T
	path   string // of the log
	log    deploylog.Log
	server *httptest.Server
	p      *pipelines.Pipelines
	key    ed25519.PrivateKey
	now    time.Time
	ids    int
}

// keyOf is a key that is always the same.
func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) string {
	return base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
}

func newSite(t *testing.T, approvals int) *site {
	s := &site{T: t, path: t.TempDir() + "/log.db", key: keyOf(1), now: noon}
	s.start()
	for _, name := range []string{"web", "other"} {
		d := &definition.Definition{Name: name, Stages: []definition.Stage{
			{Name: "approve", Approval: &definition.Approval{Approvals: approvals}},
			{Name: "eu/approve", After: []string{"approve"}, Approval: &definition.Approval{Approvals: approvals}},
		}}
		s.do(name, pipeline.Define{Definition: d, ID: s.id()})
		for _, revision := range []string{"1", "2"} {
			s.do(name, pipeline.Release{Revision: revision, ID: s.id(), Carries: record.Files{"m.yaml": revision}})
			s.proceed(name)
			if revision == "1" {
				s.do(name, pipeline.Skip{Revision: "1"}) // it frees the stages for revision 2
				s.proceed(name)
			}
		}
		s.do(name, pipeline.Skip{Revision: "2"})
		s.do(name, pipeline.Release{Revision: "3", ID: s.id(), Carries: record.Files{"m.yaml": "3"}})
		s.proceed(name)
	}
	s.addKey("web", "ci", s.key)
	return s
}

func (s *site) start() { s.log, s.p, s.server = s.replica() }

// replica is another process that serves the same log.
func (s *site) replica() (deploylog.Log, *pipelines.Pipelines, *httptest.Server) {
	log := must.Get(sqlite.Open(s.Context(), s.path, sqlite.Options{Now: func() time.Time { return s.now }}))(s)
	p := pipelines.New(log, func() time.Time { return s.now })
	mux := http.NewServeMux()
	mux.Handle(approval.Pattern, approval.New(approval.Of(log, func() time.Time { return s.now }), func() time.Time { return s.now }))
	server := httptest.NewServer(mux)
	s.Cleanup(func() {
		server.Close()
		_ = log.Close()
	})
	return log, p, server
}

func (s *site) id() string { s.ids++; return time.Unix(int64(s.ids), 0).UTC().Format("id-150405") }

func (s *site) do(name string, c pipeline.Command) {
	require.NoError(s, must.Fail(s.p.Command(s.Context(), name, c)))
}

// proceed lets all happen that needs nobody.
func (s *site) proceed(name string) {
	for again := true; again; {
		again = false
		_, err := s.p.Change(s.Context(), name, false, func(state *pipeline.State) (events []deploylog.Event, err error) {
			for step := range state.Decide(s.now, pipeline.Can{}) {
				again = true
				return step.Completed(nil)
			}
			return nil, nil
		})
		require.NoError(s, err)
	}
}

func (s *site) addKey(name, id string, key ed25519.PrivateKey, stages ...string) {
	require.NoError(s, must.Fail(s.all().AddKey(s.Context(), name, machine.AddKey{Key: id, Public: public(key), Stages: stages, ID: s.id(), By: "ann"})))
}

// carries is the hash of what a revision carries that waits.
func (s *site) carries(name, revision string) (hash string) {
	_ = s.p.Follow(s.Context(), 0)
	err := s.p.Ask(name, func(state *pipeline.State) error {
		for _, r := range state.Explain(record.Target(name)) {
			if r.Approval != nil && r.Revision == revision {
				hash = r.Approval.Carries
			}
		}
		return nil
	})
	require.NoError(s, err)
	return hash
}

// forged is a request that may be changed before and after it is signed.
type forged struct {
	name, stage  string
	method       string
	body         approval.Body
	text         []byte // instead of the body
	key          ed25519.PrivateKey
	keyID, nonce string
	created      time.Time
	life         time.Duration
	to           *httptest.Server
	resent       func(*http.Request) // after it was signed
	header       http.Header         // what was sent
	sentBody     []byte
}

func (s *site) good() *forged {
	s.ids++
	return &forged{
		name: "web", stage: "approve", method: http.MethodPost, key: s.key, keyID: "ci", created: s.now, life: time.Minute, to: s.server,
		body:  approval.Body{Pipeline: "web", Stage: "approve", Revision: "3", Carries: s.carries("web", "3")},
		nonce: "a nonce that is long enough " + s.id(),
	}
}

func (s *site) send(f *forged) (status int, answer string) {
	f.sentBody = f.text
	if f.text == nil {
		f.sentBody, _ = json.Marshal(f.body)
	}
	target, err := url.Parse(f.to.URL + approval.Path(f.name, f.stage))
	require.NoError(s, err)
	signed := approval.Request{Method: f.method, URL: target, Body: f.sentBody}
	f.header = must.Get(approval.Sign(signed, f.key, f.keyID, f.nonce, f.created, f.life))(s)
	r := must.Get(http.NewRequestWithContext(s.Context(), f.method, target.String(), bytes.NewReader(f.sentBody)))(s)
	r.Header = f.header.Clone()
	if f.resent != nil {
		f.resent(r)
	}
	return s.roundTrip(r)
}

// answers fails unless a request is answered with a status, and so: exactly with unsigned, or with a part.
func (s *site) answers(f *forged, status int, says string) {
	got, answer := s.send(f)
	s.told(got, answer, status, says)
}

// answersAgain fails unless the same request, sent again, is answered so.
func (s *site) answersAgain(f *forged, to *httptest.Server, status int, says string) {
	got, answer := s.resend(f, to)
	s.told(got, answer, status, says)
}

func (s *site) told(status int, answer string, want int, says string) {
	require.Equal(s, want, status, answer)
	if says == unsigned {
		assert.Equal(s, says, answer)
	} else {
		assert.Contains(s, answer, says)
	}
}

func (s *site) roundTrip(r *http.Request) (status int, answer string) {
	response := must.Get(http.DefaultClient.Do(r))(s)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(s)
	return response.StatusCode, string(text)
}

// approvals are how many are in the log.
func (s *site) approvals() (n int) {
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{}) {
		require.NoError(s, err)
		if e.Name == record.StageApproved || e.Name == record.StageApprovalGiven || e.Name == promotion.Approved {
			n++
		}
	}
	return n
}

// all are the pipelines of both kinds.
func (s *site) all() approval.Pipelines { return approval.Of(s.log, func() time.Time { return s.now }) }
