package submission_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/inventory"
)

func TestJobsThatNobodyCanDoAreSaid(t *testing.T) {
	role := func(name, role string, platforms ...string) inventory.Host {
		return inventory.Host{Name: name, Platforms: platforms, Attributes: map[string][]string{"role": {role}}}
	}
	for _, c := range []struct {
		name     string
		hosts    []inventory.Host
		job      string
		away     []string
		builds   map[string][]string
		platform string // of the place; "" is that it is refused
		want     string // the warning, or the refusal; "" is none
	}{
		{"a worker that answers", []inventory.Host{role("a", "builder")}, "", nil, map[string][]string{"a": {"linux/arm64"}}, "linux/arm64", ""},
		{"one that says its platform", []inventory.Host{role("a", "builder", "linux/arm/v7")}, "", nil, nil, "linux/arm/v7", ""},
		{"a platform without its variant", []inventory.Host{role("a", "builder", "linux/arm/v7")}, "target: linux/arm", nil, nil, "linux/arm", ""},
		{"no hosts", nil, "", nil, nil, "linux/" + runtime.GOARCH, "nobody can do 2 jobs now, of a, b: the inventory has no hosts: list workers in it"},
		{"nobody selected", []inventory.Host{role("a", "web")}, `workers: "attribute:role == builder"`, nil, nil, "linux/" + runtime.GOARCH, `no host of the inventory is selected by "attribute:role == builder": correct the query`},
		{"another platform", []inventory.Host{role("a", "builder", "linux/amd64")}, "target: linux/arm64", nil, nil, "linux/arm64", "no worker has the platform linux/arm64: add one, or correct target"},
		{"an engine of another platform", []inventory.Host{role("a", "builder")}, "target: linux/arm64", nil, map[string][]string{"a": {"linux/amd64"}}, "linux/arm64", "no worker for linux/arm64 answers (1 host): worker a builds for linux/amd64"},
		{"nobody answers", []inventory.Host{role("a", "builder", "linux/amd64"), role("b", "builder", "linux/amd64")}, "", []string{"a", "b"}, nil, "linux/amd64", "no worker for linux/amd64 answers (2 hosts): a is away b is away"},
		{"one of two answers", []inventory.Host{role("a", "builder"), role("b", "builder")}, "", []string{"a"}, map[string][]string{"b": {"linux/amd64"}}, "linux/amd64", ""},
		{"several platforms", []inventory.Host{role("a", "builder", "linux/amd64", "linux/arm64")}, "", nil, nil, "", "packages.yaml:3:12: its workers have several platforms, linux/amd64, linux/arm64: say for which it is built, as target: linux/amd64"},
		{"several platforms of a query", []inventory.Host{role("a", "builder", "linux/amd64"), role("b", "builder", "linux/arm64")}, "workers: name exists", nil, nil, "", "its workers have several platforms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.hosts, w.builds, w.Unpinned = c.hosts, c.builds, true
			for i := range c.hosts {
				if w.builds == nil {
					w.builds = map[string][]string{}
				}
				if w.builds[c.hosts[i].Name] == nil {
					w.builds[c.hosts[i].Name] = c.hosts[i].Platforms
				}
			}
			for _, name := range c.away {
				w.away[name] = fmt.Errorf("%s is away", name)
			}
			w.images["build:1"] = image("aa")
			got, err := w.collect("group: g\njob: {image: build:1, " + c.job + "}\npackages: {a: {}, b: {}}")
			if c.platform == "" {
				assert.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			warned := strings.Join(got.Warnings, "\n")
			if got.Submit.Places[0].Platform != c.platform || strings.Contains(warned, "nobody") != (c.want != "") || !strings.Contains(warned, c.want) {
				t.Errorf("places %v, warnings %q", got.Submit.Places, got.Warnings)
			}
		})
	}
}

func TestAnInventoryThatCannotBeReadIsSaid(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts, w.err = nil, errors.New("inventory.yaml:1:1: it is broken")
	_, err := w.collect("group: g\npackages: {a: {image: build:1}}")
	assert.ErrorContains(t, err, "it is not known which workers there are: inventory.yaml:1:1: it is broken")
}
