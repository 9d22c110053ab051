package serve

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/metrics"
)

// A signed approval has no token: it is refused for its signature, and by nobody else.
func TestSignedApprovalsAreTakenWithoutAToken(t *testing.T) {
	log, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	a := app.New()
	s := &process{App: a, log: log, logger: slog.New(slog.DiscardHandler), metrics: metrics.New(log, "", a.Now), workers: &session.Workers{}}
	routes, err := s.routes(nil, func(error) {})
	require.NoError(t, err)
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/pipelines/web/stages/eu%2Fapprove/approvals", strings.NewReader("{}"))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), "The approval is not signed as it should be") {
		t.Errorf("it is answered %d %s", response.StatusCode, text)
	}
}
