package definition_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
	"github.com/deployster-go/deployster/schema"
)

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
