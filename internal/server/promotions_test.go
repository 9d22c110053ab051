package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

const promoting = "pipeline: shop\npromotion: {policy: single, revision: task.vars.v}\nstages:\n  - {name: dev, environment: theirs}\n  - {name: prod, environment: prod, manual: true}\n"

// promoted is a definition that promotes by observed state, as JSON has it.
func promoted(t testing.TB, text string, change ...func(*definition.Definition)) *definition.Definition {
	t.Helper()
	d, err := definition.Parse("shop.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(d)
	}
	return d
}

// promotes has the log have a pipeline that promotes by observed state.
func (s *shop) promotes() {
	s.Helper()
	p := promotions.New(s.log, time.Now)
	if _, err := p.Command(s.Context(), environments.New(s.log, time.Now), "shop", promotion.Define{Definition: promoted(s, promoting), ID: "d0", By: "root"}); err != nil {
		s.Fatal(err)
	}
}

// steer sends a command for the pipeline that promotes, as somebody.
func (s *shop) steer(who, verb, body string, header ...string) (status int, said string) {
	s.Helper()
	status, _, said = ask(s.T, "POST", s.url+"/v1/promotions/shop/commands/"+verb, who, body, header...)
	return status, said
}

// Grants name pipelines, however these promote.
func TestPipelinesThatPromoteAreSteered(t *testing.T) {
	s := newShop(t)
	if status, said := s.steer("admin", "hold", `{"stage":"prod"}`); status != 404 {
		t.Errorf("no pipeline: %d %s", status, said)
	}
	s.promotes()
	for i, step := range []struct {
		who, verb, body string
		want            int
		says            string
	}{
		{"viewer", "hold", `{"stage":"prod"}`, 403, "may not"},
		{"approver", "hold", `{"stage":"prod"}`, 403, "may not"},
		{"operator", "approve", `{"stage":"prod","revision":"1"}`, 403, "may not"},
		{"admin of web", "hold", `{"stage":"prod"}`, 403, "may not"},
		{"of theirs", "hold", `{"stage":"prod"}`, 403, "may not"},
		{"admin of shop", "hold", `{"stage":"prod","by":"root"}`, 422, "unknown field"},
		{"admin of shop", "hold", `{"stage":"prod","reason":"a\nb"}`, 422, "one line"},
		{"admin of shop", "hold", `{"stage":"nonsense"}`, 409, "no stage"},
		{"admin of shop", "hold", `{"stage":"dev"}`, 409, "nothing is promoted to stage dev"},
		{"admin of shop", "hold", `{"stage":"prod","reason":"why"}`, 200, `"by":"shop"`},
		{"operator", "hold", `{"stage":"prod"}`, 409, "is held already"},
		{"operator", "release-hold", `{"stage":"shop/prod"}`, 200, `"by":"the operator"`},
		{"operator", "release-hold", `{"stage":"prod"}`, 409, "is not held"},
		{"operator", "stop-the-line", `{"reason":"why"}`, 200, `"by":"the operator"`},
		{"operator", "stop-the-line", `{}`, 409, "stopped already"},
		{"operator", "resume", `{}`, 200, `"by":"the operator"`},
		{"operator", "resume", `{}`, 409, "not stopped"},
		{"approver", "approve", `{"stage":"prod","revision":"1"}`, 409, "revision 1 is not approved"},
	} {
		if status, said := s.steer(step.who, step.verb, step.body); status != step.want || !strings.Contains(said, step.says) {
			t.Errorf("step %d, %s as %s: %d, want %d and %q: %.300s", i, step.verb, step.who, status, step.want, step.says, said)
		}
	}
	if status, _, said := ask(t, "POST", s.url+"/v1/pipelines/shop/commands/pause", "admin", `{}`); status != 404 {
		t.Errorf("a command of the other kind: %d %s", status, said)
	}
}

// A command whose answer was lost is sent again.
func TestAPipelineThatPromotesIsHeldOnce(t *testing.T) {
	s := newShop(t)
	s.promotes()
	first := ""
	for i := range 2 {
		status, said := s.steer("operator", "hold", `{"stage":"prod"}`, "Idempotency-Key", "once")
		if status != 200 || i > 0 && said != first {
			t.Errorf("%d: %d %s", i, status, said)
		}
		first = said
	}
	if status, said := s.steer("operator", "release-hold", `{"stage":"prod"}`, "Idempotency-Key", "once"); status != 422 || !strings.Contains(said, "was used for another request") {
		t.Errorf("%d %s", status, said)
	}
	if status, said := s.steer("operator", "hold", `{"stage":"prod"}`, "If-Match", fmt.Sprintf("%q", "1")); status != 422 {
		t.Errorf("%d %s", status, said)
	}
}

// defined is the body that defines the pipeline that promotes.
func (s *shop) defined(text string, change ...func(*definition.Definition)) string {
	s.Helper()
	return string(mustJSON(s.T, body{"definition": promoted(s, text, change...)}))
}

func TestPipelinesThatPromoteAreDefinedAndDeleted(t *testing.T) {
	s := newShop(t)
	smoke, err := s.store.Keep([]byte("resources: {}"))
	if err != nil {
		t.Fatal(err)
	}
	verified := strings.Replace(promoting, "environment: theirs", "environment: theirs, verify: smoke.yaml", 1)
	carrying := func(files map[string]string) string {
		return s.defined(verified, func(d *definition.Definition) { d.Stages[0].VerifyFiles = files })
	}
	asking := func(path string) string {
		return s.defined(promoting, func(d *definition.Definition) {
			d.Stages[1].Strategy, d.Stages[1].Webhook = definition.WithWebhook, &definition.Webhook{URL: "https://ci.example/", KeyFile: path, Timeout: definition.DefaultWebhookTimeout}
		})
	}
	zeros := strings.Repeat("0", 64)
	for i, step := range []struct {
		who, verb, body string
		asOf            string
		want            int
		says            string
	}{
		{"operator", "define", s.defined(promoting), "", 403, "may not"},
		{"approver", "define", s.defined(promoting), "", 403, "may not"},
		{"admin of web", "define", s.defined(promoting), "", 403, "may not"},
		{"admin of shop", "define", s.defined(promoting), "", 403, "stage dev would deploy to environment theirs"},
		{"admin", "define", `{}`, "", 422, "there is no definition"},
		{"admin", "define", `{"definition":{}}`, "", 422, "definition"},
		{"admin", "define", s.defined(strings.Replace(promoting, "shop", "other", 1)), "", 422, "is of pipeline other"},
		{"admin", "define", s.defined(promoting, func(d *definition.Definition) { d.Stages[1].Name = "../prod" }), "", 422, "cannot be"},
		{"admin", "define", s.defined(verified), "", 422, "does not carry"},
		{"admin", "define", carrying(map[string]string{"other.yaml": smoke}), "", 422, "does not carry"},
		{"admin", "define", carrying(map[string]string{"smoke.yaml": zeros}), "", 422, "put it first"},
		{"admin", "define", carrying(map[string]string{"smoke.yaml": smoke, "../etc": smoke}), "", 422, "is no path"},
		{"admin", "define", s.defined(promoting, func(d *definition.Definition) { d.Stages[1].VerifyFiles = map[string]string{"a": smoke} }), "", 422, "nothing verifies it"},
		{"admin", "define", s.defined(strings.Replace(verified, "smoke.yaml", "../smoke.yaml", 1)), "", 422, "is no path"},
		{"admin", "define", asking("../../etc/secrets/key"), "", 422, "is no path"},
		{"admin", "define", asking("ci.key"), "", 422, "must be in a directory named secrets"},
		{"admin", "define", asking("secrets/../.deployster/log.db"), "", 422, "must be in a directory named secrets"},
		{"admin", "define", carrying(map[string]string{"smoke.yaml": smoke}), "", 200, `"by":"the admin"`},
		{"admin", "define", carrying(map[string]string{"smoke.yaml": smoke}), "", 200, `"events":[]`},
		{"admin of shop", "define", s.defined(promoting), `"1"`, 200, `"by":"shop"`}, // it reaches no other environment
		{"admin of shop", "define", s.defined(strings.Replace(promoting, "prod, manual", "others, manual", 1)), "", 403, "environment others"},
		{"admin", "define", asking("secrets/ci.key"), `"1"`, 412, "something else"},
		{"admin", "define", asking("secrets/ci.key"), `"2"`, 200, `"key_file":"secrets/ci.key"`},
		{"operator", "hold", `{"stage":"prod"}`, "", 200, "held"},
		{"admin", "define", s.defined(strings.Replace(promoting, "name: prod", "name: live", 1)), "", 409, "which is held"},
		{"operator", "delete", `{}`, "", 403, "may not"},
		{"admin", "delete", `{}`, `"2"`, 412, "something else"},
		{"admin", "delete", `{"reason":"old"}`, `"3"`, 200, "promotion-pipeline-deleted"},
		{"admin", "delete", `{}`, "", 409, "does not exist"},
		{"operator", "hold", `{"stage":"prod"}`, "", 409, "does not exist"},
		{"admin", "define", s.defined(promoting), `"3"`, 412, "something else"},
		{"admin of shop", "define", s.defined(promoting), "", 403, "environment theirs"},
	} {
		var header []string
		if step.asOf != "" {
			header = []string{"If-Match", step.asOf}
		}
		if status, said := s.steer(step.who, step.verb, step.body, header...); status != step.want || !strings.Contains(said, step.says) {
			t.Errorf("step %d, %s as %s: %d, want %d and %q: %.400s", i, step.verb, step.who, status, step.want, step.says, said)
		}
	}
}

// One name is of one pipeline, whichever is defined first.
func TestANameIsOfOnePipeline(t *testing.T) {
	for _, promotesFirst := range []bool{false, true} {
		s := newShop(t)
		both := []func() (int, string){
			func() (int, string) {
				status, _, said := ask(t, "POST", s.url+"/v1/pipelines/shop/commands/define", "admin", string(mustJSON(t, body{"definition": s.pipeline(strings.Replace(asking, "web", "shop", 1))})))
				return status, said
			},
			func() (int, string) { return s.steer("admin", "define", s.defined(promoting)) },
		}
		if promotesFirst {
			both[0], both[1] = both[1], both[0]
		}
		if status, said := both[0](); status != 200 {
			t.Fatalf("%d %s", status, said)
		}
		if status, said := both[1](); status != 409 || !strings.Contains(said, "take another name") {
			t.Errorf("%d %s", status, said)
		}
	}
}
