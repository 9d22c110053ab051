package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/schema"
)

const three = `
hosts:
  - name: antworker001
    attributes: &worker {stack: prod, roles: [web, db], since: 2020-01-02}
    endpoint: unix:///var/run/docker.sock
    platforms: [linux/amd64, linux/arm/v7]
    slots: 4
  - name: antworker002
    attributes:
      <<: *worker
      stack: beta
    endpoint: ssh://deploy@192.0.2.7:2222
  - {name: laptop, engine: oci}
  - name: far.example
    endpoint: tcp://far.example:2376
    tls: {ca: keys/ca.pem, cert: keys/cert.pem, key: keys/key.pem}
  - name: apps
    engine: kubernetes
    kubernetes:
      kubeconfig: keys/kubeconfig
      context: prod
      namespace: deployster
      types_image: registry.example:5000/team/deployster
      pod_security: baseline
      image_pull_secrets: [registry]
      node_selector: {disk: ssd, node-role.kubernetes.io/worker: ""}
      tolerations: ["dedicated=deploy:NoSchedule", "example.com/spot:NoExecute", maintenance]
      service_account: deployer
      copy_workspace: true
`

func TestParse(t *testing.T) {
	v, err := inventory.Parse("inventory.yaml", []byte(three))
	require.NoError(t, err)
	want := []inventory.Host{
		{
			Name: "antworker001", Engine: inventory.Docker, Endpoint: "unix:///var/run/docker.sock", Platforms: []string{"linux/amd64", "linux/arm/v7"}, Slots: 4,
			Attributes: map[string][]string{"stack": {"prod"}, "roles": {"web", "db"}, "since": {"2020-01-02"}},
		},
		{
			Name: "antworker002", Engine: inventory.Docker, Endpoint: "ssh://deploy@192.0.2.7:2222", Slots: 1,
			Attributes: map[string][]string{"stack": {"beta"}, "roles": {"web", "db"}, "since": {"2020-01-02"}},
		},
		{Name: "laptop", Engine: inventory.OCI, Slots: 1},
		{
			Name: "far.example", Engine: inventory.Docker, Endpoint: "tcp://far.example:2376", Slots: 1,
			TLS: &inventory.TLS{CA: "keys/ca.pem", Cert: "keys/cert.pem", Key: "keys/key.pem"},
		},
		{
			Name: "apps", Engine: inventory.KubernetesEngine, Slots: 1,
			Kubernetes: &inventory.Kubernetes{
				Kubeconfig: "keys/kubeconfig", Context: "prod", Namespace: "deployster", TypesImage: "registry.example:5000/team/deployster",
				PodSecurity: "baseline", PullSecrets: []string{"registry"}, ServiceAccount: "deployer", CopyWorkspace: true,
				NodeSelector: map[string]string{"disk": "ssd", "node-role.kubernetes.io/worker": ""},
				Tolerations:  []string{"dedicated=deploy:NoSchedule", "example.com/spot:NoExecute", "maintenance"},
			},
		},
	}
	assert.Equal(t, want, v.Hosts)
	laptop, ok := v.Host("laptop")
	assert.True(t, ok)
	assert.Equal(t, want[2], laptop)
	_, ok = v.Host("nobody")
	assert.False(t, ok)
	assert.Equal(t, want[:3], v.Select(parse(t, "attribute:roles == web or name == laptop")))
}

// Whoever holds a connection to a host must notice that it is to be reached in another way.
func TestHostsThatAreReachedInAnotherWayDiffer(t *testing.T) {
	seen := map[string]inventory.Host{}
	for _, h := range []inventory.Host{
		{Engine: inventory.OCI},
		{Engine: inventory.Docker, Endpoint: "tcp://localhost:1"},
		{Engine: inventory.Docker, Endpoint: "tcp://localhost:1", TLS: &inventory.TLS{CA: "x"}},
		{Engine: inventory.Docker, Endpoint: "tcp://localhost:1", TLS: &inventory.TLS{CA: "y"}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Context: "a"}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a"}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a", InCluster: true}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a", Tolerations: []string{"b"}}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a", NodeSelector: map[string]string{"b": "c"}}},
	} {
		if before, there := seen[h.Reach()]; there {
			t.Errorf("%+v is reached as %+v is", h, before)
		}
		seen[h.Reach()] = h
	}
}

func TestAHostMayBeInAClusterOfTheInventory(t *testing.T) {
	v, err := inventory.Parse("inventory.yaml", []byte(`
hosts: [{name: apps, engine: kubernetes, kubernetes: {cluster: prod, namespace: apps, types_image: r.example/x}}, {name: here, engine: kubernetes, kubernetes: {cluster: own, namespace: apps, types_image: r.example/x}}]
clusters: [{name: test, context: test}, {name: prod, kubeconfig: keys/prod, context: eu}, {name: own, in_cluster: true}]
`))
	require.NoError(t, err)
	want := &inventory.Kubernetes{Kubeconfig: "keys/prod", Context: "eu", Namespace: "apps", TypesImage: "r.example/x"}
	assert.Equal(t, want, v.Hosts[0].Kubernetes)
	here := v.Hosts[1].Kubernetes
	assert.Equal(t, &inventory.Kubernetes{InCluster: true, Namespace: "apps", TypesImage: "r.example/x"}, here)
	assert.Equal(t, "in-cluster/apps", here.String())
}

// Each file of testdata/problems is an inventory, with what is said about it; see yamltest.
func TestProblems(t *testing.T) {
	yamltest.Problems(t, func(files ...string) error {
		_, err := inventory.Parse("i.yaml", []byte(files[0]))
		return err
	})
}

func TestHostileFilesAreRefusedQuickly(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"too many hosts":    {"hosts: [" + strings.Repeat("a,", 100_001) + "]", "i.yaml:1:8: hosts: has 100001 hosts; at most 100000 are possible"},
		"everything wrong":  {"hosts:\n" + strings.Repeat("  - {nmae: x, slots: no, endpoint: y}\n", 5_000), "and 19000 more problems"},
		"far too many keys": {"hosts: [{attributes: {" + strings.Repeat("a: b, ", 30_000) + "}}]", "and 29001 more problems"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := inventory.Parse("i.yaml", []byte(test.text))
			assert.ErrorContains(t, err, test.want)
		})
	}
}

// The schema and the parser accept the same documents, but for what a schema
// cannot say: duplicate names, what the address of an engine is.
func TestTheSchemaAgrees(t *testing.T) {
	source, err := schema.Source("inventory")
	require.NoError(t, err)
	cluster := func(more string) string {
		return "hosts: [{name: a, engine: kubernetes, kubernetes: {types_image: r/x, in_cluster: true, " + more + "}}]"
	}
	reached := func(how string) string {
		return "{clusters: [{name: prod, context: p}, {name: own, in_cluster: true}], hosts: [{name: a, engine: kubernetes, kubernetes: {types_image: r/x, " + how + "}}]}"
	}
	host := func(more string) string { return "hosts: [{name: a, endpoint: 'unix:///x', " + more + "}]" }
	yamltest.Schema(t, source, map[string]bool{
		"clusters: [{name: prod, kubeconfig: keys/prod, context: admin}, {name: dev, context: dev}, {name: own, in_cluster: true}]": true, "clusters: [{name: dev}]": false, "clusters: [{name: dev, in_cluster: false}]": false, "clusters: [{name: dev, in_cluster: 1}]": false, "clusters: [{name: dev, context: d, in_cluster: 'true'}]": false, "clusters: [{name: dev, in_cluster: true, context: dev}]": false, "clusters: [{name: dev, kubeconfig: ''}]": false, "{hosts: [], clusters: []}": true, "clusters: [{kubeconfig: keys/prod}]": false, "clusters: [{name: a b}]": false, "clusters: {prod: {}}": false,
		three: true, "hosts: []": true, "{name: fleet, hosts: []}": true, "{name: a/b, hosts: []}": false, "{name: '', hosts: []}": false, "{name: 1, hosts: []}": false, "{}": false, "host: []": false, "hosts: {}": false, "hosts:": false, "hosts: [{}]": false,
		host("slots: 1"): true, host("slots: 0"): false, host("slots: 1001"): false, host("slots: '1'"): false, host("slots:"): false, host("slots: 1.5"): false,
		host("attributes: {a: b, c: [d]}"): true, host("attributes: {a: ''}"): false, host("attributes: {a: 1}"): false, host("attributes: {a: []}"): false,
		host("attributes: {a: [1]}"): false, host("attributes: {-a: b}"): false, host("attributes: {}"): true, host("attributes: {a: {}}"): false, host("attributes:"): false,
		host("engine: docker"): true, host("engine: oci"): false, host("engine: podman"): false,
		"hosts: [{name: a, engine: oci}]": true, "hosts: [{name: a}]": false, "hosts: [{name: a, engine: docker}]": false, "hosts: [{engine: oci}]": false,
		"hosts: [{name: a, engine: oci, tls: {ca: x}}]": false, "hosts: [{name: a/b, engine: oci}]": false, "hosts: [{name: a-, engine: oci}]": false, "hosts: [{name: '', engine: oci}]": false,
		host("platforms: [linux/amd64, linux/arm/v7]"): true, host("platforms: []"): true, host("platforms: [linux]"): false, host("platforms: linux/amd64"): false,
		cluster(""): true, "hosts: [{name: a, engine: kubernetes}]": false, "hosts: [{name: a, engine: kubernetes, kubernetes: {}}]": false, host("kubernetes: {types_image: x}"): false,
		"hosts: [{name: a, engine: oci, kubernetes: {types_image: x}}]": false, "hosts: [{name: a, engine: kubernetes, endpoint: 'tcp://x', kubernetes: {types_image: x}}]": false,
		"hosts: [{name: a, engine: kubernetes, kubernetes: {types_image: 'r:1/x', context: p}}]": true, "hosts: [{name: a, engine: kubernetes, kubernetes: {types_image: 'r:1/x:2', context: p}}]": false,
		"hosts: [{name: a, engine: kubernetes, kubernetes: {types_image: 'x:2', context: p}}]": false, "hosts: [{name: a, engine: kubernetes, kubernetes: {types_image: 'r/x@sha256:0', context: p}}]": false,
		cluster("namespace: a-b"): true, cluster("namespace: A"): false, cluster("namespace: " + strings.Repeat("a", 64)): false, cluster("namespace:"): false, reached("context: ''"): false, reached("kubeconfig: 1"): false,
		cluster("pod_security: baseline"): true, cluster("pod_security: privileged"): false, cluster("image_pull_secrets: [a.b]"): true, cluster("image_pull_secrets: [a/b]"): false, cluster("image_pull_secrets: a"): false,
		cluster("node_selector: {a: b, x.y/z: ''}"): true, cluster("node_selector: {a b: c}"): false, cluster("node_selector: {a: b c}"): false, cluster("node_selector: [a]"): false, cluster("node_selector: {a: 1}"): false,
		cluster("tolerations: [a, 'a=', 'a=b', 'x.y/a:NoExecute', 'a=b:NoSchedule']"): true, cluster("tolerations: ['a=b=c']"): false, cluster("tolerations: ['a:Never']"): false, cluster("tolerations: [':NoSchedule']"): false,
		reached(""): false, reached("in_cluster: false"): false, reached("in_cluster: 1"): false, reached("in_cluster: true"): true, reached("in_cluster: true, context: p"): false, reached("in_cluster: true, kubeconfig: p"): false, reached("in_cluster: false, kubeconfig: p"): true, reached("context: p"): true,
		reached("cluster: prod"): true, reached("cluster: own"): true, reached("cluster: prod, context: b"): false, reached("cluster: prod, kubeconfig: b"): false, reached("cluster: prod, in_cluster: false"): false, reached("cluster: a/b"): false,
		cluster("service_account: a"): true, cluster("service_account: a/b"): false, cluster("service_account: A"): false, cluster("copy_workspace: true"): true, cluster("copy_workspace: 1"): false,
		host("tls: {ca: x}"): false, "hosts: [{name: a, endpoint: 'tcp://x', tls: {ca: x}}]": true, "hosts: [{name: a, endpoint: 'tcp://x', tls: {ca: x, cert: y}}]": false,
		"hosts: [{name: a, endpoint: 'tcp://x', tls: {ca: x, cert: y, key: z}}]": true, "hosts: [{name: a, endpoint: 'tcp://x', tls: {cert: y, key: z}}]": false,
		"hosts: [{name: a, endpoint: 'http://x'}]": false, "hosts: [{name: a, endpoint: x}]": false,
	}, func(file string) error {
		_, err := inventory.Parse("i.yaml", []byte(file))
		return err
	})
}

// Whatever a file holds, Parse answers with an inventory or with problems whose
// positions are in the file.
func FuzzParse(f *testing.F) {
	f.Add(three)
	yamltest.Seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := inventory.Parse("i.yaml", []byte(text))
		if err != nil {
			yamltest.Showable(t, err, yamltest.Lines(text))
			return
		}
		for _, h := range v.Hosts {
			if found, ok := v.Host(h.Name); !ok || found.Slots < 1 || strings.Contains(h.Name, "/") || (h.Endpoint != "") != (h.Engine == inventory.Docker) || (h.Kubernetes != nil) != (h.Engine == inventory.KubernetesEngine) {
				t.Fatalf("a host that cannot be: %+v", h)
			}
			for key, values := range h.Attributes {
				if len(values) == 0 {
					t.Fatalf("%s has an attribute %s without values", h.Name, key)
				}
			}
		}
	})
}

func TestAnInventoryHasClusters(t *testing.T) {
	v, err := inventory.Parse("i.yaml", []byte("{name: fleet, clusters: [{name: prod, kubeconfig: keys/prod, context: admin}, {name: dev, in_cluster: true}]}"))
	require.NoError(t, err)
	c, _ := v.Cluster("prod")
	assert.Equal(t, inventory.Cluster{Name: "prod", Kubeconfig: "keys/prod", Context: "admin"}, c)
	_, is := v.Cluster("test")
	assert.False(t, is)
	assert.Equal(t, "fleet", v.Name)
	assert.Empty(t, v.Select(parse(t, "name exists")))
	_, err = inventory.Parse("i.yaml", []byte("clusters: [{name: prod, context: a}, {name: prod, context: b}]"))
	assert.ErrorContains(t, err, `duplicate cluster "prod", first at`)
}

func TestWhoeverNamesNoClusterIsToldWhichThereAre(t *testing.T) {
	many := &inventory.Inventory{}
	for i := range 12 {
		many.Clusters = append(many.Clusters, inventory.Cluster{Name: fmt.Sprintf("eu-%02d", i)})
	}
	two := &inventory.Inventory{Clusters: []inventory.Cluster{{Name: "dev"}, {Name: "prod"}}}
	const remedy = ": add it to clusters there, as {name: prdo, kubeconfig: FILE, context: NAME}"
	for _, c := range []struct {
		v          *inventory.Inventory
		name, want string
	}{
		{two, "prod", ""},
		{two, "prdo", `there is no cluster prdo in the inventory, did you mean "prod"?` + remedy},
		{two, "north-sea", "there is no cluster north-sea in the inventory, which has dev, prod" + strings.Replace(remedy, "prdo", "north-sea", 1)},
		{many, "prdo", "there is no cluster prdo in the inventory, which has eu-00, eu-01, eu-02, eu-03, eu-04, eu-05, eu-06, eu-07, eu-08, eu-09 and 2 more" + remedy},
		{&inventory.Inventory{}, "prdo", "there is no cluster prdo in the inventory" + remedy},
	} {
		got := ""
		if _, err := c.v.FindCluster(c.name); err != nil {
			got = err.Error()
		}
		assert.Equal(t, c.want, got)
	}
}
