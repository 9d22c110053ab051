package approval_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// promoting has a pipeline shop whose revision 2.0 runs in dev, and waits for approval in prod,
// which is manual as eu-prod after it.
func promoting(t *testing.T, approvals int) *site {
	s := newSite(t, 1)
	s.promote("define", func(p *promotion.State) promotion.Command {
		return promotion.Define{ID: s.id(), Definition: &definition.Definition{
			Name:      "shop",
			Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"},
			Stages: []definition.Stage{
				{Name: "dev", Environment: "dev"},
				{Name: "prod", Environment: "prod", Manual: true, Approvals: approvals, Expires: definition.Duration(time.Hour)},
				{Name: "eu-prod", Environment: "eu-prod", Manual: true},
			},
		}}
	})
	s.deploy("prod", "1.0")
	s.deploy("eu-prod", "1.0")
	s.deploy("dev", "2.0")
	s.addKey("shop", "ci", s.key)
	return s
}

func (s *site) deploy(environment, version string) {
	require.NoError(s, querytest.Deploy(s.Context(), s.log, func() time.Time { return s.now }, environment, version))
}

func (s *site) promote(what string, c func(*promotion.State) promotion.Command) {
	_, err := s.all().Observed.Change(s.Context(), "shop", true, func(p *promotion.State) ([]deploylog.Event, error) {
		return p.Propose(c(p), promotion.Observed{}, s.now)
	})
	require.NoError(s, err, what)
}

// awaited is the hash of what would be approved; "" where a revision waits for no approval.
func (s *site) awaited(stage, revision string) string {
	_, carries, err := s.all().Awaited(s.Context(), "shop", stage, revision, s.now)
	if err != nil {
		return ""
	}
	return carries
}

// ofShop is a request that approves a revision of shop.
func (s *site) ofShop(stage, revision string) *forged {
	f := s.good()
	f.name, f.stage = "shop", stage
	f.body = approval.Body{Pipeline: "shop", Stage: stage, Revision: revision, Carries: s.awaited(stage, revision)}
	if f.body.Carries == "" {
		f.body.Carries = "sha256:" + strings.Repeat("0", 64)
	}
	return f
}

// resend sends the same request again, byte by byte.
func (s *site) resend(f *forged, to *httptest.Server) (status int, answer string) {
	r := must.Get(http.NewRequestWithContext(s.Context(), f.method, to.URL+approval.Path(f.name, f.stage), bytes.NewReader(f.sentBody)))(s)
	r.Header, r.Host = f.header.Clone(), strings.TrimPrefix(f.to.URL, "http://")
	return s.roundTrip(r)
}

// ofPromotions are the approvals of the log.
func (s *site) ofPromotions() (all []deploylog.Event) {
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Name: promotion.Approved}) {
		require.NoError(s, err)
		all = append(all, e)
	}
	return all
}

func TestAnObservedRevisionIsApprovedBySignature(t *testing.T) {
	s := promoting(t, 2)
	f := s.ofShop("prod", "2.0")
	f.body.Reason = "tests passed"
	s.answers(f, http.StatusCreated, `"approved":false,"missing":{"needed":2,"by":["key:ci"]`)
	_, _, second := s.replica()
	for _, to := range []*httptest.Server{s.server, second} {
		s.answersAgain(f, to, http.StatusUnauthorized, unsigned)
	}
	once := s.ofShop("prod", "2.0")
	s.answers(once, http.StatusConflict, "by key:ci, who counts once")
	other := s.ofShop("prod", "2.0")
	other.keyID, other.key = "manager", keyOf(6)
	s.addKey("shop", "manager", other.key)
	s.answers(other, http.StatusCreated, `"by":"key:manager","approved":true`)
	all := s.ofPromotions()
	require.Len(t, all, 2, "approvals are recorded")
	for _, want := range []string{`"by":"key:ci"`, `"reason":"tests passed"`, f.nonce, f.body.Carries} {
		assert.Contains(t, string(all[0].Data), want, "it is recorded")
	}
}

func TestAReplayOfAnObservedRevisionIsRefused(t *testing.T) {
	s := promoting(t, 1)
	f := s.ofShop("prod", "2.0")
	s.answers(f, http.StatusCreated, "")
	s.deploy("dev", "3.0")
	s.deploy("dev", "2.0")
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // after the revision came anew
	s.server.Close()
	_ = s.log.Close()
	s.start()
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // after a restart
	s.promote("delete", func(*promotion.State) promotion.Command { return promotion.Delete{ID: s.id()} })
	s.answersAgain(f, s.server, http.StatusUnauthorized, unsigned) // after the pipeline was deleted
	assert.Equal(t, 1, len(s.ofPromotions()), "approvals are recorded")
}

func TestAnApprovalOfAnObservedRevisionExpires(t *testing.T) {
	s := promoting(t, 2)
	s.answers(s.ofShop("prod", "2.0"), http.StatusCreated, "")
	s.now = s.now.Add(time.Hour)
	other := s.ofShop("prod", "2.0")
	other.keyID, other.key = "manager", keyOf(6)
	s.addKey("shop", "manager", other.key)
	s.answers(other, http.StatusCreated, `"approved":false,"missing":{"needed":2,"by":["key:manager"]`)
}

func observed(all approval.Pipelines, p *promotion.State) promotion.Observed {
	return promotions.Observe(all.Environments, p, nil)
}

func TestWhatWasRefusedOfAnObservedRevisionIsNotTakenLater(t *testing.T) {
	s := promoting(t, 1)
	s.deploy("dev", "3.0")
	f := s.ofShop("prod", "3.0")
	s.deploy("dev", "2.0")
	s.answers(f, http.StatusConflict, "")
	s.deploy("dev", "3.0")
	_, _, second := s.replica()
	for _, to := range []*httptest.Server{s.server, second} {
		s.answersAgain(f, to, http.StatusUnauthorized, unsigned)
	}
	s.answers(s.ofShop("prod", "3.0"), http.StatusCreated, "")
}
