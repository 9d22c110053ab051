package definition_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
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

const inClusters = `pipeline: shop
stages:
  - name: dev
    objects: [{cluster: dev, kind: Kustomization, namespace: flux-system, name: shop, part: name}]
  - name: prod
    objects:
      - {cluster: east, kind: HelmRelease, namespace: shop, name: shop}
      - {cluster: west, api_version: acme.example/v1, kind: Site, name: shop, revision: .status.runs, ready: "{.status.phase}=Done"}
    manual: true
    strategy: webhook
    webhook: {url: "https://ci.example/", key_file: secrets/ci.key}
promotion: {policy: single}
`

func TestAStageIsObjectsInClusters(t *testing.T) {
	d, err := definition.Parse("shop.yaml", []byte(inClusters))
	require.NoError(t, err)
	dev, prod := d.Stages[0], d.Stages[1]
	want := []object.Object{
		{Cluster: "east", Kind: "HelmRelease", Namespace: "shop", Name: "shop"},
		{Cluster: "west", APIVersion: "acme.example/v1", Kind: "Site", Name: "shop", Revision: ".status.runs", Ready: "{.status.phase}=Done"},
	}
	if dev.Environment != "objects:shop/dev" || dev.Objects[0].Part != object.Name || !reflect.DeepEqual(prod.Objects, want) {
		t.Errorf("the stages are %+v", d.Stages)
	}
	if !dev.Sighted() || definition.OnHosts(dev.Environment) || definition.PlaceText(dev.Environment) != "object group shop/dev" {
		t.Errorf("dev is %s", definition.PlaceText(dev.Environment))
	}

	// Another object is another place, of which nobody has approved anything.
	other := prod
	other.Objects = append([]object.Object{}, prod.Objects...)
	other.Objects[0].Cluster = "north"
	assert.NotEqual(t, prod.Identity(), other.Identity(), "another cluster is the same place")

	reread(t, d)
}

func TestAnObjectThatCannotBeReadIsRefused(t *testing.T) {
	for stage, want := range map[string]string{
		`{name: x, objects: []}`: "names no object",
		`{name: x, objects: [{cluster: c, kind: Kustomization, name: a}]}`:                                                                                                                "has no namespace",
		`{name: x, objects: [{kind: Kustomization, namespace: n, name: a}]}`:                                                                                                              "has no cluster",
		`{name: x, objects: [{cluster: c, kind: Kustomisation, namespace: n, name: a}]}`:                                                                                                  "did you mean \"Kustomization\"",
		`{name: x, objects: [{cluster: c, kind: Site, namespace: n, name: a}]}`:                                                                                                           "needs api_version",
		`{name: x, objects: [{cluster: c, kind: Secret, api_version: v1, namespace: n, name: a, revision: .data.a}]}`:                                                                     "a Secret is not read",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: N, name: a}]}`:                                                                                                  "cannot be a namespace",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: ../a}]}`:                                                                                               "cannot be the name of an object",
		`{name: x, objects: [{cluster: c, kind: Kustomization, api_version: flux, namespace: n, name: a}]}`:                                                                               "write GROUP/VERSION",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a, revision: ..a}]}`:                                                                                   "without ..",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a, ready: "{.a}x"}]}`:                                                                                  "one JSONPath",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a, part: tags}]}`:                                                                                      "did you mean \"tag\"",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a}, {cluster: c, kind: Kustomization, namespace: n, name: a, part: name}]}`:                            "c/n/Kustomization/a is already an object of a stage, at 3:",
		`{name: x, environment: e, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a}]}`:                                                                                  "and not both",
		`{name: x, manifest: m.yaml, hosts: a, revision: resources.a.b, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a}]}`:                                             "and not both",
		`{name: x, check_every: 5s, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a}]}`:                                                                                 "is of a stage that is a manifest on hosts",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a, part: path}]}`:                                                                                      "write source: {repository",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a}], source: {repository: https://g.example/a.git, file: a.yaml, value: tag}}`:                         "the stage has none",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a, part: path}], source: {repository: https://g.example/a.git, file: ../a.yaml, value: tag}}`:          "within the repository",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a, part: path}], source: {repository: https://g.example/a.git, file: a.yaml, value: tag, base: main}}`: "base",
		`{name: x, environment: e, settle_for: 5s}`:                                                                                                                                       "is of a stage of objects in clusters; how long the first stage must have run a revision is promotion.settle_for",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: b}], settle_for: 1h}`:                                                                                  "10m",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: b}], manual: true}`:                                                                                    "nothing is promoted to the first stage",
	} {
		_, err := definition.Parse("shop.yaml", []byte("pipeline: shop\nstages:\n  - "+stage+"\n  - {name: prod, environment: shop/prod}\npromotion: {policy: single}\n"))
		refused(t, stage, err, want)
	}
	for stage, want := range map[string]string{
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: b}]}`:                                                                                     "write strategy: pull-request",
		`{name: x, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a}], strategy: webhook, webhook: {url: "https://ci.example/", key_file: secrets/ci.key}}`: "already an object of a stage",
	} {
		_, err := definition.Parse("shop.yaml", []byte("pipeline: shop\nstages:\n  - {name: dev, objects: [{cluster: c, kind: Kustomization, namespace: n, name: a}]}\n  - "+stage+"\npromotion: {policy: single}\n"))
		refused(t, stage, err, want)
	}
}

func TestTheSchemaOfObjectsAgrees(t *testing.T) {
	source, err := schema.Source("pipeline")
	require.NoError(t, err)
	of := func(object string) string {
		return "{pipeline: p, stages: [{name: a, objects: [{" + object + "}]}, {name: b, environment: b}], promotion: {policy: single}}"
	}
	yamltest.Schema(t, source, map[string]bool{
		inClusters: true, of("cluster: c, kind: Kustomization, namespace: n, name: a"): true, of("cluster: c, kind: Kustomization, name: a"): false, of("cluster: c, kind: Site, namespace: n, name: a"): false,
		of("cluster: c, kind: Site, api_version: a.b/v1, name: a"): true, of("cluster: c, kind: site, api_version: a.b/v1, name: a"): false, of("kind: Kustomization, namespace: n, name: a"): false,
		of("cluster: c, kind: Kustomization, namespace: n, name: a, part: tag, revision: .a, ready: .b"): true, of("cluster: c, kind: Kustomization, namespace: n, name: a, part: head"): false,
	}, func(file string) error {
		_, err := definition.Parse("p.yaml", []byte(file))
		return err
	})
}

func TestStagesInOneRepositoryAreWarnedOf(t *testing.T) {
	read := func(part, repository string) []string {
		t.Helper()
		pull := func(name, repository string) string {
			return "  - {name: " + name + ", objects: [{cluster: " + name + ", kind: Kustomization, namespace: n, name: a" + part + "}], strategy: pull-request, pull_request: {repository: " + repository + ", file: " + name + ".yaml, value: tag, provider: none}}\n"
		}
		d, err := definition.Parse("shop.yaml", []byte("pipeline: shop\nstages:\n  - {name: dev, environment: dev}\n"+pull("staging", "https://git.example/acme/fleet.git")+pull("prod", repository)+"promotion: {policy: single}\n"))
		require.NoError(t, err)
		return d.Warnings()
	}
	all := read("", "https://git.example/acme/fleet")
	require.Len(t, all, 1)
	assert.Contains(t, all[0], "stages staging and prod are in one repository")
	assert.Empty(t, read("", "https://git.example/acme/other"))
	assert.Empty(t, read(", part: path", "https://git.example/acme/fleet"))
}

// What the revision of objects means says the file of their source: another one makes the stage another one.
func TestAnotherSourceIsAnotherStage(t *testing.T) {
	of := func(part object.Part, value, token string) string {
		s := definition.Stage{Environment: "objects:shop/prod", Objects: []object.Object{{Cluster: "c", Kind: "Kustomization", Namespace: "n", Name: "a", Part: part}}}
		s.Source = &definition.PullRequest{Repository: "https://git.example/acme/fleet.git", File: "prod.yaml", Value: value, TokenFile: token}
		return s.Identity()
	}
	assert.NotEqual(t, of(object.Path, "shop", ""), of(object.Path, "api", ""))
	assert.Equal(t, of(object.Path, "shop", ""), of(object.Path, "shop", "secrets/token"))
	assert.Equal(t, of(object.All, "shop", ""), of(object.All, "api", ""))
}

const onHosts = `pipeline: shop
stages:
  - {name: dev, manifest: web.yaml, hosts: "name == a", revision: resources.web.image, check_every: 5s}
  - {name: prod, manifest: web.yaml, hosts: "attribute:stack == prod", max_leaving: 25%, strategy: webhook, webhook: {url: "https://ci.example/", key_file: secrets/ci.key}}
promotion: {policy: single, revision: task.vars.version}
`

func TestAStageIsAManifestOnHosts(t *testing.T) {
	d, err := definition.Parse("shop.yaml", []byte(onHosts))
	require.NoError(t, err)
	dev, prod := d.Stages[0], d.Stages[1]
	if dev.Environment != "hosts:shop/dev" || dev.Targets.Manifest != "web.yaml" || dev.Targets.CheckEvery.String() != "5s" {
		t.Errorf("dev is %+v", dev.Targets)
	}
	if resource, attribute := dev.Targets.Attribute(); resource != "web" || attribute != "image" {
		t.Errorf("the revision of dev is %s of %s", attribute, resource)
	}
	if prod.Targets.MaxLeaving.String() != "25%" || prod.Targets.CheckEvery != definition.DefaultTargetsCheckEvery || prod.Strategy != definition.WithWebhook {
		t.Errorf("prod is %+v", prod.Targets)
	}

	// What came as JSON is read as a file is, and carries what it carried.
	prod.Targets.Files = map[string]string{"web.yaml": "1234"}
	reread(t, d)
}

func TestAStageOnHostsThatCannotBeIsRefused(t *testing.T) {
	const first, second = `{name: dev, environment: shop/dev}`, `{name: prod, environment: shop/prod}`
	for stage, want := range map[string]string{
		`{name: x, manifest: m.yaml, hosts: "name == a"}`:                                         "nothing says which revision the first stage is to run",
		`{name: x, manifest: m.yaml, revision: resources.web.image}`:                              "it has no hosts|the stage has no hosts",
		`{name: x, manifest: m.yaml, hosts: a, environment: e, revision: resources.web.image}`:    "and not both",
		`{name: x, manifest: /m.yaml, hosts: a, revision: resources.web.image}`:                   "must be a path within the workspace",
		`{name: x, manifest: m.yaml, hosts: a, revision: web.image}`:                              "is no attribute of the state of a resource",
		`{name: x, manifest: m.yaml, hosts: a, revision: resources.web.image, max_leaving: many}`: "must be a number of hosts",
		`{name: x, manifest: m.yaml, hosts: a, revision: resources.web.image, max_leaving: [1]}`:  "must be a number of hosts",
		`{name: x, manifest: m.yaml, hosts: a, revision: resources.web.image, check_every: 0s}`:   "must be from 1s",
		`{name: x, environment: e, hosts: a}`:                                                     "is of a stage that is a manifest on hosts",
		`{name: x}`:                                                                               "neither an environment",
	} {
		_, err := definition.Parse("shop.yaml", []byte("pipeline: shop\nstages:\n  - "+stage+"\n  - "+second+"\npromotion: {policy: single}\n"))
		refused(t, stage, err, want)
	}
	for stage, want := range map[string]definition.Strategy{
		`{name: x, manifest: m.yaml, hosts: a, verify: v.yaml}`:   "",
		`{name: x, manifest: m.yaml, hosts: a, strategy: deploy}`: "",
	} {
		d, err := definition.Parse("shop.yaml", []byte("pipeline: shop\nstages:\n  - "+first+"\n  - "+stage+"\npromotion: {policy: single}\n"))
		if err != nil || d.Stages[1].Strategy != want || !definition.OnHosts(d.Stages[1].Environment) || definition.OnHosts(d.Stages[0].Environment) {
			t.Errorf("%s: %v", stage, err)
		}
	}
}

func refused(t *testing.T, stage string, err error, want string) {
	t.Helper()
	for _, text := range strings.Split(want, "|") {
		if err != nil && strings.Contains(err.Error(), text) {
			return
		}
	}
	t.Errorf("%s: %v; want %q", stage, err, want)
}

func TestTwoStagesOnHostsAreOnePlaceOnlyIfAllOfItIsTheSame(t *testing.T) {
	of := func(change func(*definition.Targets)) string {
		s := definition.Stage{Name: "prod", Environment: "hosts:shop/prod", Targets: &definition.Targets{Manifest: "m", Hosts: "a", Files: map[string]string{"m": "1"}}}
		change(s.Targets)
		return s.Identity()
	}
	same := of(func(*definition.Targets) {})
	for name, change := range map[string]func(*definition.Targets){
		"its manifest says something else": func(t *definition.Targets) { t.Files = map[string]string{"m": "2"} },
		"it is another manifest":           func(t *definition.Targets) { t.Manifest = "n" },
		"they are other hosts":             func(t *definition.Targets) { t.Hosts = "b" },
	} {
		assert.NotEqual(t, same, of(change), "it is the same place, though %s", name)
	}
	if of(func(t *definition.Targets) { t.MaxLeaving, t.CheckEvery = &budget.Budget{Count: 3}, 7 }) != same {
		t.Error("it is another place, though only how it is looked at changed")
	}
}

func TestSoManyHostsMayLeaveAtOnce(t *testing.T) {
	present := []string{"a", "b", "c", "d"}
	for _, tc := range []struct {
		most     *budget.Budget
		selected []string
		loses    bool
	}{
		{nil, []string{"a", "b"}, false}, {nil, []string{"a"}, true}, {nil, []string{"x", "y", "z"}, true},
		{&budget.Budget{}, []string{"a", "b", "c"}, true}, {&budget.Budget{}, []string{"a", "b", "c", "d", "e"}, false},
		{&budget.Budget{Count: 3}, []string{"a"}, false}, {&budget.Budget{Percent: 25}, []string{"a", "b", "c"}, false}, {&budget.Budget{Percent: 25}, []string{"a", "b"}, true},
	} {
		targets := definition.Targets{MaxLeaving: tc.most}
		assert.Equal(t, tc.loses, targets.Losing(present, tc.selected) != "", "of %v %v are left, with max_leaving %v", present, tc.selected, tc.most)
	}
	assert.Empty(t, (&definition.Targets{}).Losing([]string{"a"}, []string{"b"}), "one host cannot be exchanged for another")
}

// proposes is a definition whose stages but the first propose, with more keys each.
func proposes(environments []string, more ...string) string {
	text := "pipeline: shop\npromotion: {policy: single}\nstages:\n- {name: dev, environment: dev}\n"
	for i, e := range environments {
		text += fmt.Sprintf("- {name: s%d, environment: %s, strategy: pull-request, pull_request: {repository: 'https://git.example/a/b.git', file: x.yaml, value: a.b, %s}}\n", i, e, more[i])
	}
	return text
}

func TestWhatAPullRequestDoesNotSayHasADefault(t *testing.T) {
	d, err := definition.Parse("shop.yaml", []byte(proposes([]string{"shop/prod"}, "provider: gitea, token_env: DEPLOYSTER_GIT_TOKEN")))
	require.NoError(t, err)
	want := definition.PullRequest{
		Repository: "https://git.example/a/b.git", File: "x.yaml", Value: "a.b", Base: "main", Branch: "deployster/shop/shop/prod", Provider: "gitea", TokenEnv: "DEPLOYSTER_GIT_TOKEN",
		Timeout: definition.Duration(30 * time.Minute), CheckEvery: definition.Duration(time.Minute),
	}
	assert.Equal(t, want, *d.Stages[1].PullRequest)
}

func TestEachStageHasABranchOfItsOwn(t *testing.T) {
	both := []string{"shop", "shop/prod"}
	for name, c := range map[string]struct{ first, second, why string }{
		"one below the other":   {"provider: none", "provider: none", "git cannot have branch deployster/shop/shop/prod beside deployster/shop/shop of stage s0"},
		"the same":              {"provider: none, branch: x", "provider: none, branch: x", "stage s0 has branch x of this repository already"},
		"two of them":           {"provider: none, branch: x", "provider: none", ""},
		"the base branch":       {"provider: none, branch: x", "provider: none, base: trunk, branch: trunk", "needs a branch of its own, not trunk"},
		"no branch":             {"provider: none, branch: x", "provider: none, branch: a..b", "cannot be a branch of git"},
		"a lock":                {"provider: none, branch: x", "provider: none, branch: a/b.lock", "cannot be a branch of git"},
		"an option":             {"provider: none, branch: x", "provider: none, base: --upload-pack=x", "cannot be a branch of git"},
		"a name within another": {"provider: none, branch: x", "provider: none, branch: a//b", "cannot be a branch of git"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := definition.Parse("shop.yaml", []byte(proposes(both, c.first, c.second)))
			if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("it fails with %v, not %s", err, c.why)
			}
		})
	}
}

// The same repository is the same however it is written.
func TestARepositoryIsThatHoweverItIsWritten(t *testing.T) {
	text := proposes([]string{"shop", "shop/prod"}, "provider: none, branch: x", "provider: none, branch: x")
	last := strings.LastIndex(text, "https://git.example/a/b.git")
	for _, same := range []string{"https://GIT.example:443/a/b/", "https://git.example/A/b", "https://git.example./a/b.git/"} {
		again := text[:last] + strings.Replace(text[last:], "https://git.example/a/b.git", same, 1)
		_, err := definition.Parse("shop.yaml", []byte(again))
		assert.ErrorContains(t, err, "stage s0 has branch x of this repository already")
	}
}

func TestTokensGoNowhereInTheClear(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://git.example/a/b": true, "http://localhost:3000/a/b": true, "http://127.0.0.1/a/b": true, "http://[::1]:3000/a/b": true,
		"http://git.example/a/b": false, "http://localhost.git.example/a/b": false, "ssh://git.example/a/b": false, "git@git.example:a/b": false, "file:///etc": false, "/etc": false,
		"https://ann:secret@git.example/a/b": false, "https://git.example/a/b?x=1": false,
	} {
		text := strings.ReplaceAll(proposes([]string{"prod"}, "provider: none"), "https://git.example/a/b.git", address)
		if _, err := definition.Parse("shop.yaml", []byte(text)); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestWhichFilesMayHaveASecret(t *testing.T) {
	for path, want := range map[string]bool{
		"secrets/git.token": true, "shop/secrets/eu/git.token": true, "../secrets/git.token": true, "./secrets//git.token": true, "secrets/.token": true,
		"": false, "git.token": false, "secrets": false, "shop/secrets": false, "secrets/": false, "secrets/.": false, "secrets/..": false,
		"secrets/../git.token": false, "x/secrets/../../git.token": false, "Secrets/git.token": false, "my-secrets/git.token": false,
		".deployster/log.db": false, "secrets/../.deployster/log.db": false, ".deployster/secrets/x": false, "secrets/.deployster/x": false, "shop/.deployster/secrets/x": false,
	} {
		assert.Equal(t, want, definition.IsSecretFile(path), "%q may have a secret", path)
	}
}

// A value may be one, a list, or both.
func TestWhichValuesAreSet(t *testing.T) {
	type values = []definition.Value
	for keys, want := range map[string]struct {
		values
		why string
	}{
		"file: a.yaml, value: tag, part: tag":                     {values{{"a.yaml", "tag", "tag"}}, ""},
		"file: a.yaml, set: [{value: x}, {value: y, part: tag}]":  {values{{"a.yaml", "x", ""}, {"a.yaml", "y", "tag"}}, ""},
		"file: a.yaml, value: x, set: [{file: b.yaml, value: x}]": {values{{"a.yaml", "x", ""}, {"b.yaml", "x", ""}}, ""},
		"set: [{file: a.yaml, value: x}]":                         {values{{"a.yaml", "x", ""}}, ""},
		"file: a.yaml":                                            {nil, "it has no value, the path of the value in the file"},
		"value: tag":                                              {nil, "it has no file, the path of the one in the repository"},
		"set: [{value: x}]":                                       {nil, "it has no file: name one here, or for all of them beside set"},
		"set: []":                                                 {nil, "it has no element, such as {value: image.tag}"},
		"file: a.yaml, set: [{part: tag}]":                        {nil, "it has no value, the path of the value in the file"},
		"file: a.yaml, part: tag, set: [{value: x}]":              {nil, "is of value, and there is none"},
		"file: a.yaml, value: x, set: [{value: x}]":               {nil, "x of a.yaml is set already"},
		"file: a.yaml, set: [{value: x}, {file: a.yaml, value: x, part: tag}]": {nil, "x of a.yaml is set already"},
		"file: a.yaml, set: [{value: 'x['}]":                                   {nil, "leads to no value"},
		"set: [{file: ../a.yaml, value: x}]":                                   {nil, "must be a path within the repository"},
	} {
		text := strings.Replace(proposes([]string{"prod"}, "provider: none"), "file: x.yaml, value: a.b", keys, 1)
		d, err := definition.Parse("shop.yaml", []byte(text))
		if want.why != "" {
			assert.ErrorContains(t, err, want.why, keys)
			continue
		}
		require.NoError(t, err, keys)
		assert.Equal(t, want.values, d.Stages[1].PullRequest.Values(), keys)
		again, err := d.Reread("shop")
		require.NoError(t, err, keys)
		assert.Equal(t, d, again, keys)
	}
}

func TestHowCommitsAreMade(t *testing.T) {
	for keys, why := range map[string]string{
		"title: 'deploy {{ stage }}: {{ revision[:7] }}', commit: {author: Ann Lee <ann@example.com>, message: 'x {{ value }} {{ file }}', sign_off: true, signing_key: secrets/k, signing_passphrase: secrets/p}": "",
		"title: '{{ revison }}'":                   "there is no revison; it can use revision, pipeline, stage, environment, file, value",
		"commit: {message: '{{ revision'}":         "it is no template that can be filled in",
		"commit: {message: \"{% include 'x' %}\"}": "it is no template that can be filled in",
		"commit: {author: ann}":                    "must be a name and an address of mail, as Ann Lee <ann@example.com> is",
		"commit: {author: Ann <a@b>, committer: CI <ci@b>, trailers: ['Refs: OPS-{{ revision }}', 'Co-authored-by: Bob <b@b>'], signing_key: secrets/k, signing_passphrase: secrets/p}": "",
		"commit: {committer: CI}":                          "must be a name and an address of mail",
		"commit: {trailers: {Refs: OPS-42}}":               `must be a list of trailers, as ["Refs: OPS-42"], not a mapping`,
		"commit: {trailers: [Refs]}":                       "must be a key, a colon, a space and a value, as \"Refs: OPS-42\" is, not \"Refs\"",
		"commit: {trailers: ['Refs: {{ ticket }}']}":       "there is no ticket; it can use revision",
		"commit: {trailers: ['Signed-off-by: Ann <a@b>']}": "set sign_off: true instead",
		"commit: {trailers: ['deployster-promotion: x']}":  "Deployster writes the trailer deployster-promotion itself",
		"commit: {sign_off: true}":                         "needs an author, who signs off",
		"commit: {signing_key: ann.key}":                   "must be in a directory named secrets",
		"commit: {signing_passphrase: secrets/p}":          "is of signing_key, and there is none",
		"commit: {signing_key: secrets/k, gpg: true}":      "gpg",
	} {
		d, err := definition.Parse("shop.yaml", []byte(proposes([]string{"prod"}, "provider: none, "+keys)))
		if why != "" {
			assert.ErrorContains(t, err, why, keys)
			continue
		}
		require.NoError(t, err, keys)
		again, err := d.Reread("shop")
		require.NoError(t, err, keys)
		assert.Equal(t, d, again, keys)
		assert.Len(t, d.Stages[1].PullRequest.SecretFiles(), 2, keys)
	}
}
