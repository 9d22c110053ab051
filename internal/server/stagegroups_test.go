package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/packages"
	"github.com/deployster-go/deployster/deploylog"
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
	if status, said := y.put("operator", digest, layer, content); status != 200 {
		t.Fatal(status, said)
	}
	if status, said := y.base("define", "admin", body{"definition": parsed(t, distribution)}); status != 200 {
		t.Fatal(status, said)
	}
	return y, func(change ...func(*packages.Carried)) string {
		t.Helper()
		return y.carried(digest, change...)
	}
}

func parsed(t *testing.T, text string) *definition.Definition {
	t.Helper()
	d, err := definition.Parse("base.yaml", []byte(text), inventory.CheckQuery)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// base sends a command for the pipeline.
func (y *yard) base(verb, who string, of body, header ...string) (status int, said string) {
	y.Helper()
	status, _, said = ask(y.T, "POST", y.url+"/v1/pipelines/base/commands/"+verb, who, string(mustJSON(y.T, of)), header...)
	return status, said
}

// carried keeps the document of a group that brings its files.
func (y *yard) carried(sources string, change ...func(*packages.Carried)) (digest string) {
	y.Helper()
	var c packages.Carried
	if err := json.Unmarshal(mustJSON(y.T, y.body(sources)), &c.Submit); err != nil {
		y.Fatal(err)
	}
	c.Files = map[string]string{}
	for name, hash := range c.Submit.Carries {
		text, err := y.store.Load(hash)
		if err != nil {
			y.Fatal(err)
		}
		c.Files[name] = string(text)
	}
	for _, f := range change {
		f(&c)
	}
	text, err := c.Encode()
	if err != nil {
		y.Fatal(err)
	}
	return y.keep(string(text))
}

func (y *yard) keep(text string) (digest string) {
	y.Helper()
	digest, err := y.store.Keep([]byte(text))
	if err != nil {
		y.Fatal(err)
	}
	return digest
}

// carriedBy is the group that an event says a revision carries.
func (y *yard) carriedBy(name string) (all []packages.Carried) {
	y.Helper()
	for e, err := range y.log.Read(y.Context(), deploylog.Filter{Name: name}) {
		if err != nil {
			y.Fatal(err)
		}
		var p struct {
			Carries map[string]string `json:"carries"`
		}
		if err := json.Unmarshal(e.Data, &p); err != nil {
			y.Fatal(err)
		}
		text, err := y.store.Load(p.Carries[record.CarriedGroup("make")])
		if err != nil {
			continue // it carries none
		}
		c, err := packages.Decode(text)
		if err != nil {
			y.Fatal(err)
		}
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
		if status, said := y.base("release", who, of); status != 403 {
			t.Errorf("%s releases: %d %s", who, status, said)
		}
	}
	status, first := y.base("release", "operator", of, "Idempotency-Key", "once")
	if again, said := y.base("release", "operator", of, "Idempotency-Key", "once"); status != 200 || again != 200 || said != first {
		t.Errorf("%d %s, and first %d %s", again, said, status, first)
	}
	if status, said := y.base("release", "operator", of); status != 409 || !strings.Contains(said, "already released") {
		t.Errorf("again: %d %s", status, said)
	}
	all := y.carriedBy(record.PipelineStarted)
	if len(all) != 1 {
		t.Fatalf("released are %v", all)
	}
	s := all[0].Submit
	if s.By != "" || s.Places[0].Inventory != "ours" || len(s.Jobs[0].Inputs) != 64 || all[0].Files["packages.yaml"] != "group: base" {
		t.Errorf("it carries %+v", all[0])
	}

	// Revisions under way get another one with a definition.
	changed := parsed(t, distribution+"  - {name: ask, approval: {}}\n")
	define := body{"definition": changed, "carries": of["carries"], "adopt": []string{"1"}}
	if status, said := y.base("define", "of base", define); status != 403 {
		t.Errorf("it is defined: %d %s", status, said)
	}
	if status, said := y.base("define", "admin", define); status != 200 {
		t.Fatal(status, said)
	}
	if all := y.carriedBy(record.PipelineDefined); len(all) != 1 || all[0].Submit.Jobs[0].Inputs != s.Jobs[0].Inputs {
		t.Errorf("it carries %v", all)
	}
}

func TestHostileGroupsOfRevisions(t *testing.T) {
	y, group := distributed(t)
	plain, make := group(), record.CarriedGroup("make")
	text, err := y.store.Load(plain)
	if err != nil {
		t.Fatal(err)
	}
	missing := "sha256:" + strings.Repeat("0", 64)
	for name, test := range map[string]struct {
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
		status, said := y.base("release", "operator", body{"revision": "1", "carries": test.carries})
		if status != 422 || !strings.Contains(said, test.says) {
			t.Errorf("%s: %d %s", name, status, said)
		}
		if _, is := test.carries[make]; !is {
			continue // which a definition may, of which no revision is under way
		}
		changed := parsed(t, distribution+"  - {name: ask, approval: {}}\n")
		if status, said := y.base("define", "admin", body{"definition": changed, "carries": test.carries}); status != 422 || !strings.Contains(said, test.says) {
			t.Errorf("%s, as one defines it: %d %s", name, status, said)
		}
	}
	if all := y.carriedBy(record.PipelineStarted); len(all) != 0 || len(y.submitted()) != 0 {
		t.Errorf("released are %v", all)
	}
	if status, said := y.base("release", "operator", body{"revision": "1", "carries": map[string]string{make: plain}}); status != 200 {
		t.Error(status, said)
	}
}

// A group that was collected for another definition is collected anew.
func TestAGroupOfAnEarlierDefinition(t *testing.T) {
	y, group := distributed(t)
	if status, said := y.base("define", "admin", body{"definition": parsed(t, strings.Replace(distribution, "packages.yaml", "other.yaml", 1))}); status != 200 {
		t.Fatal(status, said)
	}
	of := body{"revision": "1", "carries": body{record.CarriedGroup("make"): group()}}
	if status, said := y.base("release", "operator", of, "If-Match", "1"); status != 412 || !strings.Contains(said, "collect anew") {
		t.Errorf("%d %s", status, said)
	}
	if status, said := y.base("release", "operator", of); status != 422 || !strings.Contains(said, `the stage builds \"other.yaml\"`) {
		t.Errorf("%d %s", status, said)
	}
}
