package server_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/inventory"
)

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

// The clusters of a definition are those of the server, not of whoever sends it.
func TestAStageNamesClustersOfTheServer(t *testing.T) {
	s := newShop(t)
	_, s.url = newServer(t, s.log, func(o *server.Options) {
		o.Objects, o.Hosts = s.store, withClusters{s.hosts, []inventory.Cluster{{Name: "dev", Context: "d"}, {Name: "prod", Context: "p"}}}
	})
	in := func(cluster string) string {
		return s.defined(strings.Replace(promoting, "environment: prod, manual: true", `objects: [{cluster: `+cluster+`, kind: Kustomization, namespace: flux, name: shop}], strategy: webhook, webhook: {url: "https://ci.example/", key_file: secrets/ci.key}`, 1))
	}
	for _, step := range []struct {
		cluster string
		want    int
		says    string
	}{
		{"prdo", 422, `stage prod, by the inventory of the server: there is no cluster prdo in the inventory, did you mean \"prod\"?`},
		{"elsewhere", 422, "which has dev, prod"},
		{"prod", 200, `"environment":"objects:shop/prod"`},
	} {
		if status, said := s.steer("admin", "define", in(step.cluster)); status != step.want || !strings.Contains(said, step.says) {
			t.Errorf("%s: %d, want %d and %q: %.500s", step.cluster, status, step.want, step.says, said)
		}
	}
	_, s.url = newServer(t, s.log, func(o *server.Options) { o.Objects = s.store })
	if status, said := s.steer("admin", "define", in("elsewhere")); status != 409 || !strings.Contains(said, "the server has no inventory") {
		t.Errorf("without an inventory: %d %s", status, said)
	}
}
