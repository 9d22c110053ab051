package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// environmentCheckout is a directory with an environment whose tasks write a text.
func environmentCheckout(t *testing.T, dir, text string) {
	t.Helper()
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
	other := ci
	other.token = s.token("other", "operator", "--environment", "other")

	other.want(t, 1, "you may not do this", "env", "create", "-f", "shop.yaml")
	ci.want(t, 0, "environment shop is created, revision 1 (event ", "env", "create", "-f", "shop.yaml")
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
		if there, code := ci.run(t, args...); code != 0 || there != here {
			t.Errorf("%q: exit %d\nthere\n%s\nhere\n%s", args, code, there, here)
		}
	}
	ci.want(t, 3, "has no host h2", "env", "cordon", "shop", "h2")
	ci.want(t, 0, "environment shop is deleted", "env", "delete", "shop", "--terminate-tasks", "--yes", "--wait")
	if _, err := os.Stat(s.thing("shop")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what it made is left: %v", err)
	}
	s.wantBy("environment-created", "token shop")
	s.wantBy("environment-started", "token shop")
	s.end(r)
}

// wantThing has a file with a text.
func (s *site) wantThing(name, want string) {
	s.Helper()
	if text, err := os.ReadFile(s.thing(name)); string(text) != want {
		s.Errorf("%s is %q, %v, want %q", name, text, err, want)
	}
}
