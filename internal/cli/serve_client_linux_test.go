package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
)

const asked = `
pipeline: one
allow: {files: [m.yaml]}
stages:
  - {name: ask, approval: {}}
  - {name: all, run: {manifest: m.yaml}}
`

// checkout is a directory with a pipeline that asks, and a manifest that writes a text.
func checkout(t *testing.T, dir, text string) {
	manifest := `{plugs: {root: {path: things}}, resources: {current: {type: deployster/file, config: {path: current, content: "` + text + ` {{ revision }}"}}}}`
	writeFiles(t, dir, map[string]string{"one.yaml": asked, "m.yaml": manifest})
}

// asker is who asks a server: another directory, perhaps another user, and no log.
type asker struct {
	program, dir string
	server       string
	token        string
	as           *syscall.Credential
}

// run is what a command prints that is sent to the server, and how it ends.
func (c asker) run(t *testing.T, args ...string) (said string, code int) {
	command := exec.Command(c.program, args...)
	command.Dir = c.dir
	command.Env = append(os.Environ(), "DEPLOYSTER_SERVER="+c.server, "DEPLOYSTER_TOKEN="+c.token, "HOME="+c.dir, "XDG_CACHE_HOME="+filepath.Join(c.dir, "cache"))
	command.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	text, err := command.CombinedOutput()
	var ended *exec.ExitError
	require.True(t, err == nil || errors.As(err, &ended), "%v", err)
	return string(text), command.ProcessState.ExitCode()
}

// want has a command end with a code and say some words.
func (c asker) want(t *testing.T, code int, words string, args ...string) {
	said, got := c.run(t, args...)
	assert.True(t, got == code && strings.Contains(said, words), "%q: exit %d, want %d and %q:\n%s", args, got, code, words, said)
}

// wantBy has an event in the log that says who wanted it.
func (s *site) wantBy(name, who string) {
	s.Helper()
	if !slices.ContainsFunc(s.events(), func(e deploylog.Event) bool {
		return e.Name == name && strings.Contains(string(e.Data), `"by":"`+who+`"`)
	}) {
		s.Errorf("the log has no %s by %s, but %v", name, who, s.names())
	}
}

// Whoever has but a checkout and a token releases what is in the checkout; the server does it.
func TestARevisionIsReleasedThroughAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  {}")
	checkout(t, s.dir, "at the server")
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far := t.TempDir()
	checkout(t, far, "from the checkout")
	ci := asker{program: binary, dir: far, server: "http://" + r.address(t), token: s.token("ci", "operator", "--pipeline", "one")}
	boss, other, nobody := ci, ci, ci
	boss.token, other.token, nobody.token = s.token("boss", "approver"), s.token("other", "operator", "--pipeline", "two"), ""

	nobody.want(t, 1, "a valid token is needed", "pipeline", "status", "one")
	other.want(t, 1, "you may not do this", "pipeline", "release", "one", "1")
	boss.want(t, 1, "you may not do this", "pipeline", "release", "one", "1")
	ci.want(t, 0, "revision 1", "pipeline", "release", "one", "1")
	s.until(1, s.happened("stage-started", "stage/one/ask"))
	ci.want(t, 1, "you may not do this", "pipeline", "approve", "one", "ask", "1")
	boss.want(t, 0, "approved", "pipeline", "approve", "one", "ask", "1")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	s.wantThing("current", "from the checkout 1")
	for _, args := range [][]string{{"pipeline", "status", "one"}, {"pipeline", "show", "one", "1", "--output", "json"}, {"pipeline", "history", "one"}, {"log", "list"}} {
		here := s.deployster(args...)
		there, code := ci.run(t, args...)
		assert.True(t, code == 0 && there == here, "%q: exit %d\nthere\n%s\nhere\n%s", args, code, there, here)
	}
	s.wantBy("pipeline-started", "token ci")
	s.wantBy("stage-approved", "token boss")

	lead := ci
	lead.token = s.token("lead", "admin", "--pipeline", "one")
	writeFiles(t, far, map[string]string{"one.yaml": asked + "  - {name: last, approval: {}}\n"})
	ci.want(t, 1, "you may not do this", "pipeline", "apply", "-f", "one.yaml", "--yes")
	lead.want(t, 0, "pipeline one is defined, 3 stages", "pipeline", "apply", "-f", "one.yaml", "--yes")
	lead.want(t, 0, "pipeline one is defined like that already", "pipeline", "apply", "-f", "one.yaml")
	s.wantBy("pipeline-defined", "token lead")

	s.deployster("token", "revoke", "ci")
	ci.want(t, 1, "a valid token is needed", "pipeline", "status", "one")
	old := time.Now().AddDate(-1, 0, 0)
	secret, _, err := identity.NewTokens(s.log, func() time.Time { return old }).Create(t.Context(), identity.New{
		Name: "old", ID: "01OLD", Grant: identity.Grant{Role: identity.Admin}, Expires: old.AddDate(0, 1, 0), By: "ada",
	})
	require.NoError(t, err)
	ci.token = secret
	ci.want(t, 1, "a valid token is needed", "pipeline", "pause", "one")
	s.end(r)
}

// Every user of the machine reads the log of a socket. Who else may do something, is said
// when the server is started.
func TestUsersOfTheMachineReadThroughASocket(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		require.Empty(t, os.Getenv("CI"), "only root can be another user, and what a machine cannot run fails in CI")
		t.Skip("only root can be another user")
	}
	s := served(t)
	const uid = 65534
	name := "uid 65534"
	if u, err := user.LookupId("65534"); err == nil {
		name = u.Username
	}
	open, err := os.MkdirTemp("", "deployster-open-") // t.TempDir is not for others
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	program, err := os.ReadFile(binary)
	require.NoError(t, errors.Join(err, os.WriteFile(filepath.Join(open, "deployster"), program, 0o755), os.Chmod(open, 0o755)))
	all, some := filepath.Join(open, "all"), filepath.Join(open, "some")
	reads, operates := s.serve(all), s.serve(some, "--socket-role", name+"=operator")
	c := asker{program: filepath.Join(open, "deployster"), dir: open, server: "unix:" + all, as: &syscall.Credential{Uid: uid, Gid: uid}}
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	here := s.deployster("pipeline", "status", "one")
	there, code := c.run(t, "pipeline", "status", "one")
	assert.True(t, code == 0 && there == here, "exit %d\nthere\n%s\nhere\n%s", code, there, here)
	c.want(t, 1, "you may not do this", "pipeline", "pause", "one")
	c.token = "dpl_01X_wrong"
	c.want(t, 1, "a valid token is needed", "pipeline", "status", "one")
	c.token, c.server = "", "unix:"+some
	c.want(t, 0, "paused", "pipeline", "pause", "one", "--reason", "why")
	c.want(t, 1, "you may not do this", "pipeline", "approve", "one", "all", "1")
	host := must.Get(os.Hostname())(t)
	s.wantBy("pipeline-paused", name+"@"+host)
	// A proxy lends its account to nobody who says that it is one, and with --socket-role none no account counts.
	asked := func(socket, header string) int {
		r := must.Get(http.NewRequest(http.MethodGet, "http://socket/v1/pipelines", nil))(t)
		if header != "" {
			r.Header.Set(header, "192.0.2.1")
		}
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
		defer transport.CloseIdleConnections()
		answer := must.Get(transport.RoundTrip(r))(t)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	for header, want := range map[string]int{"": http.StatusOK, "X-Forwarded-For": http.StatusUnauthorized, "Forwarded": http.StatusUnauthorized, "Via": http.StatusUnauthorized} {
		assert.Equal(t, want, asked(some, header), "%q", header)
	}
	tokens := filepath.Join(open, "tokens")
	closed := s.serve(tokens, "--socket-role", "none", "--socket-role", name+"=viewer")
	assert.Equal(t, http.StatusUnauthorized, asked(tokens, ""), "root without a token")
	c.server = "unix:" + tokens
	c.want(t, 0, "", "pipeline", "status", "one")
	for _, r := range []*run{reads, operates, closed} {
		s.end(r)
	}
}

// What verifies the stages of a pipeline that promotes is that of the checkout of who defines it.
func TestAPipelineThatPromotesIsDefinedThroughAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  {}")
	example(t, s.dir)
	for _, name := range []string{"dev", "staging", "prod"} {
		s.deployster("env", "create", "-f", name+".yaml")
	}
	require.NoError(t, os.Remove(filepath.Join(s.dir, "smoke.yaml")))
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far := func(name, role string) asker {
		t.Helper()
		a := asker{program: binary, dir: t.TempDir(), server: "http://" + r.address(t), token: s.token(name, role)}
		example(t, a.dir)
		return a
	}
	boss, ci := far("boss", "admin"), far("ci", "operator")
	ci.want(t, 1, "you may not do this", "pipeline", "apply", "-f", "shop.yaml")
	boss.want(t, 0, "pipeline shop is defined, 3 stages that promote by observed state (event ", "pipeline", "apply", "-f", "shop.yaml")
	boss.want(t, 0, "is defined like that already", "pipeline", "apply", "-f", "shop.yaml")
	here := s.deployster("pipeline", "status", "shop")
	there, _ := boss.run(t, "pipeline", "status", "shop")
	assert.Equal(t, there, here, "there")
	s.deployster("env", "deploy", "shop/dev", "--revision", "1")
	s.until(1, s.happened("stage-finished-successfully", "stage/shop/staging"))
	if names := s.names(); !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, promotion.Verified+" ") }) {
		t.Errorf("nothing was verified: %v", names)
	}
	smoke := filepath.Join(boss.dir, "smoke.yaml")
	require.NoError(t, os.WriteFile(smoke, []byte("resources: {}\n"), 0o600))
	boss.want(t, 3, "pipeline shop would be changed", "pipeline", "apply", "-f", "shop.yaml")
	boss.want(t, 0, "pipeline shop is defined, 3 stages", "pipeline", "apply", "-f", "shop.yaml", "--yes")
	checkout(t, boss.dir, "")
	writeFiles(t, boss.dir, map[string]string{"one.yaml": strings.Replace(asked, "one", "shop", 1)})
	boss.want(t, 3, "promotes by observed state", "pipeline", "apply", "-f", "one.yaml")
	ci.want(t, 1, "you may not do this", "pipeline", "delete", "shop", "--cancel", "--yes")
	boss.want(t, 0, "pipeline shop is deleted (event ", "pipeline", "delete", "shop", "--cancel", "--yes")
	s.wantBy(promotion.PipelineDefined, "token boss")
	s.wantBy(promotion.PipelineDeleted, "token boss")
	s.end(r)
}

// Who holds, releases and approves needs no more than a token, and reads what is read beside the log.
func TestAPipelineThatPromotesIsSteeredThroughAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  {}")
	require.NoError(t, os.CopyFS(s.dir, os.DirFS("../../examples/promotion")))
	for _, name := range []string{"dev", "staging", "prod"} {
		s.deployster("env", "create", "-f", name+".yaml")
	}
	s.deployster("pipeline", "apply", "-f", "shop.yaml")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far := func(name, role, pipeline string) asker {
		t.Helper()
		return asker{program: binary, dir: t.TempDir(), server: "http://" + r.address(t), token: s.token(name, role, "--pipeline", pipeline)}
	}
	ci, boss, other := far("ci", "operator", "shop"), far("boss", "approver", "shop"), far("other", "admin", "two")

	other.want(t, 1, "you may not do this", "pipeline", "hold", "shop", "prod")
	ci.want(t, 0, "stage prod of pipeline shop is held (event ", "pipeline", "hold", "shop", "prod", "--reason", "the network")
	ci.want(t, 1, "is held already", "pipeline", "hold", "shop", "prod")
	ci.want(t, 0, "stage prod of pipeline shop is released (event ", "pipeline", "release-hold", "shop", "prod")
	ci.want(t, 0, "the line of pipeline shop is stopped (event ", "pipeline", "stop-the-line", "shop")
	ci.want(t, 0, `"event":"promotion-line-resumed"`, "pipeline", "resume", "shop", "--output", "json")
	ci.want(t, 3, "there is no pause of it", "pipeline", "pause", "shop")
	boss.want(t, 1, "revision 1 is not approved", "pipeline", "approve", "shop", "prod", "1")

	s.deployster("env", "deploy", "shop/dev", "--revision", "1")
	s.until(1, s.happened("stage-finished-successfully", "stage/shop/staging"))
	ci.want(t, 1, "you may not do this", "pipeline", "approve", "shop", "prod", "1")
	boss.want(t, 0, "revision 1 of pipeline shop is approved at stage prod (event ", "pipeline", "approve", "shop", "prod", "1")
	s.until(1, s.happened("promotion-run-finished", "pipeline/shop"))
	for _, host := range []string{"dev001", "staging001", "prod001", "prod002"} {
		text := must.Get(os.ReadFile(filepath.Join(s.dir, "hosts", host, "shop")))(t)
		assert.Equal(t, "shop 1\n", string(text), host)
	}

	keeper := far("keeper", "admin", "shop")
	ci.want(t, 1, "you may not do this", "pipeline", "key", "create", "shop", "ci", "--out", "ci.pem")
	if left, err := os.ReadDir(ci.dir); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "ci.pem" }) {
		t.Errorf("a key that may sign nothing is left in %v, %v", left, err)
	}
	keeper.want(t, 1, "key ci cannot approve at stage staging: it is not manual", "pipeline", "key", "create", "shop", "ci", "--stage", "staging", "--out", "ci.pem")
	keeper.want(t, 0, "key ci may sign approvals of pipeline shop at stage prod, until ", "pipeline", "key", "create", "shop", "ci", "--stage", "prod", "--out", "ci.pem")
	kept, err := os.Stat(filepath.Join(keeper.dir, "ci.pem"))
	assert.True(t, err == nil && kept.Mode().Perm() == 0o600, "the private half is %v, %v", kept, err)
	keeper.want(t, 1, "key ci was added before", "pipeline", "key", "create", "shop", "ci", "--out", "again.pem")
	ci.want(t, 0, "token keeper", "pipeline", "key", "list", "shop")
	keeper.want(t, 0, "key ci of pipeline shop is revoked (event ", "pipeline", "key", "revoke", "shop", "ci", "--reason", "lost")
	keeper.want(t, 1, "key ci is already revoked", "pipeline", "key", "revoke", "shop", "ci")
	s.wantBy(record.KeyAdded, "token keeper")
	s.wantBy(record.KeyRevoked, "token keeper")
	for name, who := range map[string]string{promotion.Held: "ci", promotion.HoldReleased: "ci", promotion.LineStopped: "ci", promotion.LineResumed: "ci", promotion.Approved: "boss"} {
		s.wantBy(name, "token "+who)
	}
	s.end(r)
}

// example is the example of promotion, with a first stage that a manifest verifies.
func example(t *testing.T, dir string) {
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../examples/promotion")))
	path := filepath.Join(dir, "shop.yaml")
	text, err := os.ReadFile(path)
	verified := strings.Replace(string(text), "environment: shop/dev}", "environment: shop/dev, verify: smoke.yaml}", 1)
	require.True(t, err == nil && verified != string(text), "%s, %v", text, err)
	smoke := `{plugs: {root: {path: .}}, resources: {seen: {type: deployster/file, config: {path: seen, content: "{{ version }}"}}}}`
	for to, text := range map[string]string{path: verified, filepath.Join(dir, "smoke.yaml"): smoke} {
		require.NoError(t, os.WriteFile(to, []byte(text), 0o600))
	}
}

// packagers is a server that has packages built, and somebody elsewhere with their sources.
type packagers struct {
	*makers
	server *run
	far    asker
}

func newPackagers(t *testing.T) *packagers {
	t.Helper()
	p := &packagers{makers: newOCIMakers(t)}
	p.far = asker{program: binary, dir: t.TempDir(), server: "unix:" + filepath.Join(p.dir, "socket"), token: p.token("ci", "operator")}
	definition := must.Get(os.ReadFile(filepath.Join(p.dir, "packages.yaml")))(t)
	sourced := strings.Replace(string(definition), "network: none", `network: none
  sources: [src]
  secrets: {TOKEN: "{{ token }}"}`, 1)
	for _, dir := range []string{p.dir, p.far.dir} {
		for name, text := range map[string]string{"packages.yaml": sourced, "src/main.c": "int main() {}", "variables.yaml": "token: hunter2\n"} {
			at := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
			require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
		}
	}
	p.write("inventory.yaml", "name: ours\nhosts: [{name: only, engine: oci, slots: 2}]\n")
	p.begin()
	return p
}

func (p *packagers) begin() {
	p.Helper()
	p.server = p.serve("socket", append([]string{"--output", "json"}, p.flags...)...)
}

func (p *packagers) end() {
	p.Helper()
	p.terminate(p.server)
	if code := p.exit(p.server); code != 0 {
		p.Errorf("exit %d\n%s", code, p.server.out)
	}
}

// document is what was said as JSON, without which group it is.
func document(t *testing.T, said string) map[string]any {
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(said), &all), "%s", said)
	delete(all, "group")
	delete(all, "event")
	return all
}

// stable is what was said without times, which go on.
func stable(said string) string {
	return regexp.MustCompile(`(?m)[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+Z?|"?[0-9.]+(ms|s|m)"?|[0-9]{7,}`).ReplaceAllString(said, "T")
}

// Whoever has but a checkout and a token has the workers of the server build what is in the
// checkout, and sees what they would see there.
func TestAGroupIsSubmittedThroughAServer(t *testing.T) {
	t.Parallel()
	p := newPackagers(t)
	nobody, viewer := p.far, p.far
	nobody.token, viewer.token = "dpl_01X_wrong", p.token("viewer", "viewer")
	submit := []string{"build", "submit", "-f", "packages.yaml", "--var-file", "variables.yaml", "--pull", "never", "--output", "json"}
	nobody.want(t, 1, "a valid token is needed", submit...)
	viewer.want(t, 1, "you may not do this", submit...)
	p.far.want(t, 3, "the jobs are done by the workers of server", append(submit, "--inventory", "inventory.yaml")...)
	there, code := p.far.run(t, submit...)
	require.Zero(t, code, there)
	p.until(1, func(e deploylog.Event) bool { return e.Name == buildrecord.GroupFinished })
	assert.Len(t, p.artifacts("base-1"), 8, "of 8 jobs there")
	p.wantBy(buildrecord.GroupTriggered, "token ci")
	for _, args := range [][]string{{"list"}, {"status", "base-1"}, {"jobs", "base-1", "--output", "json"}, {"explain", "base-1"}, {"forecast", "base-1"}, {"logs", "base-1", "1"}, {"logs", "base-1", "1", "--output", "json"}} {
		args = append([]string{"build"}, args...)
		here := p.deployster(args...)
		said, code := p.far.run(t, args...)
		assert.True(t, code == 0 && said == here, "%q: exit %d\nthere\n%s\nhere\n%s", args, code, said, here)
	}
	here := p.must(submit[1:]...)
	assert.Equal(t, document(t, there), document(t, here), "there\n%s\nhere\n%s", there, here)
	for _, e := range p.events() {
		assert.NotContains(t, string(e.Data), "hunter2", "a secret is in %s", e.Data)
	}
	left, err := os.ReadDir(filepath.Join(p.far.dir, ".deployster"))
	assert.True(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
	p.until(2, func(e deploylog.Event) bool { return e.Name == buildrecord.GroupFinished })

	// What cannot be queued any more is not, and can be again.
	p.hold("manual")
	p.far.want(t, 0, "8 jobs", append(submit[:len(submit)-2:len(submit)-2], "--no-reuse")...)
	p.making("manual")
	p.until(7, func(e deploylog.Event) bool { return e.Name == buildrecord.JobFinished && e.Deployment == "base-3" })
	for _, args := range [][]string{{"explain", "base-3"}, {"forecast", "base-3", "--output", "json"}} {
		args = append([]string{"build"}, args...)
		here := stable(p.deployster(args...))
		said, code := p.far.run(t, args...)
		assert.True(t, code == 0 && stable(said) == here, "%q: exit %d\nthere\n%s\nhere\n%s", args, code, said, here)
	}
	require.NoError(t, os.WriteFile(filepath.Join(p.far.dir, "other.yaml"), []byte("name: other\nhosts: [{name: else, engine: oci}]\n"), 0o600))
	p.far.want(t, 0, "inventory ours", "explain", "group/base-3", "--inventory", "other.yaml")
	p.far.want(t, 3, "there is no such file", "explain", "group/base-3", "--inventory", "none.yaml")
	followed := make(chan string)
	go func() {
		said, _ := p.far.run(t, "build", "logs", "base-3", "manual", "--follow")
		followed <- said
	}()
	p.far.want(t, 0, "build group base-3 is", "build", "cancel", "base-3", "--wait")
	if said := <-followed; !strings.Contains(said, "making manual\n") || !strings.Contains(said, "manual (job 8) of base-3 is CancelComplete") {
		t.Errorf("followed was %q", said)
	}
	p.release("manual")
	p.far.want(t, 0, "build group base-3 is queued again", "build", "retry", "base-3")
	p.until(3, func(e deploylog.Event) bool { return e.Name == buildrecord.GroupFinished })
	p.wantBy(buildrecord.GroupCanceling, "token ci")
	p.wantBy(buildrecord.GroupRetried, "token ci")
	p.end()
}

// losing is a way to the server on which that is killed when it is to do what is sent to paths that
// end so, and once more when it has done that and its answer is lost. sent is how often that was
// sent.
func (p *packagers) losing(path string) (url string, sent *atomic.Int64) {
	p.Helper()
	sent = new(atomic.Int64)
	return p.through("socket", func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if !strings.HasSuffix(r.URL.Path, path) || sent.Load() == 2 {
			server.ServeHTTP(w, r)
			return
		}
		if sent.Add(1) == 2 {
			server.ServeHTTP(httptest.NewRecorder(), r)
		}
		p.kill(p.server)
		p.begin()
		panic(http.ErrAbortHandler)
	}), sent
}

// The server is killed when it has the sources and is to queue the group, and once more when it
// has queued it and its answer is lost. There is one group then, with its sources.
func TestAServerThatIsKilledWhileAGroupIsSubmitted(t *testing.T) {
	t.Parallel()
	p := newPackagers(t)
	p.hold("manual")
	between, submitted := p.losing("/commands/submit")
	p.far.server = between
	p.far.want(t, 0, "the server builds it: deployster build status base-1", "build", "submit", "-f", "packages.yaml", "--var-file", "variables.yaml", "--pull", "never")
	if n := submitted.Load(); n != 2 || p.count("base-1", buildrecord.GroupTriggered) != 1 || p.count("base-2", buildrecord.GroupTriggered) != 0 {
		t.Errorf("it was sent %d times and again: %v", n, p.names())
	}
	p.release("manual")
	p.until(1, func(e deploylog.Event) bool { return e.Name == buildrecord.GroupFinished })
	assert.Len(t, p.artifacts("base-1"), 8, "of 8 jobs there")
	p.end()
	store := artifacts.In(filepath.Join(p.dir, ".deployster", "artifacts"))
	for _, digest := range p.artifacts("base-1") {
		assert.NoError(t, store.Verify(t.Context(), digest))
	}
}

// Whoever has but a checkout and a token releases a revision that carries a group of packages,
// with their sources, and sees what they would see where the log is. The server is killed when its
// answer is lost; there is one revision then, which is built.
func TestARevisionIsReleasedThatCarriesAGroupThroughAServer(t *testing.T) {
	t.Parallel()
	p := newPackagers(t)
	admin := p.far
	admin.token = p.token("root", "admin")
	for _, dir := range []string{p.dir, p.far.dir} {
		text := "pipeline: base\nstages:\n  - {name: make, build: {group: packages.yaml, packages: [curl]}}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pipeline.yaml"), []byte(text), 0o600))
	}
	admin.want(t, 0, "pipeline base is defined, 1 stage", "pipeline", "apply", "-f", "pipeline.yaml", "--yes")
	release := func(revision string) []string {
		return []string{"pipeline", "release", "base", revision, "--var-file", "variables.yaml", "--pull", "never"}
	}
	between, sent := p.losing("/commands/release")
	far := p.far
	far.server = between
	there, code := far.run(t, release("1")...)
	if code != 0 || !strings.Contains(there, "revision 1 of pipeline base is released") || sent.Load() != 2 {
		t.Fatalf("exit %d, sent %d times: %s", code, sent.Load(), there)
	}
	p.far.want(t, 1, "revision 1 of pipeline base is already released", release("1")...)
	p.until(1, func(e deploylog.Event) bool { return e.Name == "pipeline-finished-successfully" })
	assert.Len(t, p.artifacts("base-1"), 8, "of 8 jobs there")
	p.wantBy("pipeline-started", "token ci")
	beside := p.start(append(release("2"), "--engine", "oci")...)
	code = p.exit(beside)
	here := regexp.MustCompile(`event [0-9]+`).ReplaceAllString(strings.ReplaceAll(beside.out.String(), "revision 2", "revision 1"), "event 4")
	require.True(t, code == 0 && here == there, "there\n%s\nhere, exit %d\n%s", there, code, here)
	p.until(2, func(e deploylog.Event) bool { return e.Name == "pipeline-finished-successfully" })
	for _, e := range p.events() {
		assert.NotContains(t, string(e.Data), "hunter2", "a secret is in %s", e.Data)
	}
	left, err := os.ReadDir(filepath.Join(p.far.dir, ".deployster"))
	assert.True(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
	p.end()
}
