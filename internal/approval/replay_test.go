package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/pipeline"
	machine "github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

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

// Two replicas receive the same request at the same time, many times: it counts once.
func TestAReplayAtTheSameTimeCountsOnce(t *testing.T) {
	s := newSite(t, 3)
	_, _, second := s.replica()
	f := s.good()
	text, err := json.Marshal(f.body)
	require.NoError(t, err)
	target, _ := url.Parse("http://deploy.example" + approval.Path(f.name, f.stage))
	header, err := approval.Sign(approval.Request{Method: http.MethodPost, URL: target, Body: text}, f.key, f.keyID, f.nonce, f.created, f.life)
	require.NoError(t, err)
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
	_, err := s.all().AddKey(t.Context(), "web", machine.AddKey{Key: "ci-next", Owner: "ci", Public: public(next), ID: s.id(), By: "ann"})
	require.NoError(t, err)
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
		header, err := approval.Sign(approval.Request{Method: http.MethodPost, URL: target, Body: text}, f.key, f.keyID, f.nonce, f.created, f.life)
		require.NoError(t, err)
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
		if cause := record.Cause(e); e.Target != record.Target("web") || cause == "" || strings.Contains(cause, "\n") {
			t.Errorf("%+v", e)
		}
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

// head is the newest event.
func (s *site) head() (head int64) {
	s.Helper()
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Last: 1}) {
		require.NoError(s, err)
		head = e.Seq
	}
	return head
}
