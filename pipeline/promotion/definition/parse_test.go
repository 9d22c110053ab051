package definition_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/window"
	"github.com/deployster-go/deployster/schema"
)

const shop = `
pipeline: shop
stages:
  - {name: dev, environment: shop/dev, verify: smoke.yaml}
  - {name: staging, environment: shop/staging, soak: 10m, verify: tests/smoke.yaml, verify_timeout: 5m}
  - name: prod
    environment: shop/prod
    manual: true
    windows: [{days: [mon], from: "09:00", to: "16:00", zone: Europe/Berlin}]
    freezes: [{from: 2026-12-20, to: 2027-01-07, zone: Europe/Berlin, reason: holidays}]
    strategy: webhook
    webhook: {url: "https://ci.example/promote", key_file: secrets/ci.key}
promotion: {policy: single, revision: task.vars.version, settle_for: 1m}
`

func TestWhatADefinitionDoesNotSayHasADefault(t *testing.T) {
	d, err := definition.Parse("shop.yaml", []byte(shop))
	require.NoError(t, err)
	assert.Equal(t, definition.DefaultWebhookTimeout, d.Stages[2].Webhook.Timeout)
	assert.Equal(t, definition.DefaultRetryAfter, d.Promotion.RetryAfter)
	assert.Equal(t, time.Hour, d.Stages[0].VerifiedWithin())
	assert.Equal(t, 5*time.Minute, d.Stages[1].VerifiedWithin())
}

// The schema and the parser accept the same documents, but for what a schema cannot say, such as
// what the first stage cannot have and what goes together.
func TestTheSchemaOfDefinitionsThatPromoteAgrees(t *testing.T) {
	source, err := schema.Source("pipeline")
	require.NoError(t, err)
	stage := func(more string) string {
		return "{pipeline: p, stages: [{name: a, environment: a}, {name: b, environment: b, " + more + "}], promotion: {policy: single}}"
	}
	hook := func(of string) string { return stage("strategy: webhook, webhook: {" + of + "}") }
	place := "repository: 'https://git.example/a/b.git', file: a/b.yaml, value: 'images[name=shop].newTag', "
	pull := func(of string) string { return stage("strategy: pull-request, pull_request: {" + of + "}") }
	yamltest.Schema(t, source, map[string]bool{
		shop: true, stage("manual: true"): true, stage("manual: 'true'"): false, stage("soak: 5m"): true, stage("soak: 5"): false,
		stage("verify: m.yaml"): true, stage("verify: [m.yaml]"): false, stage("verifi: m.yaml"): false,
		stage("verify: m.yaml, verify_timeout: 90s"): true, stage("verify: m.yaml, verify_timeout: 90"): false, stage("verify: m.yaml, verify_timeout: soon"): false,
		stage("strategy: deploy"): true, stage("strategy: pray"): false,
		hook("url: 'https://ci.example', key_file: secrets/ci.key"): true, hook("url: 'http://ci.example', key_file: secrets/ci.key, timeout: 5m"): true, hook("url: 'https://ci.example'"): false, hook("key_file: secrets/ci.key"): false,
		hook("url: 'https://ci.example', key_file: ../secrets/shop/ci.key"): true, hook("url: 'https://ci.example', key_file: ci.key"): false, hook("url: 'https://ci.example', key_file: secrets"): false,
		hook("url: 'ftp://ci.example', key_file: secrets/ci.key"): false, hook("url: 'https://ci.example', key_file: secrets/ci.key, timeout: 5"): false, hook("url: 'https://ci.example', key_file: secrets/ci.key, retries: 1"): false,
		pull(place + "provider: none"): true, pull(place + "provider: gitea, token_file: secrets/t"): true, pull(place + "provider: svn, token_file: secrets/t"): false, pull(place + "provider: gitea, token_file: t"): false, pull(place + "tokens: t"): false,
		pull(place + "provider: github, token_env: DEPLOYSTER_GIT_TOKEN_ACME, user: bot, api: 'https://git.example/api', base: trunk, branch: promote/prod, part: tag, timeout: 5m, check_every: 1m"): true,
		pull(place + "provider: github, token_env: s3cret"): false, pull(place + "provider: github, token_env: AWS_SECRET_ACCESS_KEY"): false, pull(place + "provider: github, token_env: DEPLOYSTER_TOKEN"): false, pull(place + "provider: github, token_env: DEPLOYSTER_GIT_TOKEN"): true, pull(place + "provider: none, part: name"): false, pull("provider: none"): false, pull(place[1:]): false,
		pull(place + "provider: none, timeout: 5"): false, pull("repository: 'https://git.example/a', file: /etc/passwd, value: a, provider: none"): false,
	}, func(file string) error {
		_, err := definition.Parse("p.yaml", []byte(file))
		return err
	})
}

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
	return came(t, d)
}

// came is what becomes of a definition on its way as JSON.
func came(t *testing.T, d *definition.Definition) *definition.Definition {
	t.Helper()
	text, err := json.Marshal(d)
	require.NoError(t, err)
	var came definition.Definition
	require.NoError(t, json.Unmarshal(text, &came))
	return &came
}

// reread fails unless a definition that comes as JSON is read as it was.
func reread(t *testing.T, d *definition.Definition) {
	t.Helper()
	read, err := came(t, d).Reread("definition")
	require.NoError(t, err)
	assert.Equal(t, d, read)
}

func TestADefinitionThatWasSentIsTheSame(t *testing.T) {
	reread(t, sent(t, func(*definition.Definition) {}))
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
	_, err := (&definition.Definition{}).Reread("definition")
	assert.Error(t, err, "nothing is a definition")
}
