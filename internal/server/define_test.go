package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline/definition"
)

const asking = "pipeline: web\nstages:\n  - {name: ask, approval: {}}\n"

// pipeline is a definition as JSON has it.
func (s *shop) pipeline(text string, change ...func(*definition.Definition)) *definition.Definition {
	s.Helper()
	d, err := definition.Parse("web.yaml", []byte(text), inventory.CheckQuery)
	if err != nil {
		s.Fatal(err)
	}
	for _, c := range change {
		c(d)
	}
	return d
}

// Whoever could change a definition could leave out the approvals, so an operator may not.
func TestPipelinesAreDefinedAndDeleted(t *testing.T) {
	s := newShop(t)
	const deploying = asking + "  - {name: live, deploy: {host_groups: [{name: web, hosts: 'attribute:stack == prod'}], steps: [{event: host-deployed, manifest: m.yaml}]}}\n"
	text, err := s.store.Keep([]byte("resources: {}"))
	if err != nil {
		t.Fatal(err)
	}
	head := func() string {
		_, _, said := ask(t, "GET", s.url+"/v1/log", "viewer", "")
		_, after, _ := strings.Cut(said, `"head":`)
		return strings.Trim(after, "}\n")
	}
	before := ""
	for i, step := range []struct {
		who, verb string
		body      any
		stale     bool // made for what was before
		want      int
		says      string
	}{
		{who: "operator", verb: "define", body: body{"definition": s.pipeline(asking)}, want: 403, says: "may not"},
		{who: "approver", verb: "define", body: body{"definition": s.pipeline(asking)}, want: 403, says: "may not"},
		{who: "admin", verb: "define", body: body{}, want: 422, says: "there is no definition"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(strings.Replace(asking, "web", "other", 1))}, want: 422, says: "is of pipeline other"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(asking, func(d *definition.Definition) { d.Stages[0].Name = "../ask" })}, want: 422, says: "cannot be"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(asking), "inventory": "mine"}, want: 422, says: "unknown field"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(asking), "carries": body{"m.yaml": strings.Repeat("0", 64)}}, want: 422, says: "is not here: put it first"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(asking), "adopt": []string{"7"}}, want: 404, says: "unknown pipeline"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(asking)}, want: 200, says: `"by":"the admin"`},
		{who: "operator", verb: "release", body: body{"revision": "1"}, want: 200, says: "pipeline-started"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(deploying)}, want: 412, says: "something else"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(deploying), "carries": body{"other.yaml": text}}, want: 422, says: "would not get"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(deploying), "carries": body{"m.yaml": text}}, stale: true, want: 412, says: "something else"},
		{who: "admin", verb: "define", body: body{"definition": s.pipeline(deploying), "carries": body{"m.yaml": text}}, want: 200, says: "pipeline-defined"},
		{who: "operator", verb: "delete", body: body{"cancel": true}, want: 403, says: "may not"},
		{who: "admin", verb: "delete", body: body{}, want: 409, says: "1"},
		{who: "admin", verb: "delete", body: body{"cancel": true}, stale: true, want: 412, says: "something else"},
		{who: "admin", verb: "delete", body: body{"cancel": true, "reason": "old"}, want: 200, says: "pipeline-deleted"},
	} {
		text := string(mustJSON(t, step.body))
		var header []string
		if step.stale {
			header = []string{"If-Match", before}
		}
		status, _, said := ask(t, "POST", s.url+"/v1/pipelines/web/commands/"+step.verb, step.who, text, header...)
		if status != step.want || !strings.Contains(said, step.says) {
			t.Errorf("step %d, %s as %s: %d, want %d and %q: %.400s", i, step.verb, step.who, status, step.want, step.says, said)
		}
		if step.verb == "define" && status == 200 && before == "" {
			before = head()
		}
	}
}

// Who may define one pipeline does not get at an environment by it.
func TestADefinitionReachesNoOtherEnvironment(t *testing.T) {
	s := newShop(t)
	to := func(environment string) string {
		return string(mustJSON(t, body{"definition": s.pipeline(asking + fmt.Sprintf("  - {name: live, environment: %s}\n", environment))}))
	}
	for _, step := range []struct {
		who  string
		body string
		want int
	}{
		{"admin of web", to("theirs"), 403},
		{"admin", to("theirs"), 200},
		{"admin of web", to("theirs"), 200}, // it changes nothing about that
		{"admin of web", to("others"), 403},
		{"admin of web", string(mustJSON(t, body{"definition": s.pipeline(asking)})), 200},
		{"admin of other", string(mustJSON(t, body{"definition": s.pipeline(asking)})), 403},
	} {
		if status, _, said := ask(t, "POST", s.url+"/v1/pipelines/web/commands/define", step.who, step.body); status != step.want {
			t.Errorf("%s: %d, want %d: %s", step.who, status, step.want, said)
		}
	}
}
