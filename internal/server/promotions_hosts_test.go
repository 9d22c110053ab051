package server_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// A stage that is a manifest on hosts carries that, and selects them by a query.
func TestAStageOnHostsCarriesItsManifest(t *testing.T) {
	s := newShop(t)
	web, err := s.store.Keep([]byte("resources: {}"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(promoting, "environment: prod, manual: true", `manifest: web.yaml, hosts: "name == a", strategy: webhook, webhook: {url: "https://ci.example/", key_file: secrets/ci.key}`, 1)
	on := func(change func(*definition.Stage)) string {
		return s.defined(text, func(d *definition.Definition) {
			d.Stages[1].Targets.Files = map[string]string{"web.yaml": web}
			change(&d.Stages[1])
		})
	}
	for i, step := range []struct {
		who, body string
		want      int
		says      string
	}{
		{"operator", on(func(*definition.Stage) {}), 403, "may not"},
		{"admin", on(func(s *definition.Stage) { s.Targets.Files = nil }), 422, "does not carry"},
		{"admin", on(func(s *definition.Stage) { s.Targets.Files = map[string]string{"web.yaml": strings.Repeat("0", 64)} }), 422, "put it first"},
		{"admin", on(func(s *definition.Stage) { s.Targets.Files["../etc"] = web }), 422, "is no path"},
		{"admin", on(func(s *definition.Stage) { s.Targets.Manifest = "../web.yaml"; s.Targets.Files["../web.yaml"] = web }), 422, "is no path"},
		{"admin", on(func(s *definition.Stage) { s.Targets.Hosts = "name ==" }), 422, "hosts"},
		{"admin", on(func(s *definition.Stage) { s.Verify = "web.yaml" }), 422, "does not carry"},
		{"admin", on(func(s *definition.Stage) {
			s.Verify, s.VerifyFiles = "../web.yaml", map[string]string{"../web.yaml": web}
		}), 422, "is no path"},
		{"operator", on(func(s *definition.Stage) { s.Strategy, s.Webhook = "", nil }), 403, "may not"},
		{"admin", on(func(s *definition.Stage) {
			s.Strategy, s.Webhook, s.Verify, s.VerifyFiles = "", nil, "web.yaml", map[string]string{"web.yaml": web}
		}), 200, `"verify":"web.yaml"`},
		{"admin", on(func(*definition.Stage) {}), 200, `"environment":"hosts:shop/prod"`},
		{"admin", on(func(*definition.Stage) {}), 200, `"events":[]`},
	} {
		if status, said := s.steer(step.who, "define", step.body); status != step.want || !strings.Contains(said, step.says) {
			t.Errorf("step %d as %s: %d, want %d and %q: %.400s", i, step.who, status, step.want, step.says, said)
		}
	}
}
