package cli_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
		t.Helper()
		said, code := c.run(t, append([]string{"token", "create"}, args...)...)
		lines := strings.Split(strings.TrimSpace(said), "\n")
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "dpl_") })
		if code != 0 || at < 0 {
			t.Fatalf("token create %q: exit %d\n%s", args, code, said)
		}
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
		if t.Failed() {
			t.Fatal(name)
		}
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
			if strings.Contains(string(e.Data), secret) || strings.Contains(string(e.Data), secret[len(secret)-20:]) {
				t.Errorf("the log has what authenticates by %s: %s", name, e.Data)
			}
		}
	}
	s.end(r)
}
