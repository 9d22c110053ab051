package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

const promoting = "pipeline: shop\npromotion: {policy: single, revision: task.vars.v}\nstages:\n  - {name: dev, environment: theirs}\n  - {name: prod, environment: prod, manual: true}\n"

// promoted is a definition that promotes by observed state, as JSON has it.
func promoted(t testing.TB, text string, change ...func(*definition.Definition)) *definition.Definition {
	d := must.Get(definition.Parse("shop.yaml", []byte(text)))(t)
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
func (s *shop) steer(status int, says, who, verb, of string, header ...string) (said string) {
	return post(s.T, status, says, s.url+"/v1/promotions/shop/commands/"+verb, who, json.RawMessage(of), header...)
}

// Grants name pipelines, however these promote.
func TestPipelinesThatPromoteAreSteered(t *testing.T) {
	s := newShop(t)
	s.steer(404, "", "admin", "hold", `{"stage":"prod"}`)
	s.promotes()
	s.steer(403, "may not", "viewer", "hold", `{"stage":"prod"}`)
	s.steer(403, "may not", "approver", "hold", `{"stage":"prod"}`)
	s.steer(403, "may not", "operator", "approve", `{"stage":"prod","revision":"1"}`)
	s.steer(403, "may not", "admin of web", "hold", `{"stage":"prod"}`)
	s.steer(403, "may not", "of theirs", "hold", `{"stage":"prod"}`)
	s.steer(422, "unknown field", "admin of shop", "hold", `{"stage":"prod","by":"root"}`)
	s.steer(422, "one line", "admin of shop", "hold", `{"stage":"prod","reason":"a\nb"}`)
	s.steer(409, "no stage", "admin of shop", "hold", `{"stage":"nonsense"}`)
	s.steer(409, "nothing is promoted to stage dev", "admin of shop", "hold", `{"stage":"dev"}`)
	s.steer(200, `"by":"shop"`, "admin of shop", "hold", `{"stage":"prod","reason":"why"}`)
	s.steer(409, "is held already", "operator", "hold", `{"stage":"prod"}`)
	s.steer(200, `"by":"the operator"`, "operator", "release-hold", `{"stage":"shop/prod"}`)
	s.steer(409, "is not held", "operator", "release-hold", `{"stage":"prod"}`)
	s.steer(200, `"by":"the operator"`, "operator", "stop-the-line", `{"reason":"why"}`)
	s.steer(409, "stopped already", "operator", "stop-the-line", `{}`)
	s.steer(200, `"by":"the operator"`, "operator", "resume", `{}`)
	s.steer(409, "not stopped", "operator", "resume", `{}`)
	s.steer(409, "revision 1 is not approved", "approver", "approve", `{"stage":"prod","revision":"1"}`)
	expect(t, 404, "", "POST", s.url+"/v1/pipelines/shop/commands/pause", "admin", `{}`)
}

// A command whose answer was lost is sent again.
func TestAPipelineThatPromotesIsHeldOnce(t *testing.T) {
	s := newShop(t)
	s.promotes()
	first := s.steer(200, "", "operator", "hold", `{"stage":"prod"}`, "Idempotency-Key", "once")
	assert.Equal(t, first, s.steer(200, "", "operator", "hold", `{"stage":"prod"}`, "Idempotency-Key", "once"))
	s.steer(422, "was used for another request", "operator", "release-hold", `{"stage":"prod"}`, "Idempotency-Key", "once")
	s.steer(422, "", "operator", "hold", `{"stage":"prod"}`, "If-Match", fmt.Sprintf("%q", "1"))
}

// defined is the body that defines the pipeline that promotes.
func (s *shop) defined(text string, change ...func(*definition.Definition)) string {
	return string(mustJSON(s.T, body{"definition": promoted(s, text, change...)}))
}

func TestPipelinesThatPromoteAreDefinedAndDeleted(t *testing.T) {
	s := newShop(t)
	smoke := must.Get(s.store.Keep([]byte("resources: {}")))(t)
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
	s.steer(403, "may not", "operator", "define", s.defined(promoting))
	s.steer(403, "may not", "approver", "define", s.defined(promoting))
	s.steer(403, "may not", "admin of web", "define", s.defined(promoting))
	s.steer(403, "stage dev would deploy to environment theirs", "admin of shop", "define", s.defined(promoting))
	s.steer(422, "there is no definition", "admin", "define", `{}`)
	s.steer(422, "definition", "admin", "define", `{"definition":{}}`)
	s.steer(422, "is of pipeline other", "admin", "define", s.defined(strings.Replace(promoting, "shop", "other", 1)))
	s.steer(422, "cannot be", "admin", "define", s.defined(promoting, func(d *definition.Definition) { d.Stages[1].Name = "../prod" }))
	s.steer(422, "does not carry", "admin", "define", s.defined(verified))
	s.steer(422, "does not carry", "admin", "define", carrying(map[string]string{"other.yaml": smoke}))
	s.steer(422, "put it first", "admin", "define", carrying(map[string]string{"smoke.yaml": zeros}))
	s.steer(422, "is no path", "admin", "define", carrying(map[string]string{"smoke.yaml": smoke, "../etc": smoke}))
	s.steer(422, "nothing verifies it", "admin", "define", s.defined(promoting, func(d *definition.Definition) { d.Stages[1].VerifyFiles = map[string]string{"a": smoke} }))
	s.steer(422, "is no path", "admin", "define", s.defined(strings.Replace(verified, "smoke.yaml", "../smoke.yaml", 1)))
	s.steer(422, "is no path", "admin", "define", asking("../../etc/secrets/key"))
	s.steer(422, "must be in a directory named secrets", "admin", "define", asking("ci.key"))
	s.steer(422, "must be in a directory named secrets", "admin", "define", asking("secrets/../.deployster/log.db"))
	s.steer(200, `"by":"the admin"`, "admin", "define", carrying(map[string]string{"smoke.yaml": smoke}))
	s.steer(200, `"events":[]`, "admin", "define", carrying(map[string]string{"smoke.yaml": smoke}))
	s.steer(200, `"by":"shop"`, "admin of shop", "define", s.defined(promoting), "If-Match", `"1"`) // it reaches no other environment
	s.steer(403, "stage dev: asks for another verify", "admin of shop", "define", carrying(map[string]string{"smoke.yaml": smoke}))
	s.steer(403, "environment others", "admin of shop", "define", s.defined(strings.Replace(promoting, "prod, manual", "others, manual", 1)))
	s.steer(412, "something else", "admin", "define", asking("secrets/ci.key"), "If-Match", `"1"`)
	s.steer(200, `"key_file":"secrets/ci.key"`, "admin", "define", asking("secrets/ci.key"), "If-Match", `"2"`)
	s.steer(200, "held", "operator", "hold", `{"stage":"prod"}`)
	s.steer(409, "which is held", "admin", "define", s.defined(strings.Replace(promoting, "name: prod", "name: live", 1)))
	s.steer(403, "may not", "operator", "delete", `{}`)
	s.steer(412, "something else", "admin", "delete", `{}`, "If-Match", `"2"`)
	s.steer(200, "promotion-pipeline-deleted", "admin", "delete", `{"reason":"old"}`, "If-Match", `"3"`)
	s.steer(409, "does not exist", "admin", "delete", `{}`)
	s.steer(409, "does not exist", "operator", "hold", `{"stage":"prod"}`)
	s.steer(412, "something else", "admin", "define", s.defined(promoting), "If-Match", `"3"`)
	s.steer(403, "environment theirs", "admin of shop", "define", s.defined(promoting))
}

func TestANameIsOfOnePipeline(t *testing.T) {
	for _, promotesFirst := range []bool{false, true} {
		s := newShop(t)
		status := map[bool]int{true: 200, false: 409}
		says := map[bool]string{false: "take another name"}
		define := body{"definition": s.pipeline(strings.Replace(asking, "web", "shop", 1))}
		for _, promotes := range []bool{promotesFirst, !promotesFirst} {
			isFirst := promotes == promotesFirst
			if promotes {
				s.steer(status[isFirst], says[isFirst], "admin", "define", s.defined(promoting))
			} else {
				post(t, status[isFirst], says[isFirst], s.url+"/v1/pipelines/shop/commands/define", "admin", define)
			}
		}
	}
}

// withClusters are hosts of an inventory that has clusters, too.
type withClusters struct {
	server.Hosts
	clusters []inventory.Cluster
}

func (w withClusters) Inventory() (*inventory.Inventory, error) {
	v, err := w.Hosts.Inventory()
	if err != nil {
		return nil, err
	}
	with := *v
	with.Clusters = w.clusters
	return &with, nil
}

func TestAStageNamesClustersOfTheServer(t *testing.T) {
	s := newShop(t)
	_, s.url = newServer(t, s.log, func(o *server.Options) {
		o.Objects, o.Hosts = s.store, withClusters{s.hosts, []inventory.Cluster{{Name: "dev", Context: "d"}, {Name: "prod", Context: "p"}}}
	})
	in := func(cluster string) string {
		return s.defined(strings.Replace(promoting, "environment: prod, manual: true", `objects: [{cluster: `+cluster+`, kind: Kustomization, namespace: flux, name: shop}], strategy: webhook, webhook: {url: "https://ci.example/", key_file: secrets/ci.key}`, 1))
	}
	s.steer(422, `stage prod, by the inventory of the server: there is no cluster prdo in the inventory, did you mean \"prod\"?`, "admin", "define", in("prdo"))
	s.steer(422, "which has dev, prod", "admin", "define", in("elsewhere"))
	s.steer(200, `"environment":"objects:shop/prod"`, "admin", "define", in("prod"))
	_, s.url = newServer(t, s.log, func(o *server.Options) { o.Objects = s.store })
	s.steer(409, "the server has no inventory", "admin", "define", in("elsewhere"))
}

func TestAStageOnHostsCarriesItsManifest(t *testing.T) {
	s := newShop(t)
	web := must.Get(s.store.Keep([]byte("resources: {}")))(t)
	text := strings.Replace(promoting, "environment: prod, manual: true", `manifest: web.yaml, hosts: "name == a", strategy: webhook, webhook: {url: "https://ci.example/", key_file: secrets/ci.key}`, 1)
	on := func(change func(*definition.Stage)) string {
		return s.defined(text, func(d *definition.Definition) {
			d.Stages[1].Targets.Files = map[string]string{"web.yaml": web}
			change(&d.Stages[1])
		})
	}
	s.steer(403, "may not", "operator", "define", on(func(*definition.Stage) {}))
	s.steer(422, "does not carry", "admin", "define", on(func(s *definition.Stage) { s.Targets.Files = nil }))
	s.steer(422, "put it first", "admin", "define", on(func(s *definition.Stage) { s.Targets.Files = map[string]string{"web.yaml": strings.Repeat("0", 64)} }))
	s.steer(422, "is no path", "admin", "define", on(func(s *definition.Stage) { s.Targets.Files["../etc"] = web }))
	s.steer(422, "is no path", "admin", "define", on(func(s *definition.Stage) { s.Targets.Manifest = "../web.yaml"; s.Targets.Files["../web.yaml"] = web }))
	s.steer(422, "hosts", "admin", "define", on(func(s *definition.Stage) { s.Targets.Hosts = "name ==" }))
	s.steer(422, "does not carry", "admin", "define", on(func(s *definition.Stage) { s.Verify = "web.yaml" }))
	s.steer(422, "is no path", "admin", "define", on(func(s *definition.Stage) {
		s.Verify, s.VerifyFiles = "../web.yaml", map[string]string{"../web.yaml": web}
	}))
	s.steer(403, "may not", "operator", "define", on(func(s *definition.Stage) { s.Strategy, s.Webhook = "", nil }))
	s.steer(200, `"verify":"web.yaml"`, "admin", "define", on(func(s *definition.Stage) {
		s.Strategy, s.Webhook, s.Verify, s.VerifyFiles = "", nil, "web.yaml", map[string]string{"web.yaml": web}
	}))
	s.steer(200, `"environment":"hosts:shop/prod"`, "admin", "define", on(func(*definition.Stage) {}))
	s.steer(200, `"events":[]`, "admin", "define", on(func(*definition.Stage) {}))
}
