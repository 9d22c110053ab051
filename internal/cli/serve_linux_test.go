package cli_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/identity/oidc"
	"github.com/deployster-go/deployster/internal/must"
)

// served is a site with a pipeline of one stage, whose revision 1 waits to be done.
func served(t *testing.T) *site {
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	s.write("one.yaml", "pipeline: one\nstages: [{name: all, run: {manifest: m.yaml}}]\n")
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	return s
}

func (s *site) serve(socket string, args ...string) *run {
	s.Helper()
	r := s.start(append([]string{"serve", "--socket", socket}, args...)...)
	r.out.until(s.T, "listening")
	return r
}

// token is what authenticates by a new token of a role.
func (s *site) token(name, role string, scope ...string) string {
	command := s.command(append([]string{"token", "create", name, "--role", role}, scope...)...)
	secret := must.Get(command.Output())(s)
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

func (s *site) ask(socket, path string) (code int, body string) {
	client := &http.Client{Transport: s.on(socket)}
	r := must.Get(client.Get("http://server" + path))(s)
	defer r.Body.Close()
	text := must.Get(io.ReadAll(r.Body))(s)
	return r.StatusCode, string(text)
}

func (s *site) terminate(r *run) { s.signal(r, syscall.SIGTERM) }

// end asks a server to stop, which it does well.
func (s *site) end(r *run) {
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
	code, body := s.ask("socket", "/readyz")
	assert.Equal(t, http.StatusOK, code, "at work it is ready with %d %s", code, body)
	s.terminate(r)
	r.out.until(t, "stopping")
	if code, body := s.ask("socket", "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "it stops") {
		t.Errorf("while it stops it is ready with %d %s", code, body)
	}
	code, body = s.ask("socket", "/healthz")
	assert.Equal(t, http.StatusOK, code, "while it stops it is alive with %d %s", code, body)
	_, body = s.ask("socket", "/metrics")
	assert.Contains(t, body, `deployster_pipeline_revisions_in_progress{pipeline="one"} 1`, "the metrics")
	s.release("a")
	s.wantEnd(r, 0)
	s.until(1, s.happened("stage-manifest-applied", "stage/one/all"))
	assert.ErrorIs(t, must.Fail(os.Lstat(filepath.Join(s.dir, "socket"))), os.ErrNotExist, "the socket is left")
}

// Over a socket the kernel says who asks; who comes over an address has to show a token.
func TestAServerAnswersWhoItKnows(t *testing.T) {
	t.Parallel()
	s := served(t)
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	for path, open := range map[string]bool{"/v1/log": false, "/v1/openapi.json": false, "/metrics": false, "/healthz": true, "/readyz": true} {
		code, body := s.ask("socket", path)
		assert.Equal(t, http.StatusOK, code, "over the socket %s answers %d %s", path, code, body)
		want := http.StatusUnauthorized
		if open {
			want = http.StatusOK
		}
		answer := must.Get(http.Get("http://" + r.address(t) + path))(t)
		_ = answer.Body.Close()
		assert.Equal(t, want, answer.StatusCode, "without a token %s answers %s", path, answer.Status)
	}
	foreign := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address(t)+"/v1/salt", nil))(t)
	foreign.Header.Set("Origin", "https://elsewhere.example")
	answer := must.Get(http.DefaultClient.Do(foreign))(t)
	_ = answer.Body.Close()
	assert.Equal(t, http.StatusForbidden, answer.StatusCode, "what a page of another site sends is answered with %s", answer.Status)
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
	out := s.deployster("notification", "list")
	assert.True(t, strings.Contains(out, "file") && strings.Contains(out, "2"), "listed is\n%s", out)
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

// environmentCheckout is a directory with an environment whose tasks write a text.
func environmentCheckout(t *testing.T, dir, text string) {
	writeFiles(t, dir, map[string]string{
		"shop.yaml":      "name: shop\ntask: {manifest: t.yaml, vars: {text: one}}\ninstance_group: {query: name exists}\ndeployment: {min_healthy_percent: 0, min_healthy_time: 0s}\n",
		"t.yaml":         `{plugs: {root: {path: things}}, resources: {current: {type: deployster/file, config: {path: shop, content: "{{ text }} ` + text + `"}}}}`,
		"inventory.yaml": "hosts: [{name: h1, engine: oci}]\n",
	})
}

// Whoever has but a checkout and a token keeps an environment as whoever has the log does; the
// server does it, with what is in the checkout.
func TestAnEnvironmentIsKeptThroughAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  {}")
	environmentCheckout(t, s.dir, "at the server")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far := t.TempDir()
	environmentCheckout(t, far, "from the checkout")
	require.NoError(t, os.Mkdir(filepath.Join(far, "things"), 0o700))
	ci := asker{program: binary, dir: far, server: "http://" + r.address(t), token: s.token("shop", "operator", "--environment", "shop")}
	other, lead := ci, ci
	other.token, lead.token = s.token("other", "operator", "--environment", "other"), s.token("lead", "operator")

	other.want(t, 1, "you may not do this", "env", "create", "-f", "shop.yaml")
	ci.want(t, 1, "what its revisions may bring is for an operator of everything to say", "env", "create", "-f", "shop.yaml")
	lead.want(t, 0, "environment shop is created, revision 1 (event ", "env", "create", "-f", "shop.yaml")
	ci.want(t, 1, "already exists", "env", "create", "-f", "shop.yaml")
	other.want(t, 1, "you may not do this", "env", "deploy", "shop", "--revision", "1")
	ci.want(t, 0, "has finished: 1 host healthy", "env", "deploy", "shop", "--revision", "1", "--wait")
	s.wantThing("shop", "one from the checkout")
	ci.want(t, 0, "environment shop has revision 2", "env", "update", "shop", "--base", "1", "--set", "task.vars.text=two")
	ci.want(t, 1, "stale base", "env", "update", "shop", "--base", "1", "--set", "task.vars.text=three")
	ci.want(t, 0, "has finished: 1 host healthy", "env", "deploy", "shop", "--revision", "2", "--wait", "--reason", "newer")
	s.wantThing("shop", "two from the checkout")
	ci.want(t, 0, "is started, 1 host", "env", "rollback", "shop", "--reason", "worse")
	s.until(3, recorded("environment-finished-successfully"))
	s.wantThing("shop", "one from the checkout")
	for _, args := range [][]string{{"env", "status", "shop"}, {"env", "show", "shop", "--output", "json"}, {"env", "history", "shop"}, {"env", "revisions", "shop"}} {
		here := s.deployster(args...)
		there, code := ci.run(t, args...)
		assert.True(t, code == 0 && there == here, "%q: exit %d\nthere\n%s\nhere\n%s", args, code, there, here)
	}
	ci.want(t, 3, "has no host h2", "env", "cordon", "shop", "h2")
	ci.want(t, 0, "environment shop is deleted", "env", "delete", "shop", "--terminate-tasks", "--yes", "--wait")
	assert.ErrorIs(t, must.Fail(os.Stat(s.thing("shop"))), os.ErrNotExist, "what it made is left")
	s.wantBy("environment-created", "token lead")
	s.wantBy("environment-updated", "token shop")
	s.wantBy("environment-started", "token shop")
	s.end(r)
}

func (s *site) wantThing(name, want string) {
	text, err := os.ReadFile(s.thing(name))
	assert.Equal(s, want, string(text), "%s is %q, %v", name, text, err)
}

// A job of a CI system releases with the token that its system has issued to it, and is who
// the log says has done so. Nothing of the token gets into the log of the server.
func TestAServerTakesTheTokensOfACISystem(t *testing.T) {
	t.Parallel()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		keys := []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig"}}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys", "keys": keys}))
	}))
	defer issuer.Close()
	token := func(repository string) string {
		signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil))(t)
		signed, err := signer.Sign(fmt.Appendf(nil, `{"iss": %q, "aud": "https://deploy.example.com", "sub": "repo:%s", "repository": %q, "ref": "refs/heads/main", "exp": %d}`,
			issuer.URL, repository, repository, time.Now().Add(time.Hour).Unix()))
		require.NoError(t, err)
		text := must.Get(signed.CompactSerialize())(t)
		return text
	}
	s := served(t)
	example := must.Get(os.ReadFile("../../examples/server/oidc.yaml"))(t)
	require.NoError(t, must.Fail(oidc.Parse("oidc.yaml", "/", example)))
	ours := strings.ReplaceAll(strings.ReplaceAll(string(example), "https://token.actions.githubusercontent.com", issuer.URL), "[gateway]", "[one]")
	writeFiles(t, s.dir, map[string]string{"oidc.yaml": ours, "wrong.yaml": "issuers: [{name: github}]\n"})
	s.wantRefused("wrong.yaml:1:11: issuers[0]: the issuer has no issuer", "serve", "--oidc", "wrong.yaml")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json", "--oidc", "oidc.yaml")
	job := asker{program: binary, dir: s.dir, server: "http://" + r.address(t)}
	for repository, code := range map[string]int{"acme/gateway": 0, "acme/other": 1} {
		job.token = token(repository)
		job.want(t, code, "", "pipeline", "pause", "one")
		for _, part := range strings.Split(job.token, ".") {
			assert.NotContains(t, r.out.String(), part, "the token is logged:\n%s", r.out)
		}
	}
	s.wantBy("pipeline-paused", "github repo:acme/gateway")
	if !strings.Contains(r.out.String(), `"issuer":"github","reason":"its claims are those of no grant"`) {
		t.Errorf("it is not said why a token was refused:\n%s", r.out)
	}
	s.end(r)
}

// Who has a key and may but read approves through a server, as the owner of the key: through
// whichever address, for which the approval is signed.
func TestSignedApprovalsAreGivenThroughAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  {}")
	s.write("one.yaml", "pipeline: one\nstages: [{name: ask, approval: {approvals: 2}}]\n")
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	for _, key := range []string{"ci", "lead", "stray"} {
		s.deployster("pipeline", "key", "create", "one", key, "--owner", key+".owner", "--out", key+".pem")
	}
	s.deployster("pipeline", "key", "revoke", "one", "stray")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	s.until(1, s.happened("stage-started", "stage/one/ask"))
	far := asker{program: binary, dir: s.dir, server: "http://" + r.address(t), token: s.token("reader", "viewer")}
	near := asker{program: binary, dir: s.dir, server: "unix:" + filepath.Join(s.dir, "socket")}

	far.want(t, 1, "you may not do this", "pipeline", "approve", "one", "ask", "1")
	far.want(t, 1, "does not accept the signature, which is for http://127.0.0.1:", "pipeline", "approve", "one", "ask", "1", "--key", "stray.pem")
	far.want(t, 1, "no-such.pem", "pipeline", "approve", "one", "ask", "1", "--key", "no-such.pem")
	far.want(t, 0, "revision 1 of pipeline one waits at stage ask: ", "pipeline", "approve", "one", "ask", "1", "--key", "ci.pem", "--reason", "all green")
	far.want(t, 1, "ci.owner", "pipeline", "approve", "one", "ask", "1", "--key", "ci.pem") // it counts once
	near.want(t, 0, "revision 1 of pipeline one is approved at stage ask (event ", "pipeline", "approve", "one", "ask", "1", "--key", "lead.pem")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	s.wantBy("stage-approval-given", "key:ci.owner")
	s.end(r)

	s.deployster("pipeline", "release", "one", "2")
	r = s.serve("socket", "--public-url", "https://deploy.example", "--output", "json")
	s.until(2, s.happened("stage-started", "stage/one/ask"))
	near.want(t, 1, "serve --public-url", "pipeline", "approve", "one", "ask", "2", "--key", "ci.pem")
	s.end(r)
}

// An admin creates and revokes tokens wherever they are. What authenticates by a token is made
// where it is asked for, and sent to nobody.
func TestTokensAreManagedThroughAServer(t *testing.T) {
	t.Parallel()
	s := served(t)
	socket := filepath.Join(t.TempDir(), "socket")
	r := s.serve(socket)
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	admin := asker{program: binary, dir: t.TempDir(), server: "unix:" + socket}
	create := func(c asker, args ...string) asker {
		said, code := c.run(t, append([]string{"token", "create"}, args...)...)
		lines := strings.Split(strings.TrimSpace(said), "\n")
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "dpl_") })
		require.True(t, code == 0 && at >= 0, "token create %q: exit %d\n%s", args, code, said)
		c.token = lines[at]
		return c
	}
	admin.want(t, 3, "run it where the log is", "serve", "--socket", filepath.Join(admin.dir, "other")) // it would ask itself
	lead := create(admin, "lead", "--role", "admin")
	ci := create(lead, "ci", "--role", "operator", "--pipeline", "one", "--expires", "12h")
	s.wantBy("token-created", "token lead")
	ci.want(t, 0, "is paused", "pipeline", "pause", "one", "--reason", "why")
	ci.want(t, 0, "ci     valid   operator  pipeline one", "token", "list")
	part := create(lead, "part", "--role", "admin", "--pipeline", "one")
	for name, c := range map[string]asker{"an operator": ci, "the admin of one pipeline": part} {
		c.want(t, 1, "you may not do this", "token", "create", "more", "--role", "viewer")
		c.want(t, 1, "you may not do this", "token", "revoke", "lead")
		require.False(t, t.Failed(), name)
	}
	lead.want(t, 1, "there is a valid token ci (event ", "token", "create", "ci", "--role", "viewer")
	lead.want(t, 3, "must have neither slashes nor blanks", "token", "create", "a/b", "--role", "viewer")
	lead.want(t, 3, "which role?", "token", "create", "more")
	lead.want(t, 1, "there is no valid token \"nobody\"", "token", "revoke", "nobody")
	lead.want(t, 0, "token ci is revoked (event ", "token", "revoke", "ci")
	ci.want(t, 1, "a valid token is needed", "token", "list")
	lead.want(t, 0, "token lead is revoked (event ", "token", "revoke", "lead") // by itself
	lead.want(t, 1, "a valid token is needed", "token", "create", "more", "--role", "viewer")
	for _, e := range s.events() {
		for name, secret := range map[string]string{"lead": lead.token, "ci": ci.token} {
			require.NotContains(t, string(e.Data), secret)
			assert.NotContains(t, string(e.Data), secret[len(secret)-20:], "the log has what authenticates by %s: %s", name, e.Data)
		}
	}
	s.end(r)
}

// Who is operator of a pipeline or an environment alone has there what their definitions name and allow, and nothing
// else: of each thing that they bring it is said where it appears, or what is refused.
func TestWhoBringsWhatThroughAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  {}")
	files := func(dir, path string, more ...string) {
		writeFiles(t, dir, map[string]string{
			"gw.yaml":        "pipeline: gw\nallow: {plugs: {root: {path: site}}}\nstages:\n  - {name: live, deploy: {host_groups: [{name: all, hosts: name exists}], steps: [{event: host-deployed, manifest: gw-host.yaml}]}}\n",
			"gw-host.yaml":   `{plugs: {root: {path: "{{ dir }}"}}, resources: {page: {type: deployster/file, config: {path: page, content: "gw {{ revision }}` + strings.Join(more, "") + `"}}}}`,
			"shop.yaml":      "name: shop\ntask: {manifest: t.yaml, vars: {dir: site/shop}}\ninstance_group: {query: name exists}\ndeployment: {min_healthy_percent: 0, min_healthy_time: 0s}\n",
			"t.yaml":         `{plugs: {root: {path: "{{ dir }}"}}, resources: {page: {type: deployster/file, config: {path: page, content: shop}}}}`,
			"vars.auto.yaml": "dir: " + path + "\n", "inventory.yaml": "hosts: [{name: h1, engine: oci}]\n",
		})
		for _, plug := range []string{"site/shop", "site/gw", "site/next", "elsewhere"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, plug), 0o700))
		}
	}
	files(s.dir, "site/gw")
	s.deployster("pipeline", "apply", "-f", "gw.yaml")
	s.deployster("env", "create", "-f", "shop.yaml")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	of := func(scope ...string) asker {
		return asker{program: binary, dir: t.TempDir(), server: "http://" + r.address(t), token: s.token(scope[len(scope)-1], "operator", scope[:len(scope)-1]...)}
	}
	ci, shop, lead := of("--pipeline", "gw", "ci"), of("--environment", "shop", "shop"), of("lead")
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join(s.dir, name, "page"))
		if err != nil {
			return "none"
		}
		return string(text)
	}

	// Its own files and variables, within what is allowed.
	files(ci.dir, "site/gw")
	ci.want(t, 0, "revision 1 of pipeline gw is released", "pipeline", "release", "gw", "1")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/gw"))
	assert.Equal(t, "gw 1", page("site/gw"))
	files(ci.dir, "site/next")
	ci.want(t, 0, "revision 2 of pipeline gw is released", "pipeline", "release", "gw", "2")
	s.until(2, s.happened("pipeline-finished-successfully", "pipeline/gw"))
	assert.Equal(t, "gw 2", page("site/next"))

	// Neither a variable nor a manifest leads anywhere else.
	files(ci.dir, "elsewhere")
	ci.want(t, 1, "  plug root: asks for path elsewhere, writable; allowed: at or below site, path site/gw", "pipeline", "release", "gw", "3")
	files(ci.dir, "site/next/../../elsewhere")
	ci.want(t, 1, "plug root: asks for path", "pipeline", "release", "gw", "3")
	files(ci.dir, "site/gw", " evil")
	ci.want(t, 1, "  file gw-host.yaml: asks for content ", "pipeline", "release", "gw", "3")
	ci.want(t, 1, "an operator of everything accepts it", "pipeline", "release", "gw", "3")
	assert.Equal(t, "none", page("elsewhere"))

	// Who may do everything does.
	files(lead.dir, "elsewhere", " by lead")
	lead.want(t, 0, "revision 3 of pipeline gw is released", "pipeline", "release", "gw", "3")
	s.until(3, s.happened("pipeline-finished-successfully", "pipeline/gw"))
	assert.Equal(t, "gw 3 by lead", page("elsewhere"))

	// So it is with an environment.
	files(shop.dir, "site/gw")
	shop.want(t, 1, "plug root: asks for path elsewhere, writable; allowed: path site/shop", "env", "update", "shop", "--base", "1", "--set", "task.vars.dir=elsewhere")
	shop.want(t, 1, "plug root: asks for path /, writable", "env", "update", "shop", "--base", "1", "--set", "instance_group.query=name == h1", "--set", "task.vars.dir=/")
	shop.want(t, 0, "has revision 2", "env", "update", "shop", "--base", "1", "--set", "deployment.max_failed=0")
	shop.want(t, 0, "has finished: 1 host healthy", "env", "deploy", "shop", "--revision", "2", "--wait")
	assert.Equal(t, "shop", page("site/shop"))
	lead.want(t, 0, "has revision 3", "env", "update", "shop", "--base", "2", "--set", "task.vars.dir=elsewhere")
	shop.want(t, 0, "has finished: 1 host healthy", "env", "deploy", "shop", "--revision", "3", "--wait") // it may deploy what others made
	assert.Equal(t, "shop", page("elsewhere"))

	// A link that another revision left leads nowhere.
	require.NoError(t, os.Symlink("../../elsewhere", filepath.Join(s.dir, "site", "gw", "out")))
	files(ci.dir, "site/gw/out", " by lead")
	ci.want(t, 0, "revision 4 of pipeline gw is released", "pipeline", "release", "gw", "4")
	s.until(1, s.happened("pipeline-failed", "pipeline/gw"))
	ci.want(t, 0, "site/gw/out, a link that a type may have made in ", "pipeline", "explain", "gw")
	assert.Equal(t, "shop", page("elsewhere"))

	// What an environment allows counts, and what was made within it is probed and removed when it is allowed no longer.
	defined := must.Get(os.ReadFile(filepath.Join(s.dir, "shop.yaml")))(t)
	files(lead.dir, "site/gw")
	writeFiles(t, lead.dir, map[string]string{"wide.yaml": string(defined) + "allow: {plugs: {root: {path: site}}}\n"})
	lead.want(t, 0, "has revision 4", "env", "update", "shop", "--base", "3", "-f", "wide.yaml")
	shop.want(t, 0, "has revision 5", "env", "update", "shop", "--base", "4", "--set", "task.vars.dir=site/next")
	shop.want(t, 0, "has finished: 1 host healthy", "env", "deploy", "shop", "--revision", "5", "--wait")
	assert.Equal(t, "shop", page("site/next"))
	lead.want(t, 0, "has revision 6", "env", "update", "shop", "--base", "5", "-f", "shop.yaml")
	shop.want(t, 1, "plug root: asks for path site/next, writable; allowed: path site/shop", "env", "update", "shop", "--base", "6", "--set", "task.vars.dir=site/next")
	shop.want(t, 0, "has finished: 1 host healthy", "env", "deploy", "shop", "--revision", "6", "--wait")
	assert.Equal(t, []string{"none", "shop"}, []string{page("site/next"), page("site/shop")})
	s.end(r)
}
