package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/server"
)

const gateway = `pipeline: web
allow: {files: [site/*.html], plugs: {root: {path: /srv/web}}}
stages:
  - {name: build, build: {artifacts: [web]}}
  - {name: live, deploy: {host_groups: [{name: web, hosts: 'attribute:stack == prod'}], steps: [{event: host-deployed, manifest: m.yaml}]}}
`

// recorded is the data of the newest event of a name; nil is none.
func (s *shop) recorded(name string) (data struct {
	Bound   bool              `json:"bound"`
	Carries map[string]string `json:"carries"`
	By      string            `json:"by"`
}, n int) {
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Name: name}) {
		require.NoError(s, err)
		data.Bound = false
		require.NoError(s, json.Unmarshal(e.Data, &data))
		n++
	}
	return data, n
}

func (s *shop) keep(text string) string { return must.Get(s.store.Keep([]byte(text)))(s) }

// Which manifest would run on the hosts of a pipeline, by whom it is released: who is operator of it alone brings its
// own files and nothing else, and is known as such where they are applied.
func TestWhoBringsWhatToAPipeline(t *testing.T) {
	s := newShop(t)
	mine, evil := s.keep("resources: {}"), s.keep("plugs: {root: {path: /}}\nresources: {a: {type: evil.example/root}}")
	page := s.keep("<h1>")
	s.command(403, "there is no pipeline web", "admin of web", "define", body{"definition": s.pipeline(gateway)})
	s.command(200, "", "admin", "define", body{"definition": s.pipeline(gateway)})
	s.command(403, "An admin applies its definition again", "ci of web", "release", body{"revision": "1", "carries": body{"m.yaml": mine}})
	s.command(200, "pipeline-files-defined", "admin", "define", body{"definition": s.pipeline(gateway), "files": body{"m.yaml": mine}})
	for name, test := range map[string]struct {
		who     string
		carries body
		refused string
	}{
		"its files":                          {"ci of web", body{"m.yaml": mine}, ""},
		"its files, and allowed":             {"ci of web", body{"m.yaml": mine, "site/a.html": page}, ""},
		"another manifest":                   {"ci of web", body{"m.yaml": evil}, "file m.yaml: asks for content " + evil[:12] + "; allowed: content " + mine[:12] + " of the definition"},
		"another manifest by an admin of it": {"admin of web", body{"m.yaml": evil}, "file m.yaml: asks for"},
		"a file more":                        {"ci of web", body{"m.yaml": mine, "n.yaml": evil}, "file n.yaml: asks for content " + evil[:12] + "; allowed: nothing"},
		"a file below what is allowed":       {"ci of web", body{"m.yaml": mine, "site/a/b.html": page}, "site/a/b.html"},
		"another manifest by an operator":    {"operator", body{"m.yaml": evil, "n.yaml": page}, ""},
	} {
		_, before := s.recorded("pipeline-started")
		of := body{"revision": strings.ReplaceAll(name, " ", "-"), "carries": test.carries}
		if test.refused != "" {
			said := s.command(403, "may not do this: revision", test.who, "release", of)
			assert.Contains(t, said, test.refused, name)
			assert.Contains(t, said, "Release it with --pending, and an operator of everything accepts it, or ask who may define it to allow it (allow)", name)
			_, after := s.recorded("pipeline-started")
			assert.Equal(t, before, after, name)
			continue
		}
		s.command(200, "", test.who, "release", of)
		got, _ := s.recorded("pipeline-started")
		assert.Equal(t, test.who != "operator", got.Bound, name)
		// What an operator of everything released is what it names from now on.
		s.command(200, "", "admin", "define", body{"definition": s.pipeline(gateway), "files": body{"m.yaml": mine}})
	}
	s.command(422, "unknown field", "ci of web", "release", body{"revision": "9", "carries": body{"m.yaml": mine}, "bound": false})
	s.command(200, "", "ci of web", "receive-artifact", body{"revision": "its-files", "kind": "web", "ref": "evil.example/web"})
	got, _ := s.recorded("build-stage-received-web-artifact")
	assert.True(t, got.Bound && got.By == "ci", "%+v", got)
}

// A definition by who is admin of a pipeline alone widens nothing of what its revisions bring.
func TestADefinitionWidensNothing(t *testing.T) {
	s := newShop(t)
	mine, evil := s.keep("resources: {}"), s.keep("resources: {a: {type: evil.example/root}}")
	s.command(200, "", "admin", "define", body{"definition": s.pipeline(gateway), "files": body{"m.yaml": mine}})
	replaced := func(old, to string) body {
		return body{"definition": s.pipeline(strings.Replace(gateway, old, to, 1)), "carries": body{"m.yaml": mine}}
	}
	for _, test := range []struct {
		of   body
		says string
	}{
		{replaced("path: /srv/web", "path: /"), "allow: asks for another one; allowed: that of the present definition"},
		{replaced("files: [site/*.html], ", ""), "allow: asks for another one"},
		{replaced("manifest: m.yaml", "manifest: n.yaml"), "manifest n.yaml"},
		{replaced("attribute:stack == prod", "name exists"), "host group web: asks for hosts name exists"},
		{body{"definition": s.pipeline(strings.Replace(gateway, "name: build,", "name: make,", 1)), "carries": body{"m.yaml": evil}}, "file m.yaml: asks for content"},
	} {
		if test.says == "manifest n.yaml" {
			test.of["carries"] = body{"m.yaml": mine, "n.yaml": mine}
		}
		s.command(403, test.says, "admin of web", "define", test.of)
	}
	s.command(200, "", "admin of web", "define", replaced("name: build,", "name: make,"))
	s.command(200, "", "admin of web", "delete", body{})
	s.command(403, "there is no pipeline web", "admin of web", "define", replaced("path: /srv/web", "path: /"))
}

// Which task would run on which hosts of an environment, by whom a revision of it is made.
func TestWhoBringsWhatToAnEnvironment(t *testing.T) {
	var later atomic.Int64
	var foreseen sync.Map
	s := newShop(t, func(o *server.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		o.Things = func(of tasks.Task) []tasks.Thing {
			foreseen.Store(of.Host+" "+of.Spec.Digest, true)
			return nil
		}
	})
	const evil = "resources: {a: {type: evil.example/root}}"
	s.send(403, "there is no environment shop", "of shop", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	for name, test := range map[string]struct {
		text   string
		change func(*definition.Definition)
		says   string
	}{
		"another manifest": {evil, nil, "file m.yaml: asks for content"},
		"another file":     {"resources: {}", func(d *definition.Definition) { d.Task.Includes = map[string]string{"x": s.keep("x")} }, "file x: asks for"},
		"other hosts":      {"resources: {}", func(d *definition.Definition) { d.InstanceGroup.Query = "name exists" }, "instance_group.query: asks for name exists; allowed: attribute:stack == prod"},
		"a verification": {"resources: {}", func(d *definition.Definition) {
			*d = *must.Get(d.Set([]string{"deployment.steps=[{hosts: 1, verify: v.yaml}]"}, func(string) error { return nil }))(t)
			d.Deployment.VerifyFiles = map[string]string{"v.yaml": s.keep(evil)}
		}, "file v.yaml: asks for content"},
		"what is allowed": {"resources: {}", func(d *definition.Definition) {
			allowed := must.Get(definition.Parse("shop", []byte(strings.Replace(definitionOf, "%s", "shop", 1)+"allow: {files: ['**']}\n"), func(string) error { return nil }))(t)
			d.Allow = allowed.Allow
		}, "allow: asks for another one"},
	} {
		d := s.definition("shop", test.text)
		if test.change != nil {
			test.change(d)
		}
		said := s.send(403, test.says, "of shop", "shop", "update", body{"base": 1, "definition": d})
		assert.Contains(t, said, "Update it with --pending, and an operator of everything accepts it, or ask who may define it to allow it (allow)")
		// It waits for somebody who may, with all that it brings; nobody else accepts it.
		said = s.send(200, "environment-update-asked", "of shop", "shop", "update", body{"base": 1, "definition": d, "pending": true})
		assert.Contains(t, said, test.says, name)
		content := regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(said)
		if name == "a verification" { // its text is shown with the difference
			all := query.NewEnvironments(s.log, time.Now)
			require.NoError(t, all.Follow(t.Context(), 0))
			differences := must.Get(all.Differences("shop", 1, 2, work.TextsIn(s.store)))(t)
			assert.Contains(t, differences.Manifest, "+"+evil)
		}
		s.send(409, "already asked for", "of shop", "shop", "update", body{"base": 1, "definition": d, "pending": true})
		for _, who := range []string{"of shop", "admin of web", "viewer"} {
			s.send(403, "you may not do this", who, "shop", "accept", body{"revision": 2, "content": content})
		}
		s.send(409, "and not with sha256:0", "operator", "shop", "accept", body{"revision": 2, "content": "sha256:0"})
		assert.Len(t, s.report("shop").Rows, 1, name)
		s.send(200, "environment-update-declined", "of shop", "shop", "decline", body{"revision": 2})
		s.send(404, "no such request for revision 2", "operator", "shop", "accept", body{"revision": 2, "content": content})
	}
	// Who accepts it sees first what changes the definition, however many files there are, and the beginning of each line.
	many := s.definition("shop", "resources: {}", func(d *definition.Definition) {
		d.InstanceGroup.Query = "name exists"
		d.Allow = &allow.Rules{Plugs: map[string]allow.Plug{"root": {Path: "/"}}, Files: slices.Repeat([]string{strings.Repeat("a", 900)}, 20)}
		for n := range 30 {
			d.Task.Includes[fmt.Sprintf("a%02d", n)] = s.keep("x")
		}
	})
	request := func(d *definition.Definition) []string {
		s.send(200, "environment-update-asked", "of shop", "shop", "update", body{"base": 1, "definition": d, "pending": true})
		var asked struct{ Asks acceptance.Asks }
		for e, err := range s.log.Read(s.Context(), deploylog.Filter{Name: "environment-update-asked", Last: 1}) {
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(e.Data, &asked))
		}
		s.send(200, "environment-update-declined", "of shop", "shop", "decline", body{"revision": 2})
		return asked.Asks.Excess
	}
	lines := request(many)
	require.Len(t, lines, 22)
	assert.Contains(t, lines[0], `allow: asks for another one, {"plugs":{"root":{"path":"/"}},"files":["aaa`)
	assert.Regexp(t, `a… \([0-9]+ more bytes\)$`, lines[0])
	assert.Equal(t, []string{
		"instance_group.query: asks for name exists; allowed: attribute:stack == prod", "12 more", "not compared: what its manifests bring",
	}, []string{lines[1], lines[20], lines[21]})
	// So it does if all that another query selects at present is allowed. A revision with nothing else is not asked for, and made at once.
	s.api.Bounded.Hosts = s.hosts.(*work.Hosts)
	same := func(d *definition.Definition) {
		d.InstanceGroup.Query = "attribute:stack == prod or attribute:stack == later"
	}
	lines = request(s.definition("shop", evil, same))
	assert.Equal(t, "instance_group.query: asks for attribute:stack == prod or attribute:stack == later; allowed: attribute:stack == prod", lines[0])
	assert.Equal(t, "not compared: what depends on secrets or is known only when it is applied", lines[len(lines)-1])
	s.api.Bounded.Hosts = nil
	varied := func(text string) *definition.Definition {
		return s.definition("shop", text, func(d *definition.Definition) { d.Task.Vars = map[string]any{"tag": "2"} })
	}
	s.send(200, "environment-updated", "of shop", "shop", "update", body{"base": 1, "definition": varied("resources: {}"), "pending": true})
	got, _ := s.recorded("environment-updated")
	assert.True(t, got.Bound, "it is not bound")
	said := s.send(200, "environment-update-asked", "of shop", "shop", "update", body{"base": 2, "definition": varied(evil), "pending": true})
	// It is part of the status until it expires, also if nothing is appended.
	status, asked := read(t, s.api, s.url, "/v1/environments/{name}", "/v1/environments/shop")
	assert.NotNil(t, status["asked"])
	later.Store(int64(acceptance.Lasts + time.Minute))
	code, _, text := ask(t, "GET", s.url+"/v1/environments/shop", "viewer", "", "If-None-Match", asked.Get("ETag"))
	assert.True(t, code == http.StatusOK && !strings.Contains(text, `"asked"`), "%d: %s", code, text)
	status, _ = read(t, s.api, s.url, "/v1/environments/{name}", "/v1/environments/shop")
	assert.Nil(t, status["asked"])
	later.Store(0)
	foreseen.Clear()
	s.send(200, "environment-updated", "operator", "shop", "accept", body{"revision": 3, "content": regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(said)})
	for _, host := range []string{"web1", "web2"} {
		_, known := foreseen.Load(host + " " + s.keep(evil))
		assert.True(t, known, "what it makes on %s was not found out before the lock was taken", host)
	}
	got, _ = s.recorded("environment-updated")
	assert.False(t, got.Bound, "that which an operator of everything accepted is bound")
	assert.Equal(t, "shop", got.By)
	// What an operator of everything allows with a command counts.
	allowing := func(d *definition.Definition) {
		d.Allow = &allow.Rules{Files: []string{"site/*.html"}, Plugs: map[string]allow.Plug{"root": {Path: "/srv", ReadOnly: true}}}
		d.Task.Includes = map[string]string{}
	}
	s.send(200, "environment-updated", "operator", "shop", "update", body{"base": 3, "definition": s.definition("shop", "resources: {}", allowing)})
	page := func(name string) *definition.Definition {
		return s.definition("shop", "resources: {}", func(d *definition.Definition) {
			allowing(d)
			d.Task.Includes = map[string]string{name: s.keep("<h1>")}
		})
	}
	s.send(403, "file conf/a.html: asks for", "of shop", "shop", "update", body{"base": 4, "definition": page("conf/a.html")})
	s.send(200, "environment-updated", "of shop", "shop", "update", body{"base": 4, "definition": page("site/a.html")})
	s.api.Bounded.Hosts = s.hosts.(*work.Hosts)
	s.send(200, "environment-updated", "of shop", "shop", "update", body{"base": 5, "definition": s.definition("shop", "resources: {}", allowing, same), "pending": true})
	s.send(200, "", "of shop", "shop", "delete", body{"leave_tasks": true})
	s.send(403, "there is no environment shop", "of shop", "shop", "create", body{"definition": s.definition("shop", evil)})
}
