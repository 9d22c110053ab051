package work

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/manifest"
)

// What is not applied can do with another value of a secret, unless what it is depends on it.
func TestASecretMayHaveChangedWhereNothingIsApplied(t *testing.T) {
	const (
		env  = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/container, config: {image: i, secret_env: {P: '{{ mine }}'}}}}"
		name = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/container, config: {image: i, name: '{{ mine }}'}}}"
		run  = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/command, config: {image: i, check: ['true'], apply: ['true'], secret_env: {P: '{{ mine }}'}}}}"
	)
	for label, test := range map[string]struct {
		text, file                   string
		applied, observed, removable bool
	}{
		"as it was":              {env, "mine: hush-1", true, true, true},
		"changed":                {env, "mine: hush-2", false, true, true},
		"changed, of a command":  {run, "mine: hush-2", false, true, true},
		"changed, and the name":  {name, "mine: hush-2", false, false, false},
		"gone":                   {env, "other: 1", false, false, true},
		"gone, of a command":     {run, "other: 1", false, false, false},
		"gone, and the name":     {name, "other: 1", false, false, false},
		"half saved":             {env, "mine: *hush", false, false, true},
		"a tag":                  {env, "mine: !hush-2 x", false, false, true},
		"an expression of other": {env, "mine: 'hush{{ hush_2 }}'", false, false, false},
	} {
		t.Run(label, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"m.yaml": test.text, "home/.deployster/vars.auto.yaml": "mine: hush-1\n"})
			w, files, err := c.pinned(nil)
			if err != nil {
				t.Fatal(err)
			}
			c.write("home/.deployster/vars.auto.yaml", test.file+"\n")
			digests := files.Digests()
			task := tasks.Task{Environment: "e", Host: "h", Revision: 1, Spec: definition.TaskSpec{Manifest: "m.yaml", Digest: digests["m.yaml"], Includes: digests}}
			source := manifest.Source{Name: "m.yaml", Data: []byte(test.text)}
			for p, want := range map[purpose]bool{applying: test.applied, observing: test.observed, removing: test.removable} {
				o, err := w.carriedFor(task, source, p)
				if err == nil {
					_, err = w.load(task, source, o)
				}
				if (err == nil) != want || err != nil && (strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "variable mine: it is secret")) {
					t.Errorf("for purpose %d: %v", p, err)
				}
			}
		})
	}
}
