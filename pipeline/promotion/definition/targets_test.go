package definition_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

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
