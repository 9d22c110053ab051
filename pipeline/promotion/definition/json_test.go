package definition_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/window"
)

const everything = `
pipeline: shop
promotion: {policy: concurrent, revision: task.vars.version, settle_for: 5m, retry_after: 20s}
stages:
  - {name: dev, environment: shop/dev, verify: smoke.yaml, verify_timeout: 3m}
  - name: staging
    environment: shop/staging
    soak: 1h
    strategy: webhook
    webhook: {url: "https://ci.example/promote", key_file: secrets/ci.key, timeout: 10m}
    windows: [{days: [mon, fri], from: "09:00", to: "16:00", zone: Europe/Berlin}]
    freezes: [{from: 2026-12-20, to: 2027-01-07, zone: UTC, reason: holidays}]
  - name: prod
    environment: shop/prod
    manual: true
    strategy: pull-request
    pull_request: {repository: "https://git.example/a/b.git", file: values.yaml, value: image.tag, provider: none}
  - name: other
    environment: shop/other
    strategy: pull-request
    pull_request: {repository: "https://git.example/a/c.git", file: values.yaml, value: image.tag, part: tag, provider: gitea, api: "https://git.example/api/v1", token_env: DEPLOYSTER_GIT_TOKEN, user: bot}
`

// sent is a definition as it comes from elsewhere.
func sent(t *testing.T, change func(*definition.Definition)) *definition.Definition {
	t.Helper()
	d, err := definition.Parse("shop.yaml", []byte(everything))
	require.NoError(t, err)
	d.Stages[0].VerifyFiles = map[string]string{"smoke.yaml": strings.Repeat("0", 64)}
	change(d)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	var came definition.Definition
	require.NoError(t, json.Unmarshal(text, &came))
	return &came
}

func TestADefinitionThatWasSentIsTheSame(t *testing.T) {
	d := sent(t, func(*definition.Definition) {})
	read, err := d.Reread("definition")
	require.NoError(t, err, "%v\n%+v\nwant\n%+v", err, read, d)
	assert.Equal(t, d, read)
}

func TestADefinitionThatNoFileCouldSayIsRefused(t *testing.T) {
	for want, change := range map[string]func(*definition.Definition){
		"must be two at least":             func(d *definition.Definition) { d.Stages = d.Stages[:1] },
		"cannot be the name of a pipeline": func(d *definition.Definition) { d.Name = "../shop" },
		"cannot be the name of a stage":    func(d *definition.Definition) { d.Stages[1].Name = "a b" },
		"already that of another stage":    func(d *definition.Definition) { d.Stages[1].Environment = "shop/dev" },
		"is no variable of tasks":          func(d *definition.Definition) { d.Promotion.Variable = "a.b" },
		"there is no policy":               func(d *definition.Definition) { d.Promotion.Policy = "none" },
		"has no meaning there":             func(d *definition.Definition) { d.Stages[0].Manual = true },
		"there is no day":                  func(d *definition.Definition) { d.Stages[1].Calendar.Windows[0].Days = []window.Day{"someday"} },
		"zone":                             func(d *definition.Definition) { d.Stages[1].Calendar.Freezes[0].Zone = "Nowhere/Land" },
		"must be a URL":                    func(d *definition.Definition) { d.Stages[1].Webhook.URL = "file:///etc/passwd" },
		"needs webhook":                    func(d *definition.Definition) { d.Stages[1].Webhook = nil },
		"must be DEPLOYSTER_GIT_TOKEN":     func(d *definition.Definition) { d.Stages[3].PullRequest.TokenEnv = "HOME" },
		"write verify, too":                func(d *definition.Definition) { d.Stages[0].Verify = "" },
	} {
		if read, err := sent(t, change).Reread("definition"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v %+v", want, err, read)
		}
	}
	if _, err := (&definition.Definition{}).Reread("definition"); err == nil {
		t.Error("nothing is a definition")
	}
}
