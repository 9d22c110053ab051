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

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/identity"
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

func newShop(t *testing.T) *shop {
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
			return byRole(r)
		}
	})
	return s
}

// definition is one that carries a text, which is kept, as JSON has it.
func (s *shop) definition(name, text string, change ...func(*definition.Definition)) *definition.Definition {
	s.Helper()
	d, err := definition.Parse(name, fmt.Appendf(nil, definitionOf, name), inventory.CheckQuery)
	if err != nil {
		s.Fatal(err)
	}
	if d.Task.Digest, err = s.store.Keep([]byte(text)); err != nil {
		s.Fatal(err)
	}
	d.Task.Includes = map[string]string{}
	for _, c := range change {
		c(d)
	}
	return d
}

// send sends a command as somebody, and returns how it is answered.
func (s *shop) send(who, name, verb string, body any) (status int, said string) {
	s.Helper()
	status, _, said = ask(s.T, "POST", s.url+"/v1/environments/"+name+"/commands/"+verb, who, string(mustJSON(s.T, body)))
	return status, said
}

func (s *shop) report(name string) (r report.Report) {
	s.Helper()
	e := environments.New(s.log, nil)
	if err := e.Follow(context.Background(), 0); err != nil {
		s.Fatal(err)
	}
	r, err := reconcile.Get(e.Fold, name, (*environment.State).Report)
	if err != nil && !errors.Is(err, environments.ErrNoEnvironment) {
		s.Fatal(err)
	}
	return r
}

type body map[string]any

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Whoever sends a command says what is wanted; which hosts there are, the server knows.
func TestEnvironmentsAreMadeAndDeployedOnTheHostsOfTheServer(t *testing.T) {
	s := newShop(t)
	for _, step := range []struct {
		who, verb string
		body      any
		want      int
		says      string
	}{
		{"viewer", "create", body{"definition": s.definition("shop", "resources: {}")}, 403, "may not"},
		{"approver", "create", body{"definition": s.definition("shop", "resources: {}")}, 403, "may not"},
		{"operator", "create", body{"definition": s.definition("shop", "resources: {}")}, 200, "environment-created"},
		{"operator", "create", body{"definition": s.definition("shop", "resources: {}")}, 409, "already exists"},
		{"operator", "deploy", body{"revision": 7}, 404, "no such"},
		{"operator", "deploy", body{"revision": 1, "hosts": []string{"evil"}}, 422, "unknown field"},
		{"operator", "deploy", body{"revision": 1, "inventory": "mine"}, 422, "unknown field"},
		{"operator", "deploy", body{"revision": 1, "change": body{"min_healthy_percent": 900}}, 409, "min_healthy_percent"},
		{"operator", "deploy", body{"revision": 1, "reason": "first"}, 200, `"by":"the operator"`},
		{"operator", "update", body{"base": 1, "definition": s.definition("shop", "resources: {a: {}}")}, 200, "environment-updated"},
		{"operator", "update", body{"base": 1, "definition": s.definition("shop", "resources: {b: {}}")}, 409, "stale base"},
		{"operator", "cordon", body{"hosts": []string{"spare", "web1"}}, 200, "hosts-cordoned"},
		{"operator", "cordon", body{"hosts": []string{"wbe1"}}, 422, "lists none of that name"},
		{"operator", "cordon", body{}, 409, ""},
		{"operator", "uncordon", body{"hosts": []string{"web1"}}, 200, "hosts-uncordoned"},
		{"operator", "confirm", body{}, 409, ""},
		{"operator", "rollback", body{"revision": 2}, 409, "newer"},
		{"operator", "restart", body{"only": []string{"spare"}}, 409, ""},
		{"operator", "clean", body{}, 409, "not deleted"},
		{"operator", "adopt", body{"revision": 1}, 409, "not deleted"},
		{"operator", "delete", body{}, 200, "environment-deleted"},
		{"operator", "deploy", body{"revision": 1}, 404, "no such"},
	} {
		if status, said := s.send(step.who, "shop", step.verb, step.body); status != step.want || !strings.Contains(said, step.says) {
			t.Errorf("%s as %s: %d, want %d and %q: %.400s", step.verb, step.who, status, step.want, step.says, said)
		}
		if step.verb == "deploy" && step.want == 200 {
			r := s.report("shop")
			if len(r.Hosts) != 2 || r.Hosts[0].Host != "web1" || r.Hosts[1].Host != "web2" {
				t.Errorf("it is deployed to %+v", r.Hosts)
			}
		}
	}
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
		if status, said := s.send("operator", name, "create", body{"definition": d}); status != 422 || !strings.Contains(said, strings.TrimSpace(says)) {
			t.Errorf("%s: %d %.400s", says, status, said)
		}
	}
	if head := s.report("shop"); head.Environment != "" {
		t.Errorf("there is one: %+v", head)
	}
}

func many(digest string) map[string]string {
	all := map[string]string{}
	for i := range 2001 {
		all[fmt.Sprintf("f%d", i)] = digest
	}
	return all
}

// Who may do something with one environment may do nothing with another one, also not by a
// command for their own.
func TestACommandReachesNoOtherEnvironment(t *testing.T) {
	s := newShop(t)
	for _, name := range []string{"mine", "theirs"} {
		for verb, sent := range map[string]any{"create": body{"definition": s.definition(name, name)}} {
			if status, said := s.send("admin", name, verb, sent); status != 200 {
				t.Fatal(said)
			}
		}
	}
	for _, refused := range []struct {
		name, verb string
		body       any
	}{
		{"theirs", "deploy", body{"revision": 1}},
		{"theirs", "delete", body{}},
		{"theirs", "update", body{"base": 1, "definition": s.definition("theirs", "other")}},
		{"new", "create", body{"definition": s.definition("new", "other")}},
		{"mine", "adopt-from", body{"from": "theirs", "revision": 1}},
	} {
		if status, said := s.send("of mine", refused.name, refused.verb, refused.body); status != 403 {
			t.Errorf("%s %s: %d %s", refused.verb, refused.name, status, said)
		}
	}
	if status, said := s.send("of mine", "mine", "update", body{"base": 1, "definition": s.definition("theirs", "other")}); status != 422 {
		t.Errorf("%d %s", status, said)
	}
	if status, said := s.send("of mine", "mine", "deploy", body{"revision": 1}); status != 200 {
		t.Errorf("%d %s", status, said)
	}
	// What two would make on one host is refused, as it is where the log is.
	if status, said := s.send("admin", "twin", "create", body{"definition": s.definition("twin", "mine")}); status != 409 || !strings.Contains(said, "each would undo") {
		t.Errorf("%d %s", status, said)
	}
}

// Whoever may read sees which hosts there are, and not how they are reached.
func TestTheInventorySaysNothingOfEndpoints(t *testing.T) {
	s := newShop(t)
	status, _, said := ask(t, "GET", s.url+"/v1/inventory", "viewer", "")
	if status != 200 || !strings.Contains(said, `"identity":"the inventory"`) || !strings.Contains(said, "web2") || strings.Contains(said, "ssh") {
		t.Errorf("%d %s", status, said)
	}
	_, url := newServer(t, logOf(t, 0))
	if status, _, said := ask(t, "GET", url+"/v1/inventory", "viewer", ""); status != 409 || !strings.Contains(said, "no inventory") {
		t.Errorf("%d %s", status, said)
	}
}
