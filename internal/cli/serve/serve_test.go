package serve

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/metrics"
	"github.com/deployster-go/deployster/internal/must"
)

// A signed approval has no token: it is refused for its signature, and by nobody else.
func TestSignedApprovalsAreTakenWithoutAToken(t *testing.T) {
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	t.Cleanup(func() { _ = log.Close() })
	a := app.New()
	s := &process{App: a, log: log, logger: slog.New(slog.DiscardHandler), metrics: metrics.New(log, "", a.Now), workers: &session.Workers{}}
	routes := must.Get(s.routes(nil, func(error) {}))(t)
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/pipelines/web/stages/eu%2Fapprove/approvals", strings.NewReader("{}"))
	require.NoError(t, err)
	response := must.Get(http.DefaultClient.Do(r))(t)
	defer func() { _ = response.Body.Close() }()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), "The approval is not signed as it should be") {
		t.Errorf("it is answered %d %s", response.StatusCode, text)
	}
}

func TestAServerHasANameThatLasts(t *testing.T) {
	for what, c := range map[string]struct {
		o          options
		host, want string
	}{
		"where it listens tells two of a machine apart": {options{listen: []string{"0.0.0.0:7450"}}, "one", "one 0.0.0.0:7450"},
		"sockets do so, too":                            {options{listen: []string{":1", ":2"}, sockets: []string{"/run/s"}}, "one", "one :1 :2 /run/s"},
		"systemd says where":                            {options{}, "one", "one"},
		"somebody says which":                           {options{name: "web 1", listen: []string{":1"}}, "one", "web 1"},
		"a machine without a name":                      {options{listen: []string{":1"}}, "", "server :1"},
		"letters are counted, and not bytes":            {options{name: strings.Repeat("ü", 200)}, "one", strings.Repeat("ü", 200)},
		"too long":                                      {options{name: strings.Repeat("ü", 201)}, "one", "refused"},
		"what a terminal would obey":                    {options{name: "\x1b[2J"}, "one", "refused"},
		"what is no text":                               {options{name: "\xff\n"}, "one", "refused"},
	} {
		err := c.o.readName(func() (string, error) {
			if c.host == "" {
				return "", errors.New("it has none")
			}
			return c.host, nil
		})
		if got := c.o.name; (err != nil) != (c.want == "refused") || err == nil && got != c.want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, c.want)
		}
	}
}

// Sockets that systemd has passed to another process are not waited for: the server would listen
// nowhere.
func TestSocketsOfSystemdAreForOneProcess(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		fds, pid  string
		activated bool
	}{
		{"1", own, true},
		{"1", "1", false},
		{"1", "", false},
		{"0", own, false},
		{"", "", false},
		{"x", own, false},
	} {
		t.Setenv("LISTEN_FDS", c.fds)
		t.Setenv("LISTEN_PID", c.pid)
		if activated() != c.activated {
			t.Errorf("LISTEN_FDS=%s LISTEN_PID=%s: it is activated: %v", c.fds, c.pid, !c.activated)
		}
	}
}
