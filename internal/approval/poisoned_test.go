package approval_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/approval"
)

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
	if status, answer := s.send(f); status != http.StatusServiceUnavailable || !strings.Contains(answer, "before the server is started again") {
		t.Errorf("it is answered %d %s", status, answer)
	}
	require.Len(t, told, 1)
	assert.ErrorIs(t, told[0], deploylog.ErrPoisoned, "%v is told", told)
	f.keyID = "nobody"
	if status, answer := s.send(f); status != http.StatusUnauthorized || answer != unsigned || len(told) != 1 {
		t.Errorf("who signs nothing is answered %d %s, and %v is told", status, answer, told)
	}
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
	if status, answer := s.send(f); status != http.StatusUnauthorized || answer != unsigned {
		t.Errorf("it is answered %d %s", status, answer)
	}
	require.LessOrEqual(t, said.Len(), 1000)
	assert.Contains(t, said.String(), "is not known")
}
