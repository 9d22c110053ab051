package definition_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
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

func TestADefinitionIsStoredAsItIsRead(t *testing.T) {
	d, err := definition.Parse("shop.yaml", []byte(shop))
	require.NoError(t, err)
	var stored definition.Definition
	data, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal(data, &stored)
	}
	require.NoError(t, err, "%+v is stored as %+v: %v", d, stored, err)
	assert.Equal(t, stored, *d, "%+v is stored as %+v: %v", d, stored, err)
	require.Equal(t, definition.DefaultWebhookTimeout, d.Stages[2].Webhook.Timeout)
	assert.Equal(t, definition.DefaultRetryAfter, d.Promotion.RetryAfter, "what is not said")
	if a, b := d.Stages[0].VerifiedWithin(), d.Stages[1].VerifiedWithin(); a != time.Hour || b != 5*time.Minute {
		t.Errorf("a try to verify may take %s, and %s", a, b)
	}
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
