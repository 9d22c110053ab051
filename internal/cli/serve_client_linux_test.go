package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
)

const asked = `
pipeline: one
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
	for _, r := range []*run{reads, operates} {
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
