package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/inventory"
)

const definitionOf = "name: %s\ntask: {manifest: m.yaml}\ninstance_group: {query: 'attribute:stack == prod'}\ndeployment: {min_healthy_percent: 0}\n"

// shop is a server of environments, with two hosts that their queries select, and a third.
type shop struct {
	*testing.T
	log   deploylog.Log
	store objects.Store
	hosts server.Hosts
	api   *server.Server
	url   string
}

func newShop(t *testing.T, more ...func(*server.Options)) *shop {
	s := &shop{T: t, log: logOf(t, 0), store: objects.In(t.TempDir(), nil)}
	var hosts []inventory.Host
	for _, name := range []string{"web1", "web2", "spare"} {
		h := inventory.Host{Name: name, Engine: inventory.Docker, Endpoint: "ssh://root@" + name, Slots: 1, Attributes: map[string][]string{"stack": {"prod"}}}
		if name == "spare" {
			h.Attributes = nil
		}
		hosts = append(hosts, h)
	}
	s.hosts = work.FixedHosts("the inventory", hosts, nil)
	s.api, s.url = newServer(t, s.log, func(o *server.Options) {
		var ids atomic.Int64
		o.NewID = func() string { return fmt.Sprintf("01J%023d", ids.Add(1)) }
		o.Objects, o.Hosts = s.store, s.hosts
		o.Identify = func(r *http.Request) (identity.Identity, error) {
			if name, of := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer of "); of {
				return identity.Identity{Name: name, Grants: []identity.Grant{{Role: identity.Operator, Environments: []string{name}}}}, nil
			}
			if name, of := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer admin of "); of {
				return identity.Identity{Name: name, Grants: []identity.Grant{{Role: identity.Admin, Pipelines: []string{name}}}}, nil
			}
			if name, of := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ci of "); of {
				return identity.Identity{Name: "ci", Grants: []identity.Grant{{Role: identity.Operator, Pipelines: []string{name}}}}, nil
			}
			return byRole(r)
		}
		for _, change := range more {
			change(o)
		}
	})
	return s
}

// definition is one that carries a text, which is kept, as JSON has it.
func (s *shop) definition(name, text string, change ...func(*definition.Definition)) *definition.Definition {
	s.Helper()
	d, err := definition.Parse(name, fmt.Appendf(nil, definitionOf, name), inventory.CheckQuery)
	require.NoError(s, err)
	if d.Task.Digest, err = s.store.Keep([]byte(text)); err != nil {
		s.Fatal(err)
	}
	d.Task.Includes = map[string]string{}
	for _, c := range change {
		c(d)
	}
	return d
}

func (s *shop) send(status int, says, who, name, verb string, of any) (said string) {
	return post(s.T, status, says, s.url+"/v1/environments/"+name+"/commands/"+verb, who, of)
}

func (s *shop) report(name string) (r report.Report) {
	e := environments.New(s.log, nil)
	require.NoError(s, e.Follow(context.Background(), 0))
	r, err := reconcile.Get(e.Fold, name, (*environment.State).Report)
	require.True(s, err == nil || errors.Is(err, environments.ErrNoEnvironment), "%v", err)
	return r
}

type body map[string]any

func mustJSON(t testing.TB, v any) []byte {
	text := must.Get(json.Marshal(v))(t)
	return text
}

// Whoever sends a command says what is wanted; which hosts there are, the server knows.
func TestEnvironmentsAreMadeAndDeployedOnTheHostsOfTheServer(t *testing.T) {
	s := newShop(t)
	s.send(403, "may not", "viewer", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	s.send(403, "may not", "approver", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	s.send(200, "environment-created", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	s.send(409, "already exists", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	s.send(404, "no such", "operator", "shop", "deploy", body{"revision": 7})
	s.send(422, "unknown field", "operator", "shop", "deploy", body{"revision": 1, "hosts": []string{"evil"}})
	s.send(422, "unknown field", "operator", "shop", "deploy", body{"revision": 1, "inventory": "mine"})
	s.send(409, "min_healthy_percent", "operator", "shop", "deploy", body{"revision": 1, "change": body{"min_healthy_percent": 900}})
	s.send(200, `"by":"the operator"`, "operator", "shop", "deploy", body{"revision": 1, "reason": "first"})
	r := s.report("shop")
	require.Len(t, r.Hosts, 2)
	assert.Equal(t, "web1 web2", r.Hosts[0].Host+" "+r.Hosts[1].Host)
	s.send(200, "environment-updated", "operator", "shop", "update", body{"base": 1, "definition": s.definition("shop", "resources: {a: {}}")})
	s.send(409, "stale base", "operator", "shop", "update", body{"base": 1, "definition": s.definition("shop", "resources: {b: {}}")})
	s.send(200, "hosts-cordoned", "operator", "shop", "cordon", body{"hosts": []string{"spare", "web1"}})
	s.send(422, "lists none of that name", "operator", "shop", "cordon", body{"hosts": []string{"wbe1"}})
	s.send(409, "", "operator", "shop", "cordon", body{})
	s.send(200, "hosts-uncordoned", "operator", "shop", "uncordon", body{"hosts": []string{"web1"}})
	s.send(409, "", "operator", "shop", "confirm", body{})
	s.send(409, "newer", "operator", "shop", "rollback", body{"revision": 2})
	s.send(409, "", "operator", "shop", "restart", body{"only": []string{"spare"}})
	s.send(409, "not deleted", "operator", "shop", "clean", body{})
	s.send(409, "not deleted", "operator", "shop", "adopt", body{"revision": 1})
	s.send(200, "environment-deleted", "operator", "shop", "delete", body{})
	s.send(404, "no such", "operator", "shop", "deploy", body{"revision": 1})
}

// A definition has to be one that a file could say, and to carry what it applies: else hosts
// would get what lies in the workspace of the server.
func TestWhatIsNotCarriedIsNoRevision(t *testing.T) {
	s := newShop(t)
	missing := strings.Repeat("0", 64)
	for says, d := range map[string]*definition.Definition{
		"there is no definition":        nil,
		"is of environment":             s.definition("other", "a"),
		"does not carry its manifest":   s.definition("shop", "a", func(d *definition.Definition) { d.Task.Digest = "" }),
		"task.digest and task.includes": s.definition("shop", "a", func(d *definition.Definition) { d.Task.Includes = nil }),
		"is not here: put it first":     s.definition("shop", "a", func(d *definition.Definition) { d.Task.Digest = missing }),
		"is no digest":                  s.definition("shop", "a", func(d *definition.Definition) { d.Task.Includes["b"] = "../../etc/passwd" }),
		"no path of a file":             s.definition("shop", "a", func(d *definition.Definition) { d.Task.Includes["../b"] = d.Task.Digest }),
		"which verifies a step": s.definition("shop", "a", func(d *definition.Definition) {
			d.Deployment.Steps = []definition.Wave{{Hosts: budget.Budget{Percent: 100}, Verify: "v.yaml"}}
		}),
		"must be a path within the workspace":  s.definition("shop", "a", func(d *definition.Definition) { d.Task.Manifest = "/etc/passwd" }),
		"instance_group.query":                 s.definition("shop", "a", func(d *definition.Definition) { d.InstanceGroup.Query = "attribute:" }),
		"min_healthy_percent":                  s.definition("shop", "a", func(d *definition.Definition) { d.Deployment.MinHealthyPercent = -1 }),
		"method":                               s.definition("shop", "a", func(d *definition.Definition) { d.Deployment.Method = "Instantly" }),
		"at most 2000":                         s.definition("shop", "a", func(d *definition.Definition) { d.Task.Includes = many(d.Task.Digest) }),
		"task.vars":                            s.definition("shop", "a", func(d *definition.Definition) { d.Task.Vars = map[string]any{"not a name": 1} }),
		"is not here: put it first ":           s.definition("shop", "a", func(d *definition.Definition) { d.Deployment.VerifyFiles = map[string]string{"v.yaml": missing} }),
		"cannot be the name of an environment": s.definition("shop", "a", func(d *definition.Definition) { d.Name = "../shop" }),
	} {
		name := "shop"
		if d != nil && strings.HasPrefix(d.Name, "..") {
			name = "..%2Fshop"
		}
		s.send(422, strings.TrimSpace(says), "operator", name, "create", body{"definition": d})
	}
	assert.Empty(t, s.report("shop").Environment, "there is one")
}

func many(digest string) map[string]string {
	all := map[string]string{}
	for i := range 2001 {
		all[fmt.Sprintf("f%d", i)] = digest
	}
	return all
}

func TestACommandReachesNoOtherEnvironment(t *testing.T) {
	s := newShop(t)
	for _, name := range []string{"mine", "theirs"} {
		s.send(200, "", "admin", name, "create", body{"definition": s.definition(name, name)})
	}
	s.send(403, "", "of mine", "theirs", "deploy", body{"revision": 1})
	s.send(403, "", "of mine", "theirs", "delete", body{})
	s.send(403, "", "of mine", "theirs", "update", body{"base": 1, "definition": s.definition("theirs", "other")})
	s.send(403, "", "of mine", "new", "create", body{"definition": s.definition("new", "other")})
	s.send(403, "", "of mine", "mine", "adopt-from", body{"from": "theirs", "revision": 1})
	s.send(422, "", "of mine", "mine", "update", body{"base": 1, "definition": s.definition("theirs", "other")})
	s.send(200, "", "of mine", "mine", "deploy", body{"revision": 1})
	// What two would make on one host is refused, as it is where the log is.
	s.send(409, "each would undo", "admin", "twin", "create", body{"definition": s.definition("twin", "mine")})
}

func TestTheInventorySaysNothingOfEndpoints(t *testing.T) {
	s := newShop(t)
	body, _ := read(t, s.api, s.url, "/v1/inventory", "/v1/inventory")
	assert.Equal(t, "the inventory", body["identity"])
	assert.Contains(t, fmt.Sprint(body), "web2")
	assert.NotContains(t, fmt.Sprint(body), "ssh")
}
