package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served is a site with a pipeline of one stage, whose revision 1 waits to be done.
func served(t *testing.T) *site {
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	s.write("one.yaml", "pipeline: one\nstages: [{name: all, run: {manifest: m.yaml}}]\n")
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	return s
}

// serve starts a server on a socket, and waits until it listens.
func (s *site) serve(socket string, args ...string) *run {
	s.Helper()
	r := s.start(append([]string{"serve", "--socket", socket}, args...)...)
	r.out.until(s.T, "listening")
	return r
}

// token is what authenticates by a new token of a role.
func (s *site) token(name, role string, scope ...string) string {
	s.Helper()
	command := s.command(append([]string{"token", "create", name, "--role", role}, scope...)...)
	secret, err := command.Output()
	require.NoError(s, err)
	require.True(s, strings.HasPrefix(string(secret), "dpl_"), "the token is %q", secret)
	return strings.TrimSpace(string(secret))
}

// on is a transport to the server on a socket.
func (s *site) on(socket string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, socket))
	}}
}

// through is a way to the server on a socket, which has something done with each request.
func (s *site) through(socket string, do func(w http.ResponseWriter, r *http.Request, server http.Handler)) (url string) {
	to := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "server" },
		Transport: s.on(socket),
	}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { do(w, r, to) }))
	s.Cleanup(between.Close)
	return between.URL
}

// ask asks the server on a socket.
func (s *site) ask(socket, path string) (code int, body string) {
	s.Helper()
	client := &http.Client{Transport: s.on(socket)}
	r, err := client.Get("http://server" + path)
	require.NoError(s, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(s, err)
	return r.StatusCode, string(text)
}

// terminate asks a server to stop.
func (s *site) terminate(r *run) {
	s.Helper()
	s.signal(r, syscall.SIGTERM)
}

// end asks a server to stop, which it does well.
func (s *site) end(r *run) {
	s.Helper()
	s.terminate(r)
	s.wantEnd(r, 0)
}

// A server controls what is in the log. The first signal lets what runs finish; until then it
// answers that nothing more should be asked of it.
func TestAServerControlsEverythingAndStopsWhenWhatRunsIsDone(t *testing.T) {
	t.Parallel()
	s := served(t)
	s.hold("a")
	r := s.serve("socket")
	s.untilBusy("a")
	if code, body := s.ask("socket", "/readyz"); code != http.StatusOK {
		t.Errorf("at work it is ready with %d %s", code, body)
	}
	s.terminate(r)
	r.out.until(t, "stopping")
	if code, body := s.ask("socket", "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "it stops") {
		t.Errorf("while it stops it is ready with %d %s", code, body)
	}
	if code, body := s.ask("socket", "/healthz"); code != http.StatusOK {
		t.Errorf("while it stops it is alive with %d %s", code, body)
	}
	if _, body := s.ask("socket", "/metrics"); !strings.Contains(body, `deployster_pipeline_revisions_in_progress{pipeline="one"} 1`) {
		t.Errorf("the metrics are\n%s", body)
	}
	s.release("a")
	s.wantEnd(r, 0)
	s.until(1, s.happened("stage-manifest-applied", "stage/one/all"))
	if _, err := os.Lstat(filepath.Join(s.dir, "socket")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// Over a socket the kernel says who asks; who comes over an address has to show a token.
func TestAServerAnswersWhoItKnows(t *testing.T) {
	t.Parallel()
	s := served(t)
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	for path, open := range map[string]bool{"/v1/log": false, "/v1/openapi.json": false, "/metrics": false, "/healthz": true, "/readyz": true} {
		if code, body := s.ask("socket", path); code != http.StatusOK {
			t.Errorf("over the socket %s answers %d %s", path, code, body)
		}
		want := http.StatusUnauthorized
		if open {
			want = http.StatusOK
		}
		answer, err := http.Get("http://" + r.address(t) + path)
		require.NoError(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("without a token %s answers %s", path, answer.Status)
		}
	}
	foreign, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address(t)+"/v1/salt", nil)
	require.NoError(t, err)
	foreign.Header.Set("Origin", "https://elsewhere.example")
	answer, err := http.DefaultClient.Do(foreign)
	require.NoError(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("what a page of another site sends is answered with %s", answer.Status)
	}
	s.end(r)
}

// address is that on which a server listens that writes its log as JSON.
func (r *run) address(t *testing.T) string {
	t.Helper()
	r.out.until(t, `"network":"tcp"`)
	for line := range strings.Lines(r.out.String()) {
		var said struct{ Network, Address string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Network == "tcp" {
			return said.Address
		}
	}
	t.Fatalf("it does not say where it listens:\n%s", r.out)
	return ""
}

// What happens is told by the rules of a file: what waits for approval, and what has finished.
func TestAServerTellsWhatHappens(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	writeFiles(t, s.dir, map[string]string{
		"one.yaml":   "pipeline: one\nstages: [{name: ask, approval: {}}, {name: all, run: {manifest: m.yaml}}]\n",
		"rules.yaml": "notifications: [{name: file, on: [waits-for-approval, finished], command: [sh, -c, 'cat >> told']}]\n",
		"wrong.yaml": "notifications: [{name: file, on: [finishd], command: [sh]}]\n",
	})
	s.wantRefused(`wrong.yaml:1:35: notifications[0].on[0]: "finishd" is nothing that is told`, "serve", "--notifications", "wrong.yaml")
	s.wantRefused("none.yaml", "serve", "--notifications", "none.yaml")
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	r := s.serve("socket", "--notifications", "rules.yaml")
	s.until(1, named("notification-begun"))
	s.deployster("pipeline", "release", "one", "1")
	s.until(1, named("notification-delivered"))
	s.deployster("pipeline", "approve", "one", "ask", "1")
	s.until(2, named("notification-delivered"))
	told, err := os.ReadFile(filepath.Join(s.dir, "told"))
	if lines := strings.Split(string(told), "\n"); err != nil || len(lines) != 3 ||
		!strings.Contains(lines[0], `"text":"stage/one/ask: revision 1 waits for approval"`) || !strings.Contains(lines[1], `"text":"pipeline/one: revision 1 has finished"`) {
		t.Errorf("told was %q, %v", told, err)
	}
	if out := s.deployster("notification", "list"); !strings.Contains(out, "file") || !strings.Contains(out, "2") {
		t.Errorf("listed is\n%s", out)
	}
	s.wantRefused("no such notification was put aside", "notification", "retry", "file")
	near := asker{program: binary, dir: s.dir, server: "unix:" + filepath.Join(s.dir, "socket")}
	near.want(t, 3, "no such notification was put aside", "notification", "retry", "file")
	near.want(t, 0, "file", "notification", "list")
	s.end(r)
}

// What does not finish in time is killed, and the next server goes on with it.
func TestAServerThatMayNotWaitAnyLongerKillsWhatRuns(t *testing.T) {
	t.Parallel()
	s := served(t)
	s.hold("a")
	r := s.serve("socket", "--stop-timeout", "1s")
	s.untilBusy("a")
	s.terminate(r)
	s.wantEnd(r, 1, "has not finished within --stop-timeout 1s")
	s.release("a")
	next := s.serve("socket")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	s.end(next)
}

// A server that is killed in the midst of a step is followed by the one that stood by; the
// next one on its socket replaces it.
func TestAStandbyTakesOverFromAServerThatIsKilled(t *testing.T) {
	t.Parallel()
	s := served(t)
	s.hold("a")
	first := s.serve("socket")
	s.untilBusy("a")
	second := s.serve("other")
	s.kill(first)
	s.release("a")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	third := s.serve("socket")
	if code, body := s.ask("socket", "/readyz"); code != http.StatusOK {
		t.Errorf("on the socket of the one that was killed it is ready with %d %s", code, body)
	}
	s.wantRefused("another process does so already", "serve", "--socket", "socket")
	for _, r := range []*run{second, third} {
		s.end(r)
	}
	applied := 0
	for _, e := range s.events() {
		if e.Name == "pipeline-finished-successfully" {
			applied++
		}
	}
	assert.Equal(t, 1, applied, "the revision finished")
}

// wantRefused has a command refuse with these words.
func (s *site) wantRefused(words string, args ...string) {
	s.Helper()
	r := s.start(args...)
	if code := s.exit(r); code == 0 || !strings.Contains(r.out.String(), words) {
		s.Errorf("%q: exit %d\n%s", args, code, r.out)
	}
}

func TestAServerRefusesWhatWouldNotBeSafe(t *testing.T) {
	t.Parallel()
	s := served(t)
	for _, c := range []struct {
		words string
		args  []string
	}{
		{"others than this machine can reach it", []string{"--listen", "0.0.0.0:0"}},
		{"others than this machine can reach it", []string{"--listen", ":0"}},
		{"go together", []string{"--tls-cert", "m.yaml"}},
		{"add --listen", []string{"--tls-cert", "m.yaml", "--tls-key", "m.yaml", "--socket", "s.sock"}},
		{"use --tls-cert and --tls-key, too", []string{"--client-ca", "m.yaml"}},
		{"reading the TLS file gone.crt", []string{"--tls-cert", "gone.crt", "--tls-key", "m.yaml"}},
		{"the certificate m.yaml with the key m.yaml", []string{"--tls-cert", "m.yaml", "--tls-key", "m.yaml"}},
		{"it must be HOST:PORT", []string{"--listen", "7450"}},
		{"there is something else, which is not replaced", []string{"--socket", "m.yaml"}},
		{"must be at least 1s", []string{"--check-every", "1ms"}},
		{"must not be negative", []string{"--stop-timeout", "-1s"}},
		{"must not be empty", []string{"--socket", ""}},
		{"it must be an address without a path", []string{"--public-url", "https://x.example/sub"}},
		{"is not USER=ROLE", []string{"--socket-role", "ada"}},
		{"names ada twice", []string{"--socket-role", "ada=admin", "--socket-role", "ada=viewer"}},
		{"--client-ca", []string{"--client-role", "ci=viewer"}},
		{"every task has its own", []string{"--var", "host=x"}},
	} {
		s.wantRefused(c.words, append([]string{"serve"}, c.args...)...)
	}
}
