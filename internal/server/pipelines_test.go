package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/packages"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// distribution is a pipeline that builds packages.
const distribution = "pipeline: base\nstages:\n  - {name: make, build: {group: packages.yaml}}\n"

// distributed is a yard with the pipeline, and what a revision of it may carry.
func distributed(t *testing.T) (y *yard, group func(change ...func(*packages.Carried)) string) {
	t.Helper()
	y = newYard(t)
	digest, layer, content := y.source("int main() {}")
	y.put(200, "", "operator", digest, layer, content)
	y.base(200, "", "define", "admin", body{"definition": parsed(t, distribution)})
	return y, func(change ...func(*packages.Carried)) string { return y.carried(digest, change...) }
}

func parsed(t *testing.T, text string) *definition.Definition {
	d := must.Get(definition.Parse("base.yaml", []byte(text), inventory.CheckQuery))(t)
	return d
}

func (y *yard) base(status int, says, verb, who string, of body, header ...string) (said string) {
	return post(y.T, status, says, y.url+"/v1/pipelines/base/commands/"+verb, who, of, header...)
}

// carried keeps the document of a group that brings its files.
func (y *yard) carried(sources string, change ...func(*packages.Carried)) (digest string) {
	y.Helper()
	var c packages.Carried
	require.NoError(y, json.Unmarshal(mustJSON(y.T, y.body(sources)), &c.Submit))
	c.Files = map[string]string{}
	for name, hash := range c.Submit.Carries {
		text := must.Get(y.store.Load(hash))(y)
		c.Files[name] = string(text)
	}
	for _, f := range change {
		f(&c)
	}
	text := must.Get(c.Encode())(y)
	return y.keep(string(text))
}

func (y *yard) keep(text string) (digest string) {
	digest = must.Get(y.store.Keep([]byte(text)))(y)
	return digest
}

// carriedBy is the group that an event says a revision carries.
func (y *yard) carriedBy(name string) (all []packages.Carried) {
	for e, err := range y.log.Read(y.Context(), deploylog.Filter{Name: name}) {
		require.NoError(y, err)
		var p struct {
			Carries map[string]string `json:"carries"`
		}
		require.NoError(y, json.Unmarshal(e.Data, &p))
		text, err := y.store.Load(p.Carries[record.CarriedGroup("make")])
		if err != nil {
			continue // it carries none
		}
		c := must.Get(packages.Decode(text))(y)
		all = append(all, c)
	}
	return all
}

// A revision carries its group as it is where it will be built, however it was sent, and how often.
func TestARevisionCarriesItsGroupThroughAServer(t *testing.T) {
	y, group := distributed(t)
	of := body{"revision": "1", "carries": body{record.CarriedGroup("make"): group(func(c *packages.Carried) {
		c.Submit.By = "root"
	})}}
	for _, who := range []string{"viewer", "of base"} {
		y.base(403, "", "release", who, of)
	}
	first := y.base(200, "", "release", "operator", of, "Idempotency-Key", "once")
	assert.Equal(t, first, y.base(200, "", "release", "operator", of, "Idempotency-Key", "once"))
	y.base(409, "already released", "release", "operator", of)
	all := y.carriedBy(record.PipelineStarted)
	require.Len(t, all, 1, "released are %v", all)
	s := all[0].Submit
	if s.By != "" || s.Places[0].Inventory != "ours" || len(s.Jobs[0].Inputs) != 64 || all[0].Files["packages.yaml"] != "group: base" {
		t.Errorf("it carries %+v", all[0])
	}

	// Revisions under way get another one with a definition.
	changed := parsed(t, distribution+"  - {name: ask, approval: {}}\n")
	define := body{"definition": changed, "carries": of["carries"], "adopt": []string{"1"}}
	y.base(403, "", "define", "of base", define)
	y.base(200, "", "define", "admin", define)
	all = y.carriedBy(record.PipelineDefined)
	assert.True(t, len(all) == 1 && all[0].Submit.Jobs[0].Inputs == s.Jobs[0].Inputs, "it carries %v", all)
}

func TestHostileGroupsOfRevisions(t *testing.T) {
	y, group := distributed(t)
	plain, make := group(), record.CarriedGroup("make")
	text := must.Get(y.store.Load(plain))(t)
	missing := "sha256:" + strings.Repeat("0", 64)
	for _, test := range map[string]struct {
		carries map[string]string
		says    string
	}{
		"none":                     {map[string]string{}, "does not carry"},
		"no object":                {map[string]string{make: strings.Repeat("0", 64)}, "is not here"},
		"no document":              {map[string]string{make: y.keep("[]")}, "cannot unmarshal"},
		"of a later version":       {map[string]string{make: y.keep(`{"version":2}`)}, "use a newer one"},
		"another file":             {map[string]string{make: group(func(c *packages.Carried) { c.Submit.File = "other.yaml" })}, "the stage builds"},
		"of no stage":              {map[string]string{make: plain, record.CarriedGroup("other"): plain}, "builds no packages"},
		"sources that are nowhere": {map[string]string{make: y.carried(missing)}, "put it first"},
		"a file that is another":   {map[string]string{make: group(func(c *packages.Carried) { c.Files["packages.yaml"] = "group: evil" })}, "is not the one that it carries"},
		"a file too many":          {map[string]string{make: group(func(c *packages.Carried) { c.Files["x"] = "y" })}, "is not the one that it carries"},
		"a file too few":           {map[string]string{make: group(func(c *packages.Carried) { c.Submit.Carries["x"] = objects.Hash([]byte("x")) })}, "is not here"},
		"no jobs":                  {map[string]string{make: group(func(c *packages.Carried) { c.Submit.Jobs = nil })}, "it has no jobs"},
		"no place":                 {map[string]string{make: group(func(c *packages.Carried) { c.Submit.Places = nil })}, "place 0 of 0"},
		"a negative bound":         {map[string]string{make: group(func(c *packages.Carried) { c.Submit.MaxLost = -1 })}, "max_lost is -1"},
		"a path as its name":       {map[string]string{make: group(func(c *packages.Carried) { c.Submit.Name = "../base" })}, "cannot be its name"},
		"many numbers":             {map[string]string{make: y.keep(`{"submit":` + string(mustJSON(t, body{"jobs": manyWaits()})) + `}`)}, "too large"},
		"many numbers, and others": {map[string]string{make: y.keep(strings.TrimSuffix(string(text), "}") + `,"SUBMIT":` + string(mustJSON(t, body{"jobs": manyWaits()})) + `,"submit":{}}`)}, "too large"},
	} {
		y.base(422, test.says, "release", "operator", body{"revision": "1", "carries": test.carries})
		if _, is := test.carries[make]; !is {
			continue // which a definition may, of which no revision is under way
		}
		changed := parsed(t, distribution+"  - {name: ask, approval: {}}\n")
		y.base(422, test.says, "define", "admin", body{"definition": changed, "carries": test.carries})
	}
	all := y.carriedBy(record.PipelineStarted)
	assert.True(t, len(all) == 0 && len(y.submitted()) == 0, "released are %v", all)
	y.base(200, "", "release", "operator", body{"revision": "1", "carries": map[string]string{make: plain}})
}

func TestAGroupOfAnEarlierDefinition(t *testing.T) {
	y, group := distributed(t)
	y.base(200, "", "define", "admin", body{"definition": parsed(t, strings.Replace(distribution, "packages.yaml", "other.yaml", 1))})
	of := body{"revision": "1", "carries": body{record.CarriedGroup("make"): group()}}
	y.base(412, "collect anew", "release", "operator", of, "If-Match", "1")
	y.base(422, `the stage builds \"other.yaml\"`, "release", "operator", of)
}

const asking = "pipeline: web\nstages:\n  - {name: ask, approval: {}}\n"

// pipeline is a definition as JSON has it.
func (s *shop) pipeline(text string, change ...func(*definition.Definition)) *definition.Definition {
	d := must.Get(definition.Parse("web.yaml", []byte(text), inventory.CheckQuery))(s)
	for _, c := range change {
		c(d)
	}
	return d
}

func (s *shop) command(status int, says, who, verb string, of any, header ...string) (said string) {
	return post(s.T, status, says, s.url+"/v1/pipelines/web/commands/"+verb, who, of, header...)
}

// Whoever could change a definition could leave out the approvals, so an operator may not.
func TestPipelinesAreDefinedAndDeleted(t *testing.T) {
	s := newShop(t)
	const deploying = asking + "  - {name: live, deploy: {host_groups: [{name: web, hosts: 'attribute:stack == prod'}], steps: [{event: host-deployed, manifest: m.yaml}]}}\n"
	text := must.Get(s.store.Keep([]byte("resources: {}")))(t)
	s.command(403, "may not", "operator", "define", body{"definition": s.pipeline(asking)})
	s.command(403, "may not", "approver", "define", body{"definition": s.pipeline(asking)})
	s.command(422, "there is no definition", "admin", "define", body{})
	s.command(422, "is of pipeline other", "admin", "define", body{"definition": s.pipeline(strings.Replace(asking, "web", "other", 1))})
	s.command(422, "cannot be", "admin", "define", body{"definition": s.pipeline(asking, func(d *definition.Definition) { d.Stages[0].Name = "../ask" })})
	s.command(422, "unknown field", "admin", "define", body{"definition": s.pipeline(asking), "inventory": "mine"})
	s.command(422, "is not here: put it first", "admin", "define", body{"definition": s.pipeline(asking), "carries": body{"m.yaml": strings.Repeat("0", 64)}})
	s.command(404, "unknown pipeline", "admin", "define", body{"definition": s.pipeline(asking), "adopt": []string{"7"}})
	s.command(200, `"by":"the admin"`, "admin", "define", body{"definition": s.pipeline(asking)})
	_, _, said := ask(t, "GET", s.url+"/v1/log", "viewer", "")
	_, before, _ := strings.Cut(strings.Trim(said, "}\n"), `"head":`)
	s.command(200, "pipeline-started", "operator", "release", body{"revision": "1"})
	s.command(412, "something else", "admin", "define", body{"definition": s.pipeline(deploying)})
	s.command(422, "would not get", "admin", "define", body{"definition": s.pipeline(deploying), "carries": body{"other.yaml": text}})
	s.command(412, "something else", "admin", "define", body{"definition": s.pipeline(deploying), "carries": body{"m.yaml": text}}, "If-Match", before)
	s.command(200, "pipeline-defined", "admin", "define", body{"definition": s.pipeline(deploying), "carries": body{"m.yaml": text}})
	s.command(403, "may not", "operator", "delete", body{"cancel": true})
	s.command(409, "1", "admin", "delete", body{})
	s.command(412, "something else", "admin", "delete", body{"cancel": true}, "If-Match", before)
	s.command(200, "pipeline-deleted", "admin", "delete", body{"cancel": true, "reason": "old"})
}

func TestADefinitionReachesNoOtherEnvironment(t *testing.T) {
	s := newShop(t)
	to := func(environment string) body {
		return body{"definition": s.pipeline(asking + fmt.Sprintf("  - {name: live, environment: %s}\n", environment))}
	}
	s.command(403, "", "admin of web", "define", to("theirs"))
	s.command(200, "", "admin", "define", to("theirs"))
	s.command(200, "", "admin of web", "define", to("theirs")) // it changes nothing about that
	s.command(403, "", "admin of web", "define", to("others"))
	s.command(200, "", "admin of web", "define", body{"definition": s.pipeline(asking)})
	s.command(403, "", "admin of other", "define", body{"definition": s.pipeline(asking)})
}
