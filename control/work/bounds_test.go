package work

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/pipeline"
	pipelinedefinition "github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// own is what a definition names itself.
const own = `plugs:
  root: {path: /srv/gateway}
  docker: {path: /var/run/docker.sock, resource_types: [deployster/container]}
resources:
  app:
    type: deployster/container
    config:
      image: "registry.example/gw:{{ revision }}"
      mounts: [{path: /srv/gateway/data, target: /data}]
  page: {type: deployster/file, config: {path: page, content: "{{ greeting | default('hi') }}"}}
`

// effects are what an input comes to where it takes effect: which paths, types, images and mounts.
func effects(in *Input) (all []string, err error) {
	configure := in.configure(true)
	for _, p := range in.Whole.Plugs {
		all = append(all, "path "+p.Path)
	}
	for _, r := range in.Whole.Resources {
		all = append(all, "type "+r.Type)
		config := map[string]any{}
		for key, written := range r.Config {
			value, err := r.Resolve(written, manifest.Scope{Expressions: in.Expressions, Variables: in.Variables})
			if err != nil {
				return nil, err
			}
			config[key] = value
		}
		if configure != nil {
			if config, err = configure(r, config); err != nil {
				return nil, err
			}
		}
		if image, _ := config["image"].(string); image != "" {
			all = append(all, "image "+image)
		}
		paths, _ := mounted(config)
		for _, m := range paths {
			all = append(all, "mount of "+m.asked())
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all))), nil
}

// released is what the manifest of a revision would do on a host: its effects, or why it does nothing.
func (c checkout) released(text string, bound *deployment.Bounds, change func(*step.Step), artifacts map[string]string, carried ...revision.Image) ([]string, error) {
	c.Helper()
	w := &StepWorker{worker: newWorker(c.config(), c.pool(), "pipeline run")}
	keep := func(text string) string {
		digest, err := w.Texts.Keep([]byte(text))
		require.NoError(c, err)
		return digest
	}
	images, err := revision.Images{Configured: len(carried) > 0, Images: carried}.Encode()
	require.NoError(c, err)
	files := record.Files{"m.yaml": keep(text), revision.VariablesName: keep(`{"version":1,"variables":[]}`), revision.ImagesName: keep(string(images))}
	s := step.Step{Target: "stage/gateway/prod", Revision: "42", Stage: "prod", Manifest: "m.yaml", Files: files, Bounds: bound}
	if bound != nil && bound.Own == nil {
		bound.Own = record.Files{"m.yaml": keep(own), revision.VariablesName: files[revision.VariablesName]}
	}
	if change != nil {
		change(&s)
	}
	in, err := w.loadStep(s, LoadOptions{Builtin: w.variables(s, artifacts), bounds: w.ownLoader(w.Texts, w.pool.hosts, newNeutral()).stepBounds(s, artifacts)})
	if err != nil {
		return nil, err
	}
	return effects(in)
}

// owning are the files of a definition with a manifest.
func (c checkout) owning(text string) record.Files {
	c.Helper()
	texts := c.config().Texts
	files := record.Files{}
	for name, text := range map[string]string{"m.yaml": text, revision.VariablesName: `{"version":1,"variables":[]}`} {
		digest, err := texts.Keep([]byte(text))
		require.NoError(c, err)
		files[name] = digest
	}
	return files
}

// Who may not bring everything brings what the definition names and allows, and nothing else runs anywhere: of each
// revision it is said what would take effect, or why it is refused.
func TestEffectsOfRevisionsThatAreBound(t *testing.T) {
	c := newCheckout(t, nil)
	c.identities()
	c.link("site/out", "/etc")
	plugged := func(path string) string { return strings.Replace(own, "/srv/gateway}", path+"}", 1) }
	with := func(image string) string { return strings.Replace(own, "registry.example/gw:{{ revision }}", image, 1) }
	rules := &allow.Rules{
		Types: []string{"registry.example/types/*"}, Images: []string{"registry.example/side/*", "registry.example/fixed:1"},
		Plugs: map[string]allow.Plug{"root": {Path: "/srv"}, "logs": {Path: "/var/log", ReadOnly: true}},
	}
	mounting := func(path, more string) string {
		return strings.Replace(own, "/srv/gateway/data, target: /data", path+", target: /data"+more, 1)
	}
	relative := &allow.Rules{Plugs: map[string]allow.Plug{"site": {Path: "site"}}}
	late := strings.Replace(own, `"registry.example/gw:{{ revision }}"`, `"{{ resource.page.state.path }}"`, 1)
	const page = "\nresources: {page: {type: deployster/file, config: {path: a, content: b}}}"
	const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for name, test := range map[string]struct {
		text      string
		allow     *allow.Rules
		change    func(*step.Step)
		artifacts map[string]string
		carried   []revision.Image
		want      string // an effect
		refused   string
	}{
		"what the definition names":           {text: own, want: "image registry.example/gw:42"},
		"another path":                        {text: plugged("/"), refused: "plug root: asks for path /, writable; allowed: path /srv/gateway"},
		"a path beside":                       {text: plugged("/srv/gateway2"), refused: "path /srv/gateway2"},
		"a path that leads out":               {text: plugged("/srv/gateway/../../etc"), refused: "path /etc"},
		"a path below":                        {text: plugged("/srv/gateway/a"), refused: "path /srv/gateway/a"},
		"a path that is allowed":              {text: plugged("/srv/other"), allow: rules, want: "path /srv/other"},
		"a path above what is allowed":        {text: plugged("/"), allow: rules, refused: "at or below /srv"},
		"a path of the revision's name":       {text: plugged("'/srv/{{ revision }}'"), allow: rules, change: func(s *step.Step) { s.Revision = "../etc" }, refused: "path /etc"},
		"the socket for more types":           {text: strings.Replace(own, ", resource_types: [deployster/container]", "", 1), refused: "plug docker"},
		"a plug to be written":                {text: "plugs: {logs: {path: /var/log}}" + page, allow: rules, refused: "at or below /var/log, read_only"},
		"a plug to be read":                   {text: "plugs: {logs: {path: /var/log/app, read_only: true}}" + page, allow: rules, want: "path /var/log/app"},
		"another type":                        {text: "resources: {a: {type: evil.example/root:1}}", allow: rules, refused: "resource a: asks for type evil.example/root:1; allowed: "},
		"a type that is allowed":              {text: "resources: {a: {type: 'registry.example/types/disk:1'}}", allow: rules, want: "type registry.example/types/disk:1"},
		"a type named as one that ships":      {text: "resources: {a: {type: 'docker.io/deployster/file'}}", refused: "type docker.io/deployster/file"},
		"another image":                       {text: with("evil.example/gw:1"), refused: "asks for image evil.example/gw:1; allowed: registry.example/gw:*"},
		"another tag":                         {text: with("registry.example/gw:7"), want: "image registry.example/gw:7"},
		"an image of an artifact":             {text: with("{{ artifacts.web }}"), artifacts: map[string]string{"web": "evil.example/gw"}, refused: "image evil.example/gw"},
		"an allowed image of an artifact":     {text: with("{{ artifacts.web }}"), allow: rules, artifacts: map[string]string{"web": "registry.example/side/a:3"}, want: "image registry.example/side/a:3"},
		"a name that is another repository":   {text: own, change: func(s *step.Step) { s.Revision = "1/../../evil" }, refused: "image registry.example/gw:1/../../evil"},
		"an id":                               {text: with(digest), allow: rules, refused: "image " + digest},
		"a mount":                             {text: strings.Replace(own, "/srv/gateway/data", "/etc", 1), refused: "a mount of path /etc, writable; allowed: path /srv/gateway/data"},
		"a mount to be written":               {text: mounting("/var/log/app", ""), allow: rules, refused: "a mount of path /var/log/app, writable; allowed: at or below /srv, at or below /var/log, read_only"},
		"a mount to be read":                  {text: mounting("/var/log/app", ", read_only: true"), allow: rules, want: "mount of path /var/log/app"},
		"a mount of what is read of its own":  {text: own, change: func(s *step.Step) { s.Bounds.Own = c.owning(mounting("/srv/gateway/data", ", read_only: true")) }, refused: "a mount of path /srv/gateway/data, writable; allowed: path /srv/gateway/data, read_only"},
		"a mount below the workspace":         {text: mounting(filepath.Join(c.dir, "site", "a"), ""), allow: relative, want: "mount of path " + filepath.Join(c.dir, "site", "a") + ", writable"},
		"a mount below the root":              {text: mounting("/site", ""), allow: relative, refused: "a mount of path /site, writable"},
		"a mount through a link":              {text: mounting(filepath.Join(c.dir, "site", "out", "a"), ""), allow: relative, refused: "site/out, a link that a type may have made in " + filepath.Join(c.dir, "site")},
		"mounts of another form":              {text: strings.Replace(own, "[{path: /srv/gateway/data, target: /data}]", "'{{ [[1]] }}'", 1), refused: "mounts of another form"},
		"a name that stands for names":        {text: plugged("'/srv/{{ revision }}'"), change: func(s *step.Step) { s.Revision = "x"; s.Bounds.Own = c.owning(plugged("'/srv/{{ revision }}'")) }, refused: "plug root: asks for path /srv/x, writable; allowed: nothing"},
		"a state that names an image":         {text: with("evil.example/a"), change: func(s *step.Step) { s.Bounds.Own = c.owning(late) }, refused: "an image of the definition depends on a state: it counts only if images of allow cover it"},
		"a content that is carried":           {text: own, carried: []revision.Image{{Image: "registry.example/gw:42", Digest: digest, ID: "sha256:evil"}}, want: "image registry.example/gw@" + digest},
		"a content of no registry":            {text: own, carried: []revision.Image{{Image: "registry.example/gw:42", ID: "sha256:evil"}}, want: "image registry.example/gw:42"},
		"a content for a tag that is allowed": {text: with("registry.example/fixed:1"), allow: rules, carried: []revision.Image{{Image: "registry.example/fixed:1", Digest: digest}}, want: "image registry.example/fixed:1"},
		"another manifest":                    {text: own, change: func(s *step.Step) { s.Bounds.Own = record.Files{} }, refused: "is not known: nobody who may define it"},
	} {
		got, err := c.released(test.text, &deployment.Bounds{Allow: test.allow, Revision: true}, test.change, test.artifacts, test.carried...)
		if test.refused != "" {
			assert.ErrorContains(t, err, test.refused, name)
			continue
		}
		assert.NoError(t, err, name)
		assert.Contains(t, got, test.want, name)
	}
	// Who may bring everything does, and an artifact of somebody else fills it, and widens nothing.
	got, err := c.released(plugged("/"), nil, nil, nil)
	assert.True(t, err == nil && slices.Contains(got, "path /"), "%v, %v", got, err)
	filled := func(path string) error {
		bound := &deployment.Bounds{}
		_, err := c.released(plugged(path), bound, func(s *step.Step) { s.Bounds.Own = s.Files }, map[string]string{"dir": "etc"})
		return err
	}
	assert.NoError(t, filled("'/opt/{{ revision }}'"))
	assert.ErrorContains(t, filled("'/{{ artifacts.dir }}'"), "path /etc")
}

func TestEffectsOfTasksThatAreBound(t *testing.T) {
	c := newCheckout(t, nil)
	c.identities()
	w := c.tasks()
	w.promoted = []string{"artifacts"}
	spec := func(text string, vars map[string]any) definition.TaskSpec {
		digest, err := w.Texts.Keep([]byte(text))
		require.NoError(t, err)
		return definition.TaskSpec{Manifest: "m.yaml", Digest: digest, Vars: vars, Includes: map[string]string{}}
	}
	const text = "plugs: {docker: {path: '{{ socket | default(\"/run/docker.sock\") }}'}}\nresources: {a: {type: deployster/container, config: {image: '{{ image }}'}}}"
	mine := map[string]any{"image": "registry.example/gw:1"}
	const east, both = "attribute:zone == east", "attribute:zone in (east, west)"
	side := &allow.Rules{Images: []string{"registry.example/side"}}
	for name, test := range map[string]struct {
		host, query, text string
		vars              map[string]any
		allow             *allow.Rules
		former            []*allow.Rules
		refused           string             // applied, where there is nothing else
		effect            string             // of what is not refused
		not               map[purpose]string // for other purposes, "" is that it is not refused
	}{
		"what it has":            {effect: "image registry.example/gw:1"},
		"another tag":            {vars: map[string]any{"image": "registry.example/gw:2"}, effect: "image registry.example/gw:2"},
		"another image":          {vars: map[string]any{"image": "evil.example/gw:2"}, refused: "asks for image evil.example/gw:2; allowed: registry.example/gw:1"},
		"another path":           {vars: map[string]any{"socket": "/"}, refused: "plug docker: asks for path /, writable; allowed: path /run/docker.sock"},
		"another manifest":       {text: "resources: {a: {type: evil.example/root}}", refused: "type evil.example/root"},
		"another host":           {host: "b", query: both, refused: "instance_group.query: asks for host b; allowed: " + east, effect: "image registry.example/gw:1", not: map[purpose]string{observing: "", removing: ""}},
		"a host that it has":     {query: both, effect: "image registry.example/gw:1"},
		"a host that is allowed": {host: "b", query: both, allow: &allow.Rules{Hosts: "attribute:zone == west"}, effect: "image registry.example/gw:1"},
		"what was allowed":       {vars: map[string]any{"image": "registry.example/side:1"}, former: []*allow.Rules{nil, side}, refused: "image registry.example/side:1", effect: "image registry.example/side:1", not: map[purpose]string{observing: "", removing: ""}},
		"what was never allowed": {vars: map[string]any{"image": "evil.example/gw"}, former: []*allow.Rules{side}, refused: "image evil.example/gw"},
		"what differs each time": {text: "plugs: {docker: {path: '{{ \"/\" if _work != \"x\" else \"/run/docker.sock\" }}'}}\nresources: {}", refused: "path /, writable"},
	} {
		vars := maps.Clone(mine)
		maps.Copy(vars, test.vars)
		brought, query, host := cmp.Or(test.text, text), cmp.Or(test.query, east), cmp.Or(test.host, "a")
		of := tasks.Task{Environment: "e", Host: host, Revision: 2, Spec: spec(brought, vars), Bounds: &tasks.Bounds{
			Allow: test.allow, Former: test.former, Own: spec(text, mine), OwnQuery: east, Query: query,
		}}
		for _, p := range []purpose{applying, observing, removing} {
			refused := test.refused
			if other, differs := test.not[p]; differs {
				refused = other
			}
			got, err := func() ([]string, error) {
				o, err := w.carriedFor(of, manifest.Source{}, p)
				require.NoError(t, err)
				if o.bounds, err = w.bounds(of, p, nil); err != nil {
					return nil, err
				}
				in, err := w.load(of, manifest.Source{Name: "m.yaml", Data: []byte(brought)}, o)
				if err != nil {
					return nil, err
				}
				return effects(in)
			}()
			if refused != "" {
				assert.ErrorContains(t, err, refused, "%s: %d", name, p)
				assert.Equal(t, p == removing, strings.Contains(fmt.Sprint(err), "until it is removed"), "%s: %v", name, err)
				continue
			}
			assert.NoError(t, err, "%s: %d", name, p)
			assert.Contains(t, got, test.effect, "%s: %d", name, p)
		}
	}
}

// A secret whose file was moved away hinders nothing that does not depend on it: what runs is seen, and can be removed.
func TestASecretOfTheDefinitionThatIsGoneHindersNothingElse(t *testing.T) {
	c := newCheckout(t, nil)
	c.identities()
	w := c.tasks()
	keep := func(text string) string { return must.Get(w.Texts.Keep([]byte(text)))(t) }
	salt, hash, err := w.Texts.hash(vars.Assignment{Name: "token", Value: "s3cret"})
	require.NoError(t, err)
	carried := must.Get(revision.Variables{Salt: salt, Variables: []revision.Variable{{Name: "token", File: "gone.auto.yaml", Secret: hash}}}.Encode())(t)
	const resources = "resources: {a: {type: deployster/container, config: {image: 'registry.example/gw:1'"
	for name, test := range map[string]struct {
		own, refused string
		unsure       bool // so that nothing is applied
	}{
		"read by a resource":           {"plugs: {docker: {path: /run/docker.sock}}\n" + resources + ", environment: {T: '{{ token }}'}}}}", "", false},
		"of a type":                    {"variables: {token: {type: integer}}\nplugs: {docker: {path: /run/docker.sock}}\n" + resources + ", environment: {T: '{{ token }}'}}}}", "", false},
		"in the path of another plug":  {"plugs: {docker: {path: /run/docker.sock}, other: {path: '/srv/{{ token }}'}}\n" + resources + "}}}", "", true},
		"in the path of the same plug": {"plugs: {docker: {path: '/run/{{ token }}.sock'}}\n" + resources + "}}}", "plug docker: asks for path /run/docker.sock", true},
		"with a default":               {"variables: {token: {default: /run/docker.sock}}\nplugs: {docker: {path: '{{ token }}'}}\n" + resources + "}}}", "plug docker: asks for path /run/docker.sock", true},
		"of which another is made": {"variables: {token: {default: /run}, at: {default: '{{ token }}/docker.sock'}}\n" +
			"plugs: {docker: {path: '{{ at | default(\"/run/docker.sock\") }}'}}\n" + resources + "}}}", "plug docker: asks for path /run/docker.sock", true},
		"without which a path does": {"plugs: {docker: {path: '/run/{{ token | default(\"docker.sock\") }}'}}\n" + resources + "}}}", "plug docker: asks for path /run/docker.sock", true},
		"without which a path does in an image": {"plugs: {docker: {path: /run/docker.sock}}\n" +
			"resources: {a: {type: deployster/container, config: {image: 'registry.example/gw:{{ token | default(1) }}'}}}", "image registry.example/gw:2", false},
		"that a module gets": {"plugs: {docker: {path: /run/docker.sock}}\n" +
			"resources: {a: {type: deployster/container, config: {image: 'registry.example/other'}}}\nmodules: {m: {source: ./mod, vars: {name: '{{ token }}'}}}", "image registry.example/gw:2", false},
	} {
		text := "plugs: {docker: {path: /run/docker.sock}}\nresources: {a: {type: deployster/container, config: {image: 'registry.example/gw:2'}}}"
		of := tasks.Task{Environment: "e", Host: "a", Revision: 2, Spec: definition.TaskSpec{Manifest: "m.yaml", Digest: keep(text), Includes: map[string]string{}}, Bounds: &tasks.Bounds{
			Own: definition.TaskSpec{Manifest: "m.yaml", Digest: keep(test.own), Includes: map[string]string{
				revision.VariablesName: keep(string(carried)),
				"mod/module.yaml":      keep("variables: {name: {default: gw}}\nresources: {b: {type: deployster/container, config: {image: 'registry.example/{{ name | default(\"gw\") }}'}}}"),
			}},
		}}
		for _, p := range []purpose{applying, observing, removing} {
			o := must.Get(w.carriedFor(of, manifest.Source{}, p))(t)
			o.bounds = must.Get(w.bounds(of, p, nil))(t)
			assert.True(t, o.bounds.own != nil || test.unsure, "%s: %s", name, o.bounds.unknown)
			_, err := w.load(of, manifest.Source{Name: "m.yaml", Data: []byte(text)}, o)
			refused := test.refused
			if p == applying && test.unsure {
				refused = "what the definition names itself is not known"
			}
			if refused == "" {
				assert.NoError(t, err, "%s: %d", name, p)
			} else {
				assert.ErrorContains(t, err, refused, "%s: %d", name, p)
			}
		}
	}
}

// Nothing that is done with a task is done without its bounds.
func TestEveryPurposeOfATaskIsBound(t *testing.T) {
	c := newCheckout(t, nil)
	c.identities()
	w := c.tasks()
	w.ProbeTimeout = time.Minute
	w.pool.dial = func(context.Context, inventory.Host) (*Connection, error) {
		return &Connection{Engine: idleEngine{}}, nil
	}
	keep := func(text string) definition.TaskSpec {
		digest, err := w.Texts.Keep([]byte(text))
		require.NoError(t, err)
		return definition.TaskSpec{Manifest: "m.yaml", Digest: digest, Includes: map[string]string{}}
	}
	evil := tasks.Task{Environment: "e", Host: "a", Revision: 2, Spec: keep("resources: {a: {type: evil.example/root}}"), Bounds: &tasks.Bounds{Own: keep("resources: {}")}}
	const refused = "resource a: asks for type evil.example/root; allowed: nothing"
	_, err := w.Start(t.Context(), evil)
	assert.ErrorContains(t, err, refused)
	assert.ErrorContains(t, w.Check(t.Context(), evil), refused)
	assert.ErrorContains(t, w.Terminate(t.Context(), evil), refused)
	assert.Contains(t, w.Observe(t.Context(), evil).Detail, refused)
	own := evil
	own.Bounds = &tasks.Bounds{Own: evil.Spec, Query: "a", OwnQuery: "a"}
	limits, err := w.bounds(own, applying, nil)
	assert.True(t, limits == nil && err == nil, "what the definition names itself is bound: %v", err)
}

// idleEngine answers, and does nothing.
type idleEngine struct{ engine.Engine }

func (idleEngine) Info(context.Context) (engine.Info, error) { return engine.Info{}, nil }

// What is found in advance tells nothing of a secret, and no revision can say what stands for it.
func TestNothingThatIsFoundTellsASecret(t *testing.T) {
	c := newCheckout(t, map[string]string{"secret.auto.yaml": "token: /s3cret\n"})
	c.identities()
	b := Bounded{Inputs: c.config().Inputs, Texts: c.config().Texts, Hosts: c.pool().hosts}
	keep := func(text string) string {
		digest, err := b.Texts.Keep([]byte(text))
		require.NoError(t, err)
		return digest
	}
	salt, hash, err := b.Texts.hash(vars.Assignment{Name: "token", Value: "/s3cret"})
	require.NoError(t, err)
	carried, err := revision.Variables{Salt: salt, Variables: []revision.Variable{{Name: "token", File: "secret.auto.yaml", Secret: hash}}}.Encode()
	require.NoError(t, err)
	files := func(text string) record.Files {
		return record.Files{"m.yaml": keep(text), revision.VariablesName: keep(string(carried))}
	}
	const stage = "pipeline: gateway\nallow: {files: ['**'], plugs: {root: {path: /srv}}}\nstages: [{name: live, run: {manifest: m.yaml}}]\n"
	d, err := pipelinedefinition.Parse("gateway.yaml", []byte(stage), func(string) error { return nil })
	require.NoError(t, err)
	for name, test := range map[string]struct{ own, text, want string }{
		"the secret":               {"{}", "{a: {path: '{{ token }}'}}", ""},
		"a part of it":             {"{}", "{a: {path: '/etc/{{ token[1] }}'}}", ""},
		"a decision by it":         {"{}", "{a: {path: \"{{ '/etc' if token == '/s3cret' else '/srv' }}\"}}", "plug a: asks for path /srv, writable; allowed: nothing"},
		"beside it":                {"{}", "{a: {path: '{{ token }}'}, b: {path: /etc}}", "plug b: asks for path /etc, writable; allowed: nothing"},
		"the secret of what it is": {"{root: {path: '{{ token }}'}}", "{root: {path: /etc}}", "plug root: asks for path /etc, writable; allowed: at or below /srv, path ***"},
		"the same":                 {"{root: {path: '{{ token }}'}}", "{root: {path: '{{ token }}'}}", ""},
	} {
		own := files("plugs: " + test.own + "\nresources: {}")
		got := b.Release(d, own, pipeline.Release{Revision: "1", Carries: files("plugs: " + test.text + "\nresources: {}")})
		assert.Equal(t, test.want, strings.TrimSpace(allow.Text(got)), name)
	}
	assert.NotEqual(t, newNeutral(), newNeutral())

	// What is not compared in advance is said.
	var hosts []inventory.Host
	for n := range 7 {
		hosts = append(hosts, inventory.Host{Name: fmt.Sprint("h", n), Engine: inventory.Docker, Endpoint: fmt.Sprint("ssh://root@h", n), Slots: 1})
	}
	b.Hosts = FixedHosts("the inventory", hosts, nil)
	deploys, err := pipelinedefinition.Parse("gateway.yaml", []byte("pipeline: gateway\nstages: [{name: live, deploy: {host_groups: [{name: web, hosts: name exists}, {name: all, hosts: name exists}], steps: [{event: host-deployed, manifest: m.yaml}]}}]\n"), func(string) error { return nil })
	require.NoError(t, err)
	const secrets = "what depends on secrets or is known only when it is applied"
	assert.Equal(t, []string{secrets, "2 other hosts, and " + secrets, secrets, "1 other host, and " + secrets, "what its manifests bring"},
		[]string{b.ReleaseNotCompared(d), b.ReleaseNotCompared(deploys), b.UpdateNotCompared(make([]string, 5)), b.UpdateNotCompared(make([]string, 6)), Bounded{}.UpdateNotCompared(nil)})

	// Where it is applied it is known, and shown by no error: whatever the manifest says of it.
	w := &StepWorker{worker: newWorker(c.config(), c.pool(), "pipeline run")}
	s := step.Step{Target: "stage/gateway/live", Revision: "1", Stage: "live", Manifest: "m.yaml", Files: files("plugs: {a: {path: '{{ token }}'}}\nresources: {}"), Bounds: &deployment.Bounds{Own: c.owning("resources: {}")}}
	_, err = w.loadStep(s, LoadOptions{Builtin: w.variables(s, nil), bounds: w.ownLoader(w.Texts, w.pool.hosts, newNeutral()).stepBounds(s, nil)})
	assert.ErrorContains(t, err, "plug a: asks for path ")
	assert.NotContains(t, err.Error(), "s3cret")
}
