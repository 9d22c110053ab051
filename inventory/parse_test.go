package inventory_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
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
  - {name: nuc, context: lab+2}
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
	v := must.Get(inventory.Parse("inventory.yaml", []byte(three)))(t)
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
		{Name: "nuc", Engine: inventory.Docker, Context: "lab+2", Slots: 1},
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

func TestHostsThatAreReachedInAnotherWayDiffer(t *testing.T) {
	seen := map[string]inventory.Host{}
	for _, h := range []inventory.Host{
		{Engine: inventory.OCI},
		{Engine: inventory.Docker, Endpoint: "tcp://localhost:1"},
		{Engine: inventory.Docker, Context: "a"},
		{Engine: inventory.Docker, Context: "b"},
		{Engine: inventory.Docker, Endpoint: "tcp://localhost:1", TLS: &inventory.TLS{CA: "x"}},
		{Engine: inventory.Docker, Endpoint: "tcp://localhost:1", TLS: &inventory.TLS{CA: "y"}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Context: "a"}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a"}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a", InCluster: true}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a", Tolerations: []string{"b"}}},
		{Engine: inventory.KubernetesEngine, Kubernetes: &inventory.Kubernetes{Namespace: "a", NodeSelector: map[string]string{"b": "c"}}},
	} {
		before, there := seen[h.Reach()]
		assert.False(t, there, "%+v is reached as %+v is", h, before)
		seen[h.Reach()] = h
	}
}

func TestAHostMayBeInAClusterOfTheInventory(t *testing.T) {
	v := must.Get(inventory.Parse("inventory.yaml", []byte(`
hosts: [{name: apps, engine: kubernetes, kubernetes: {cluster: prod, namespace: apps, types_image: r.example/x}}, {name: here, engine: kubernetes, kubernetes: {cluster: own, namespace: apps, types_image: r.example/x}}]
clusters: [{name: test, context: test}, {name: prod, kubeconfig: keys/prod, context: eu}, {name: own, in_cluster: true}]
`)))(t)
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
			assert.ErrorContains(t, must.Fail(inventory.Parse("i.yaml", []byte(test.text))), test.want)
		})
	}
}

// The schema and the parser accept the same documents, but for what a schema
// cannot say: duplicate names, what the address of an engine is.
func TestTheSchemaAgrees(t *testing.T) {
	source := must.Get(schema.Source("inventory"))(t)
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
		"hosts: [{name: a, context: lab}]": true, "hosts: [{name: a, engine: docker, context: lab}]": true, host("context: lab"): false, "hosts: [{name: a, context: default}]": false, "hosts: [{name: a, context: l}]": false,
		"hosts: [{name: a, context: 'a b'}]": false, "hosts: [{name: a, context: 1}]": false, "hosts: [{name: a, context: lab, tls: {ca: x}}]": false, "hosts: [{name: a, engine: oci, context: lab}]": false, cluster("") + "\n": true,
		"hosts: [{name: a, engine: kubernetes, context: lab, kubernetes: {types_image: r/x, in_cluster: true}}]": false,
		host("tls: {ca: x}"): false, "hosts: [{name: a, endpoint: 'tcp://x', tls: {ca: x}}]": true, "hosts: [{name: a, endpoint: 'tcp://x', tls: {ca: x, cert: y}}]": false,
		"hosts: [{name: a, endpoint: 'tcp://x', tls: {ca: x, cert: y, key: z}}]": true, "hosts: [{name: a, endpoint: 'tcp://x', tls: {cert: y, key: z}}]": false,
		"hosts: [{name: a, endpoint: 'http://x'}]": false, "hosts: [{name: a, endpoint: x}]": false,
	}, func(file string) error { _, err := inventory.Parse("i.yaml", []byte(file)); return err })
}

// Whatever a file holds, Parse answers with an inventory or with problems whose positions are in the file.
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
			if found, ok := v.Host(h.Name); !ok || found.Slots < 1 || strings.Contains(h.Name, "/") || (h.Endpoint+h.Context != "") != (h.Engine == inventory.Docker) || (h.Endpoint != "" && h.Context != "") || (h.Kubernetes != nil) != (h.Engine == inventory.KubernetesEngine) {
				t.Fatalf("a host that cannot be: %+v", h)
			}
			for key, values := range h.Attributes {
				require.NotEmpty(t, values, "%s has an attribute %s without values", h.Name, key)
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

func parse(t testing.TB, text string) inventory.Query {
	q, err := inventory.ParseQuery(text)
	require.NoError(t, err, "%s", text)
	return q
}

func TestQueriesSelect(t *testing.T) {
	hosts := []inventory.Host{
		{Name: "web1", Attributes: map[string][]string{"stack": {"beta"}, "roles": {"web", "db"}}, Platforms: []string{"linux/amd64", "linux/386"}},
		{Name: "web2", Attributes: map[string][]string{"stack": {"prod"}, "roles": {"web"}, "note": {`and "so on"`}}, Platforms: []string{"linux/arm64"}},
		{Name: "bare"},
	}
	for _, test := range []struct{ about, query, want string }{
		{"a value", "attribute:stack == beta", "web1"},
		{"without spaces", "attribute:stack==beta", "web1"},
		{"in quotes", `attribute:stack == "beta"`, "web1"},
		{"!= is the opposite: a host without the attribute differs, too", "attribute:stack != beta", "web2 bare"},
		{"one of the values of a list is enough", "attribute:roles == db", "web1"},
		{"and spoils the opposite", "attribute:roles != db", "web2 bare"},
		{"in", "attribute:stack in (beta, 'prod')", "web1 web2"},
		{"in is false where nothing is", "attribute:nothing in (beta)", ""},
		{"not_in is true where nothing is", "attribute:stack not_in (beta)", "web2 bare"},
		{"exists", "attribute:stack exists", "web1 web2"},
		{"not_exists", "attribute:stack not_exists", "bare"},
		{"an expression matches anywhere", "name =~ eb", "web1 web2"},
		{"unless it is anchored", `name =~ "^web\d$" and not name =~ '^eb'`, "web1 web2"},
		{"an expression does not match what is not there", `attribute:stack =~ ""`, "web1 web2"},
		{"a name", "name == bare", "bare"},
		{"every host", "name exists", "web1 web2 bare"},
		{"a platform", "platform == linux/arm64", "web2"},
		{"no platform known", "platform not_exists", "bare"},
		{"and goes before or", "name == bare or name == web1 and attribute:stack == prod", "bare"},
		{"parentheses go before and", "(name == bare or name == web1) and attribute:stack == beta", "web1"},
		{"not goes before and", "not name == bare and name =~ 2", "web2"},
		{"not not", "not not name == bare", "bare"},
		{"a keyword in quotes is a value", `name == "and" or attribute:note == "and \"so on\""`, "web2"},
		{"a query in lines", "name == web1\n\tor\nname == web2", "web1 web2"},
		{"case matters", "attribute:stack == Beta or attribute:Stack exists", ""},
	} {
		t.Run(test.about, func(t *testing.T) {
			var got []string
			q := parse(t, test.query)
			for _, h := range hosts {
				if q.Match(h) {
					got = append(got, h.Name)
				}
			}
			assert.Equal(t, test.want, strings.Join(got, " "), "%s selects %v, want %s", test.query, got, test.want)
		})
	}
	assert.True(t, !(inventory.Query{}).Match(hosts[0]) && (inventory.Query{}).String() == "", "the zero query is not empty")
}

func TestQueriesAreWrittenCanonically(t *testing.T) {
	for query, want := range map[string]string{
		"((attribute:a=='b'))":                  "attribute:a == b",
		"(name==a and (name==b and name==c))":   "name == a and name == b and name == c",
		"name==a and (name==b or name==c)":      "name == a and (name == b or name == c)",
		"name==a or (name==b and name==c)":      "name == a or name == b and name == c",
		"not(name==a or name==b)":               "not (name == a or name == b)",
		"not (not (name == a))":                 "not not name == a",
		`name in ("a b",'c', "in")`:             `name in ("a b", c, "in")`,
		`name == '"\d\\'`:                       `name == "\"\\d\\"`,
		"platform not_in(a)or name not_exists":  "platform not_in (a) or name not_exists",
		"attribute:x == ''":                     `attribute:x == ""`,
		"attribute:x != ümläut and name exists": "attribute:x != ümläut and name exists",
	} {
		assert.Equal(t, want, parse(t, query).String(), "%s is written", query)
	}
}

func TestWhatIsWrongWithAQueryIsToldWithItsPlace(t *testing.T) {
	const possible = "==, !=, =~, in, not_in, exists, not_exists"
	for _, test := range []struct {
		query  string
		column int
		want   string
	}{
		{"", 1, "the query is empty; name exists selects every host"},
		{" \n ", 1, "the query is empty; name exists selects every host"},
		{"stack == beta", 1, `hosts have no "stack"; queries ask for name, platform or attribute:KEY, did you mean "attribute:stack"?`},
		{"nmae == beta", 1, `hosts have no "nmae"; queries ask for name, platform or attribute:KEY, did you mean "name"?`},
		{"name == a or atribute:stack == b", 14, `hosts have no "atribute:stack"; queries ask for name, platform or attribute:KEY, did you mean "attribute:stack"?`},
		{"tag:stack == b", 1, `hosts have no "tag:stack"; queries ask for name, platform or attribute:KEY`},
		{"attribute: stack == b", 1, "the key of the attribute is missing; it follows right after attribute:"},
		{"attribute:a/b == b", 1, `"a/b" cannot be the name of an attribute: letters, digits, ., _ and - are possible, with a letter or digit at both ends`},
		{`"name" == b`, 1, "expected name, platform or attribute:KEY, not a text in quotes"},
		{"and name == b", 1, `expected name, platform or attribute:KEY, not "and"`},
		{"name", 5, "expected an operator (" + possible + ") after name, not the end"},
		{"name web1", 6, "expected an operator (" + possible + `) after name, not "web1"`},
		{"name exist", 6, "expected an operator (" + possible + `) after name, not "exist", did you mean "exists"?`},
		{"name notin (a)", 6, "expected an operator (" + possible + `) after name, not "notin", did you mean "not_in"?`},
		{"name not in (a)", 6, "expected an operator (" + possible + `) after name, not "not"`},
		{"name !~ a", 6, "expected an operator (" + possible + `) after name, not "!~", did you mean "not name =~"?`},
		{"name = a", 6, `there is no = in queries, did you mean "=="?`},
		{"name == a && name == b", 11, `there is no && in queries, did you mean "and"?`},
		{"name == a || name == b", 11, `there is no || in queries, did you mean "or"?`},
		{"!name == b", 1, `there is no ! in queries, did you mean "not"?`},
		{"name in [a]", 9, `there is no [ in queries, did you mean "("?`},
		{"name == ", 9, "expected a value after ==, not the end"},
		{"name == and", 9, "expected a value after ==; the word and as a value is written in quotes"},
		{"name == )", 9, `expected a value after ==, not ")"`},
		{"name == a b", 11, `expected and, or or the end, not "b"`},
		{"name == a AND name == b", 11, `expected and, or or the end, not "AND", did you mean "and"?`},
		{"name == a)", 10, "there is no ( for this )"},
		{"(name == a", 11, "expected and, or or a ) for the ( at character 1, not the end"},
		{"()", 2, `expected name, platform or attribute:KEY, not ")"`},
		{"name in a", 9, `expected a list such as (a, b) after in, not "a"`},
		{"name in ()", 10, `expected a value after (, not ")"`},
		{"name in (a,)", 12, `expected a value after ,, not ")"`},
		{"name not_in (a b)", 16, `expected , or ) in the list, not "b"`},
		{"name == 'a", 9, "this quote is never closed"},
		{`name == "a\"`, 9, "this quote is never closed"},
		{"name == 'a\x1bb'", 11, "a control character is not possible in a value"},
		{"name =~ ^web", 9, `'^' is only possible within quotes`},
		{"name =~ 'a('", 9, "this is no regular expression: missing closing ): `a(`"},
		{"name == ä and name =~ '*'", 23, "this is no regular expression: missing argument to repetition operator: `*`"},
		{"name =~ '(" + strings.Repeat("x", 60) + "){1000}'", 9, "the regular expressions of the query are too large"},
		{"name == " + strings.Repeat("x", 1001), 9, "the value has 1001 bytes; at most 1000 are possible"},
		{strings.Repeat("(", 101) + "name", 101, "nested deeper than 100 levels"},
		{strings.Repeat("not ", 101) + "name", 401, "nested deeper than 100 levels"},
		{strings.Repeat("x", 4097), 1, "the query has 4097 bytes; at most 4096 are possible"},
		{"name == \xff", 1, "the query is not valid UTF-8"},
	} {
		_, err := inventory.ParseQuery(test.query)
		var wrong *inventory.QueryError
		if !errors.As(err, &wrong) {
			t.Errorf("%.60s: %v", test.query, err)
			continue
		}
		column, problem := wrong.Place()
		assert.Equal(t, fmt.Sprint(test.column, ": ", test.want), fmt.Sprint(column, ": ", problem), "%.60s", test.query)
		assert.EqualError(t, err, fmt.Sprintf("the query at character %d: %s", test.column, test.want))
	}
}

// naive is a query as a tree, with what it means spelled out.
type naive struct {
	text string // with all the parentheses, and spaces and quotes at random
	eval func(inventory.Host) bool
}

func values(h inventory.Host, subject string) []string {
	switch subject {
	case "name":
		return []string{h.Name}
	case "platform":
		return h.Platforms
	default:
		return h.Attributes[strings.TrimPrefix(subject, "attribute:")]
	}
}

func drawTest(t *rapid.T) naive {
	words := rapid.SampledFrom([]string{"a", "b", "c", "", "and", `x "y"`, `back\slash`, "it's", "linux/a", "ä", "()"})
	subject := rapid.SampledFrom([]string{"name", "platform", "attribute:k", "attribute:l"}).Draw(t, "subject")
	operator := rapid.SampledFrom([]string{"==", "!=", "in", "not_in", "=~", "exists", "not_exists"}).Draw(t, "operator")
	quoted := func(v string) string {
		mark := rapid.SampledFrom([]string{`"`, `'`}).Draw(t, "quote")
		return mark + strings.NewReplacer(`\`, `\\`, mark, `\`+mark).Replace(v) + mark
	}
	var args []string
	var arg string
	switch operator {
	case "in", "not_in":
		args = rapid.SliceOfN(words, 1, 3).Draw(t, "values")
		var written []string
		for _, a := range args {
			written = append(written, quoted(a))
		}
		arg = "(" + strings.Join(written, ",") + ")"
	case "=~":
		args = []string{rapid.SampledFrom([]string{"", "a", "^a$", `\\s`, `[ab]|"`, "x?", `\ba`}).Draw(t, "pattern")}
		arg = quoted(args[0])
	case "==", "!=":
		args = []string{words.Draw(t, "value")}
		arg = quoted(args[0])
	}
	return naive{subject + " " + operator + " " + arg, func(h inventory.Host) bool {
		has := values(h, subject)
		any := func(good func(string) bool) bool { return slices.ContainsFunc(has, good) }
		switch operator {
		case "exists":
			return len(has) > 0
		case "not_exists":
			return len(has) == 0
		case "==":
			return slices.Contains(has, args[0])
		case "!=":
			return !slices.Contains(has, args[0])
		case "in":
			return any(func(v string) bool { return slices.Contains(args, v) })
		case "not_in":
			return !any(func(v string) bool { return slices.Contains(args, v) })
		default:
			return any(regexp.MustCompile(args[0]).MatchString)
		}
	}}
}

func drawQuery(t *rapid.T, depth int) naive {
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	if depth == 0 || kind < 2 {
		return drawTest(t)
	}
	a := drawQuery(t, depth-1)
	if kind == 2 {
		return naive{"not (" + a.text + ")", func(h inventory.Host) bool { return !a.eval(h) }}
	}
	b := drawQuery(t, depth-1)
	if kind == 3 {
		return naive{"(" + a.text + ")and(" + b.text + ")", func(h inventory.Host) bool { return a.eval(h) && b.eval(h) }}
	}
	return naive{"(" + a.text + ") or (" + b.text + ")", func(h inventory.Host) bool { return a.eval(h) || b.eval(h) }}
}

func drawHost(t *rapid.T) inventory.Host {
	some := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "and", `x "y"`, `back\slash`, "it's", "ä"}), 1, 3)
	h := inventory.Host{Name: rapid.SampledFrom([]string{"a", "b", "ba"}).Draw(t, "name"), Attributes: map[string][]string{}}
	for _, key := range []string{"k", "l"} {
		if rapid.Bool().Draw(t, "has "+key) {
			h.Attributes[key] = some.Draw(t, key)
		}
	}
	if rapid.Bool().Draw(t, "platforms known") {
		h.Platforms = rapid.SliceOfN(rapid.SampledFrom([]string{"linux/a", "linux/b"}), 1, 2).Draw(t, "platforms")
	}
	return h
}

func TestAQueryMeansWhatItsPartsMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, h := drawQuery(t, 4), drawHost(t)
		q, err := inventory.ParseQuery(want.text)
		if err != nil || q.Match(h) != want.eval(h) {
			t.Fatalf("%s of %+v is %t, %v", want.text, h, q.Match(h), err)
		}
		again, err := inventory.ParseQuery(q.String())
		require.True(t, err == nil && again.String() == q.String() && again.Match(h) == want.eval(h), "%s became %s, %v", q, again, err)
	})
}

// Whatever the text, there is a query that can be written and read back, or an error whose place is in the text.
func FuzzParseQuery(f *testing.F) {
	for _, text := range []string{
		"attribute:stack == beta", `not (name in (a, 'b c') or platform =~ "^linux/\\w+$") and attribute:x not_exists`,
		"name == 'a\\'b' or attribute:ä != \"\"", "((name", "name = [a]", "name =~ '(a{500}){500}'",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := inventory.ParseQuery(text)
		var wrong *inventory.QueryError
		if errors.As(err, &wrong) {
			require.True(t, wrong.Message != "" && wrong.Column >= 1 &&
				wrong.Column <= len([]rune(text))+1, "an error that cannot be shown: %+v", wrong)
			return
		}
		require.NoError(t, err, "an error without a place")
		canonical := q.String()
		if len(canonical) > 4096 { // spaces and quotes may be added
			return
		}
		again := parse(t, canonical)
		require.Equal(t, canonical, again.String(), "%s became %s", canonical, again)
	})
}
