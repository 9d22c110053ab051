package kubernetes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

// Which cluster is meant is taken from what names it, and from nothing else that happens to be there.
func TestNothingTakesThePlaceOfTheClusterThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	whole := func(name string) string {
		return `{"apiVersion": "v1", "kind": "Config", "current-context": "first", "users": [{"name": "u", "user": {}}],
			"clusters": [{"name": "a", "cluster": {"server": "https://` + name + `-a"}}, {"name": "b", "cluster": {"server": "https://` + name + `-b"}}],
			"contexts": [{"name": "first", "context": {"cluster": "a", "user": "u", "namespace": "own"}}, {"name": "second", "context": {"cluster": "b", "user": "u"}}]}`
	}
	user, named, empty := file("user", whole("user")), file("named", whole("named")), file("empty", "")
	for name, c := range map[string]struct {
		options          Options
		user             string // the kubeconfig of the user
		server, in, fail string
	}{
		"the user's":                           {Options{}, user, "https://user-a", "own", ""},
		"the user's, another context":          {Options{Context: "second"}, user, "https://user-b", "default", ""},
		"a file that is named":                 {Options{Kubeconfig: named}, user, "https://named-a", "own", ""},
		"a context of it, and a namespace":     {Options{Kubeconfig: named, Context: "second", Namespace: "x"}, user, "https://named-b", "x", ""},
		"nothing":                              {Options{}, empty, "", "", "no cluster is configured"},
		"a context that is not there":          {Options{Context: "third"}, user, "", "", `context "third" does not exist`},
		"a context, and no file has any":       {Options{Context: "first"}, empty, "", "", `context "first" does not exist`},
		"a file that says nothing":             {Options{Kubeconfig: empty}, user, "", "", "the kubeconfig names no cluster"},
		"a file that is not there":             {Options{Kubeconfig: filepath.Join(dir, "none")}, user, "", "", "no such file"},
		"the own cluster, where there is none": {Options{InCluster: true}, user, "", "", "this runs in no Pod that knows its cluster"},
	} {
		t.Setenv("KUBECONFIG", c.user)
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		config, _, namespace, err := configuration(c.options)
		switch {
		case c.fail != "":
			assert.True(t, err != nil && strings.Contains(err.Error(), c.fail), "%s: %v, want %q", name, err, c.fail)
		case err != nil || config.Host != c.server || namespace != c.in:
			t.Errorf("%s: %+v in %q, %v", name, config, namespace, err)
		}
	}
	if _, _, _, err := configuration(Options{InCluster: true}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("an engine that is not there: %v", err)
	}
}
