package work

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/manifest"
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
	configure := in.configure()
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
		for _, path := range mounted(config) {
			all = append(all, "mount "+path)
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
	in, err := w.loadStep(s, LoadOptions{Builtin: w.variables(s, artifacts), bounds: w.stepBounds(w.Texts, s, artifacts, w.pool.hosts)})
	if err != nil {
		return nil, err
	}
	return effects(in)
}

// Who may not bring everything brings what the definition names and allows, and nothing else runs anywhere: of each
// revision it is said what would take effect, or why it is refused.
func TestEffectsOfRevisionsThatAreBound(t *testing.T) {
	c := newCheckout(t, nil)
	c.identities()
	plugged := func(path string) string { return strings.Replace(own, "/srv/gateway}", path+"}", 1) }
	with := func(image string) string { return strings.Replace(own, "registry.example/gw:{{ revision }}", image, 1) }
	rules := &allow.Rules{
		Types: []string{"registry.example/types/*"}, Images: []string{"registry.example/side/*", "registry.example/fixed:1"},
		Plugs: map[string]allow.Plug{"root": {Path: "/srv"}, "logs": {Path: "/var/log", ReadOnly: true}},
	}
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
		"another image":                       {text: with("evil.example/gw:1"), refused: "asks for image evil.example/gw:1; allowed: registry.example/gw:x"},
		"another tag":                         {text: with("registry.example/gw:7"), want: "image registry.example/gw:7"},
		"an image of an artifact":             {text: with("{{ artifacts.web }}"), artifacts: map[string]string{"web": "evil.example/gw"}, refused: "image evil.example/gw"},
		"an allowed image of an artifact":     {text: with("{{ artifacts.web }}"), allow: rules, artifacts: map[string]string{"web": "registry.example/side/a:3"}, want: "image registry.example/side/a:3"},
		"a name that is another repository":   {text: own, change: func(s *step.Step) { s.Revision = "1/../../evil" }, refused: "image registry.example/gw:1/../../evil"},
		"an id":                               {text: with(digest), allow: rules, refused: "image " + digest},
		"a mount":                             {text: strings.Replace(own, "/srv/gateway/data", "/etc", 1), refused: "a mount of path /etc; allowed: /srv/gateway/data"},
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
	for name, test := range map[string]struct {
		host, query, text string
		vars              map[string]any
		allow             *allow.Rules
		want, refused     string
	}{
		"another tag":            {host: "a", vars: map[string]any{"image": "registry.example/gw:2"}, want: "image registry.example/gw:2"},
		"another image":          {host: "a", vars: map[string]any{"image": "evil.example/gw:2"}, refused: "asks for image evil.example/gw:2; allowed: registry.example/gw:1"},
		"another path":           {host: "a", vars: map[string]any{"socket": "/"}, refused: "plug docker: asks for path /, writable; allowed: path /run/docker.sock"},
		"another manifest":       {host: "a", text: "resources: {a: {type: evil.example/root}}", refused: "type evil.example/root"},
		"another host":           {host: "b", query: "attribute:zone in (east, west)", refused: "instance_group.query: asks for host b; allowed: attribute:zone == east"},
		"a host that it has":     {host: "a", query: "attribute:zone in (east, west)", want: "image registry.example/gw:1"},
		"a host that is allowed": {host: "b", query: "attribute:zone in (east, west)", allow: &allow.Rules{Hosts: "attribute:zone == west"}, want: "image registry.example/gw:1"},
	} {
		vars := maps.Clone(mine)
		maps.Copy(vars, test.vars)
		brought := text
		if test.text != "" {
			brought = test.text
		}
		query := test.query
		if query == "" {
			query = "attribute:zone == east"
		}
		of := tasks.Task{Environment: "e", Host: test.host, Revision: 2, Spec: spec(brought, vars), Bounds: &tasks.Bounds{
			Allow: test.allow, Own: spec(text, mine), OwnQuery: "attribute:zone == east", Query: query,
		}}
		got, err := func() ([]string, error) {
			o, err := w.carried(of)
			require.NoError(t, err)
			if o.bounds, err = w.taskBounds(w.Texts, of, nil, w.pool.hosts, w.promoted); err != nil {
				return nil, err
			}
			in, err := w.load(of, manifest.Source{Name: "m.yaml", Data: []byte(brought)}, o)
			if err != nil {
				return nil, err
			}
			return effects(in)
		}()
		if test.refused != "" {
			assert.ErrorContains(t, err, test.refused, name)
			continue
		}
		assert.NoError(t, err, name)
		assert.Contains(t, got, test.want, fmt.Sprint(name, filepath.Base(c.dir)))
	}
}
