package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// served is a site with a pipeline of one stage, whose revision 1 waits to be done.
func served(t *testing.T) *site {
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	if err := os.WriteFile(filepath.Join(s.dir, "one.yaml"), []byte("pipeline: one\nstages: [{name: all, run: {manifest: m.yaml}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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

// ask asks the server on a socket.
func (s *site) ask(socket, path string) (code int, body string) {
	s.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, socket))
	}}}
	r, err := client.Get("http://server" + path)
	if err != nil {
		s.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// terminate asks a server to stop.
func (s *site) terminate(r *run) {
	s.Helper()
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
}

// A server controls what is in the log. The first signal lets what runs finish; until then it
// answers that nothing more should be asked of it.
func TestAServerControlsEverythingAndStopsWhenWhatRunsIsDone(t *testing.T) {
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
	if code := s.exit(r); code != 0 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	s.until(1, s.happened("stage-manifest-applied", "stage/one/all"))
	if _, err := os.Lstat(filepath.Join(s.dir, "socket")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// Over a socket the kernel says who asks; who comes over an address has to show a token.
func TestAServerAnswersWhoItKnows(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("without a token %s answers %s", path, answer.Status)
		}
	}
	foreign, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address(t)+"/v1/salt", nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Header.Set("Origin", "https://elsewhere.example")
	answer, err := http.DefaultClient.Do(foreign)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("what a page of another site sends is answered with %s", answer.Status)
	}
	s.terminate(r)
	if code := s.exit(r); code != 0 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
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

// A pipeline that promotes by observed state does so in the server, too.
func TestAServerPromotesWhatEnvironmentsRun(t *testing.T) {
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	if err := os.CopyFS(s.dir, os.DirFS("../../examples/promotion")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dev", "staging", "prod"} {
		s.deployster("env", "create", "-f", name+".yaml")
	}
	s.deployster("pipeline", "apply", "-f", "shop.yaml")
	r := s.serve("socket")
	s.deployster("env", "deploy", "shop/dev", "--revision", "1")
	s.until(1, s.happened("stage-finished-successfully", "stage/shop/staging"))
	s.deployster("pipeline", "approve", "shop", "prod", "1")
	s.until(1, s.happened("promotion-run-finished", "pipeline/shop"))
	s.terminate(r)
	if code := s.exit(r); code != 0 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	for _, host := range []string{"dev001", "staging001", "prod001", "prod002"} {
		if text, err := os.ReadFile(filepath.Join(s.dir, "hosts", host, "shop")); string(text) != "shop 1\n" {
			t.Errorf("%s has %q, %v", host, text, err)
		}
	}
}

// What happens is told by the rules of a file: what waits for approval, and what has finished.
func TestAServerTellsWhatHappens(t *testing.T) {
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	for name, text := range map[string]string{
		"one.yaml":   "pipeline: one\nstages: [{name: ask, approval: {}}, {name: all, run: {manifest: m.yaml}}]\n",
		"rules.yaml": "notifications: [{name: file, on: [waits-for-approval, finished], command: [sh, -c, 'cat >> told']}]\n",
		"wrong.yaml": "notifications: [{name: file, on: [finishd], command: [sh]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
	s.terminate(r)
	if code := s.exit(r); code != 0 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
}

// What does not finish in time is killed, and the next server goes on with it.
func TestAServerThatMayNotWaitAnyLongerKillsWhatRuns(t *testing.T) {
	s := served(t)
	s.hold("a")
	r := s.serve("socket", "--stop-timeout", "1s")
	s.untilBusy("a")
	s.terminate(r)
	if code := s.exit(r); code != 1 || !strings.Contains(r.out.String(), "has not finished within --stop-timeout 1s") {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	s.release("a")
	if err := os.Remove(s.thing("a.busy")); err != nil { // what was killed in its midst leaves it
		t.Fatal(err)
	}
	next := s.serve("socket")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	s.terminate(next)
	if code := s.exit(next); code != 0 {
		t.Errorf("exit %d\n%s", code, next.out)
	}
}

// A server that is killed in the midst of a step is followed by the one that stood by; the
// next one on its socket replaces it.
func TestAStandbyTakesOverFromAServerThatIsKilled(t *testing.T) {
	s := served(t)
	s.hold("a")
	first := s.serve("socket")
	s.untilBusy("a")
	second := s.serve("other")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.exit(first)
	s.release("a")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	third := s.serve("socket")
	if code, body := s.ask("socket", "/readyz"); code != http.StatusOK {
		t.Errorf("on the socket of the one that was killed it is ready with %d %s", code, body)
	}
	s.wantRefused("another process does so already", "serve", "--socket", "socket")
	for _, r := range []*run{second, third} {
		s.terminate(r)
		if code := s.exit(r); code != 0 {
			t.Errorf("exit %d\n%s", code, r.out)
		}
	}
	applied := 0
	for _, e := range s.events() {
		if e.Name == "pipeline-finished-successfully" {
			applied++
		}
	}
	if applied != 1 {
		t.Errorf("the revision finished %d times", applied)
	}
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
