package work

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/manifest"
)

// identities of tasks in a workspace with two hosts.
func (c checkout) identities() Identities {
	c.Helper()
	c.write("inventory.yaml", "hosts:\n  - {name: a, engine: oci, attributes: {zone: east}}\n  - {name: b, engine: oci, attributes: {zone: west}}\n  - {name: far, engine: docker, endpoint: 'ssh://far'}\n")
	hosts := NewHosts(filepath.Join(c.dir, "inventory.yaml"))
	_, err := hosts.Inventory()
	require.NoError(c, err)
	return Identities{
		Inputs: Inputs{Workspace: c.dir, Version: "test", Now: time.Now, Hide: func(any) {}}, Hosts: hosts,
		Texts: NewTexts(filepath.Join(c.dir, ".deployster", "objects"), c.dir, nil),
	}
}

// definedTask is a text that an environment applies to a host.
type definedTask struct{ text, environment, host, vars string }

func TestWhichTasksMakeOneThing(t *testing.T) {
	const (
		plug    = "plugs: {root: {path: '/srv'}, docker: {path: /var/run/docker.sock}}\n"
		web     = plug + "resources: {c: {type: deployster/container, config: {image: i, name: web}}}"
		copied  = "# another text\n" + plug + "resources: {other: {type: deployster/container, config: {image: j, name: web}}}"
		named   = plug + "resources: {web: {type: deployster/container, config: {image: j}}}"
		task    = plug + "resources: {c: {type: deployster/container, config: {image: i, name: '{{ task }}'}}}"
		zone    = plug + "resources: {c: {type: deployster/container, config: {image: i, name: 'web-{{ host_attributes.zone }}'}}}"
		east    = plug + "resources: {c: {type: deployster/container, config: {image: i, name: web-east}}}"
		volume  = plug + "resources: {c: {type: deployster/volume, config: {name: web}}}"
		file    = plug + "resources: {f: {type: deployster/file, config: {path: a/../conf, content: x}}}"
		other   = "plugs: {root: {path: '/opt'}}\nresources: {f: {type: deployster/file, config: {path: conf, content: x}}}"
		same    = "plugs: {root: {path: '/srv/'}}\nresources: {f: {type: deployster/file, config: {path: conf, content: y}}}"
		higher  = "plugs: {root: {path: /}}\nresources: {f: {type: deployster/file, config: {path: srv/conf, content: y}}}"
		only    = plug + "resources: {f: {type: deployster/file, readonly: true, config: {path: conf, content: y}}}"
		secret  = plug + "resources: {c: {type: deployster/container, config: {image: i, name: web, secret_env: {P: '{{ password }}'}}}}"
		foreign = "resources: {x: {type: acme/vm:1, config: {name: '{{ environment }}'}}}"
		foreig2 = "resources: {x: {type: acme/vm:1, config: {name: '{{ task }}'}}}"
		broken  = "resources: {x: {type: acme/vm:1, config: {name: '{{ '}}}"
	)
	for name, test := range map[string]struct {
		a, b definedTask
		want bool
	}{
		"copies of a manifest":              {definedTask{web, "one", "a", ""}, definedTask{copied, "two", "a", ""}, true},
		"a name that is the resource's":     {definedTask{web, "one", "a", ""}, definedTask{named, "two", "a", ""}, true},
		"names of their tasks":              {definedTask{task, "one", "a", ""}, definedTask{task, "two", "a", ""}, false},
		"other variables":                   {definedTask{web, "one", "a", "1"}, definedTask{web, "two", "a", "2"}, true},
		"an attribute":                      {definedTask{zone, "one", "a", ""}, definedTask{east, "two", "a", ""}, true},
		"another attribute":                 {definedTask{zone, "one", "b", ""}, definedTask{east, "two", "b", ""}, false},
		"another kind":                      {definedTask{web, "one", "a", ""}, definedTask{volume, "two", "a", ""}, false},
		"a path":                            {definedTask{file, "one", "a", ""}, definedTask{same, "two", "a", ""}, true},
		"a path below another plug":         {definedTask{file, "one", "a", ""}, definedTask{other, "two", "a", ""}, false},
		"a path below a plug higher up":     {definedTask{file, "one", "a", ""}, definedTask{higher, "two", "a", ""}, true},
		"one that only observes":            {definedTask{file, "one", "a", ""}, definedTask{only, "two", "a", ""}, false},
		"a variable that is not known here": {definedTask{web, "one", "a", ""}, definedTask{secret, "two", "a", ""}, true},
		"a foreign type":                    {definedTask{foreign, "one", "a", ""}, definedTask{foreign, "two", "a", ""}, true},
		"a foreign type, other variables":   {definedTask{foreign, "one", "a", "1"}, definedTask{foreign, "two", "a", "2"}, false},
		"a foreign type by its task":        {definedTask{foreig2, "one", "a", ""}, definedTask{foreig2, "two", "a", ""}, false},
	} {
		c := newCheckout(t, nil)
		i := c.identities()
		a, b := c.things(i, test.a), c.things(i, test.b)
		assert.Equal(t, test.want, slices.ContainsFunc(a, func(k string) bool { return slices.Contains(b, k) }), "%s: they make %q and %q", name, a, b)
	}
	c := newCheckout(t, nil)
	i := c.identities()
	for _, text := range []string{broken, "resources: {h: {type: deployster/http, config: {url: 'http://a'}}}"} {
		assert.Empty(t, c.things(i, definedTask{text, "one", "a", ""}))
	}
}

// Links lead to one thing by several paths: whoever wrote them, its owners would undo each
// other's work. Where the machine is another, what its links are is not known here.
func TestLinksLeadToOneThing(t *testing.T) {
	file := func(root, path string) string {
		return "plugs: {root: {path: '" + root + "'}}\nresources: {f: {type: deployster/file, config: {path: '" + path + "', content: x}}}"
	}
	socket := func(path string) string {
		return "plugs: {docker: {path: '" + path + "'}}\nresources: {c: {type: deployster/container, config: {image: i, name: web}}}"
	}
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, path) }
	for _, made := range []error{
		os.MkdirAll(at("real/etc"), 0o755), os.MkdirAll(at("other/etc"), 0o755), os.WriteFile(at("real/docker.sock"), nil, 0o600),
		os.Symlink("real", at("link")), os.Symlink("etc", at("real/conf.d")), os.Symlink("link", at("again")),
		os.Symlink("motd", at("real/etc/last")), os.Symlink("loop", at("loop")), os.Symlink("nowhere", at("dangling")),
	} {
		require.NoError(t, made)
	}
	for name, test := range map[string]struct {
		a, b string
		host string
		want bool
	}{
		"a link as the plug":           {file(at("real"), "etc/motd"), file(at("link"), "etc/motd"), "a", true},
		"a link to a link":             {file(at("real"), "etc/motd"), file(at("again"), "etc/motd"), "a", true},
		"a link within the plug":       {file(at("real"), "etc/motd"), file(at("real"), "conf.d/motd"), "a", true},
		"a link above the plug":        {file(at("real/etc"), "motd"), file(at("again/conf.d"), "motd"), "a", true},
		"what is not there yet":        {file(at("real"), "new/motd"), file(at("link"), "new/motd"), "a", true},
		"a link to a socket":           {socket(at("real/docker.sock")), socket(at("link/docker.sock")), "a", true},
		"another directory":            {file(at("real"), "etc/motd"), file(at("other"), "etc/motd"), "a", false},
		"a link is a thing of its own": {file(at("real"), "etc/motd"), file(at("real"), "etc/last"), "a", false},
		"a link in a circle":           {file(at("real"), "etc/motd"), file(at("loop"), "etc/motd"), "a", false},
		"a link to nothing":            {file(at("real"), "etc/motd"), file(at("dangling"), "etc/motd"), "a", false},
		"links of another machine":     {file(at("real"), "etc/motd"), file(at("link"), "etc/motd"), "far", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheckout(t, nil)
			i := c.identities()
			a, b := c.things(i, definedTask{test.a, "one", test.host, ""}), c.things(i, definedTask{test.b, "two", test.host, ""})
			if got := slices.Equal(a, b); got != test.want || len(a) != 1 || len(b) != 1 {
				t.Errorf("they make %q and %q", a, b)
			}
		})
	}
}

// things are the keys of what a task makes. Its text is not kept before.
func (c checkout) things(i Identities, m definedTask) (keys []string) {
	c.Helper()
	files := Carried{m.environment + ".yaml": []byte(m.text)}
	if collected, err := Collect(c.dir, nil, nil, manifest.Source{Name: m.environment + ".yaml", Data: []byte(m.text)}); err == nil {
		files = collected.Files
	}
	digests := files.Digests()
	spec := definition.TaskSpec{Manifest: m.environment + ".yaml", Digest: digests[m.environment+".yaml"], Includes: map[string]string{}}
	if m.vars != "" {
		spec.Vars = map[string]any{"v": m.vars}
	}
	i.Drafts = files
	for _, thing := range i.Things(tasks.Task{Environment: m.environment, Host: m.host, Revision: 1, Spec: spec}) {
		if thing.Key == "" || thing.Name == "" || strings.ContainsAny(thing.Name, "\x00\n") {
			c.Errorf("it makes %+v", thing)
		}
		keys = append(keys, thing.Key)
	}
	return keys
}

// What a task makes is known also when a secret that it reads was changed since, or is gone.
func TestWhatATaskMakesIsKnownWhateverBecameOfItsSecrets(t *testing.T) {
	const text = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/container, config: {image: i, name: web, secret_env: {P: '{{ mine }}'}}}}"
	for label, now := range map[string]string{"as it was": "mine: hush-1\n", "changed": "mine: hush-2\n", "gone": "other: 1\n", "half saved": "mine: *hush\n"} {
		t.Run(label, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"m.yaml": text, "home/.deployster/vars.auto.yaml": "mine: hush-1\n"})
			w, files, err := c.pinned(nil)
			require.NoError(t, err)
			c.write("home/.deployster/vars.auto.yaml", now)
			i := c.identities()
			i.Inputs, i.Texts = w.Inputs, w.Texts
			digests := files.Digests()
			spec := definition.TaskSpec{Manifest: "m.yaml", Digest: digests["m.yaml"], Includes: digests}
			if got := i.Things(tasks.Task{Environment: "one", Host: "a", Revision: 1, Spec: spec}); len(got) != 1 || !strings.Contains(got[0].Name, "web") {
				t.Errorf("it makes %+v", got)
			}
		})
	}
}
