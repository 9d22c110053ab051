package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
	"github.com/deployster-go/deployster/resources/internal/managedfields"
	"github.com/deployster-go/deployster/resources/internal/protocoltest"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

const (
	webDeployment = "namespaces/default/deployments/web"
	webConfig     = "namespaces/default/configmaps/web"
)

func web() object {
	return object{"objects": []any{configMap("web", object{"color": "blue"}), deployment("web", 2, "web:1")}}
}

func TestLifeOfObjects(t *testing.T) {
	s := newServer(t)
	r, _ := s.resource(web())
	if found := r.Stale(t, "apply", "wait"); found.StaleState != nil || !strings.Contains(found.Actions[0].Description, "ConfigMap default/web (new), Deployment default/web (new)") {
		t.Errorf("%+v", found)
	}
	assert.Nil(t, s.changed(), "the state has made")
	state, said := r.Apply(t)
	if at(t, state, "objects", 1, "metadata", "uid") != "uid-2" || at(t, state, "objects", 1, "metadata", "managedFields") != nil {
		t.Errorf("state %v", state)
	}
	assert.Equal(t, []string{"apply " + webConfig, "apply " + webDeployment}, s.changed(), "it did")
	assert.Equal(t, "created ConfigMap default/web\ncreated Deployment default/web\nDeployment default/web is ready\n", said, "it said")
	r.Valid(t)
	r.Gone().Stale(t, "remove")
	r.Gone().Apply(t)
	assert.Equal(t, []string{"delete " + webDeployment, "delete " + webConfig}, s.changed(), "it removed")
	r.Stale(t, "apply", "wait")
}

func TestWhatOthersChangedIsDriftAndHealed(t *testing.T) {
	s := newServer(t)
	r, _ := s.resource(web())
	r.Apply(t)
	s.edit("apps/v1", "Deployment", webDeployment, "kubectl-edit", func(o object) {
		o["spec"].(object)["replicas"] = int64(5)
		o["spec"].(object)["paused"] = true // nobody has declared it
	})
	s.edit("v1", "ConfigMap", webConfig, "kubectl-edit", func(o object) { delete(o["data"].(object), "color") })
	found := r.Stale(t, "apply", "wait")
	if fmt.Sprint(at(t, found.StaleState, "objects", 1, "spec", "replicas")) != "5" || at(t, found.StaleState, "objects", 1, "spec", "paused") != nil {
		t.Errorf("it has found %v", found.StaleState)
	}
	if says := found.Actions[0].Description; says != "apply ConfigMap default/web (data), Deployment default/web (spec.replicas, changed by kubectl-edit)" &&
		says != "apply ConfigMap default/web (data.color), Deployment default/web (spec.replicas, changed by kubectl-edit)" {
		t.Errorf("it says %q", says)
	}
	r.Apply(t)
	spec := at(t, s.get(webDeployment), "spec")
	assert.True(t, at(t, spec, "replicas") == int64(2) && at(t, spec, "paused") == true, "it has become %v", spec)
}

func TestWhatOthersOwnedBeforeIsAConflict(t *testing.T) {
	s := newServer(t)
	r, k := s.resource(web())
	r.Apply(t)
	s.edit("apps/v1", "Deployment", webDeployment, "autoscaler", func(o object) { o["spec"].(object)["minReadySeconds"] = int64(5) })
	r.Valid(t)
	wanted := web()
	wanted["objects"].([]any)[1].(object)["spec"].(object)["minReadySeconds"] = 9
	r = r.With(wanted)
	r.Fails(t, `Deployment default/web: spec.minReadySeconds is managed by autoscaler: remove from the configuration what others are to manage, or set "force_conflicts: true"`, "state")
	r.Fails(t, "spec.minReadySeconds is managed by autoscaler", "apply")
	r.With(with(wanted, object{"force_conflicts": true})).Apply(t)
	r.Valid(t)
	// What was kept is of one object, and says nothing of another that took its name.
	k.kept["objects"].([]any)[1].(object)["uid"] = "another"
	s.edit("apps/v1", "Deployment", webDeployment, "autoscaler", func(o object) { o["spec"].(object)["minReadySeconds"] = int64(5) })
	r.Fails(t, "spec.minReadySeconds is managed by autoscaler", "state")
}

func TestWhatIsNoLongerDeclaredIsRemoved(t *testing.T) {
	s := newServer(t)
	wanted := web()
	wanted["objects"].([]any)[1].(object)["spec"].(object)["minReadySeconds"] = 9
	r, k := s.resource(wanted)
	r.Apply(t)
	fewer := object{"objects": []any{deployment("web", 2, "web:1")}}
	r = r.With(fewer)
	found := r.Stale(t, "apply", "prune", "wait")
	assert.True(t, !found.Actions[0].Destroys && found.Actions[1].Destroys, "%+v", found.Actions)
	if at(t, found.StaleState, "no_longer_declared", 0) != "ConfigMap default/web" || !strings.Contains(found.Actions[0].Description, "spec.minReadySeconds, no longer declared") {
		t.Errorf("%+v", found)
	}
	s.changed()
	r.Apply(t)
	if did := s.changed(); !slices.Equal(did, []string{"apply " + webDeployment, "delete " + webConfig}) || at(t, s.get(webDeployment), "spec", "minReadySeconds") != nil {
		t.Errorf("it did %q, and there is %v", did, s.get(webDeployment))
	}
	assert.Len(t, k.kept["objects"].([]any), 1, "it keeps")
}

func TestWhatAnInterruptedApplyMadeIsFound(t *testing.T) {
	s := newServer(t)
	r, k := s.resource(web())
	r.State(t) // what is to be made is kept before it is
	kept := k.kept
	r.Invoke(t, nil, "apply")
	k.kept = kept // and nobody hears of its end
	r = r.With(object{"manifest": configMap("other", nil)})
	r.Stale(t, "apply", "prune")
	r.Apply(t)
	assert.True(t, s.get(webDeployment) == nil && s.get(webConfig) == nil, "what the interrupted apply made is left")
}

// Objects are identified by their cluster and by what they are called there; by their uid if the cluster is not told.
func TestIdentities(t *testing.T) {
	s := newServer(t)
	s.kinds["apps/v2"] = s.kinds["apps/v1"]
	s.edit("v1", "Namespace", "namespaces/kube-system", "kube-apiserver", func(object) {})
	s.edit("v1", "Namespace", "namespaces/shop", "kubectl", func(object) {})
	r, _ := s.resource(object{"objects": []any{configMap("web", nil), deployment("web", 2, "web:1")}})
	named := func(group, kind, namespace, name string) object {
		return object{"cluster": "uid-1", "group": group, "kind": kind, "namespace": namespace, "name": name}
	}
	want := []object{named("", "ConfigMap", "default", "web"), named("apps", "Deployment", "default", "web")}
	assert.Equal(t, want, r.State(t).Identities, "before it is there")
	r.Apply(t)
	assert.Equal(t, want, r.State(t).Identities)
	newer := deployment("web", 2, "web:1")
	newer["apiVersion"] = "apps/v2"
	newerOnly, _ := s.resource(object{"manifest": newer})
	assert.Equal(t, want[1:], newerOnly.State(t).Identities, "of another version")
	elsewhere, _ := s.resource(object{"namespace": "shop", "manifest": configMap("web", nil)})
	assert.Equal(t, []object{named("", "ConfigMap", "shop", "web")}, elsewhere.State(t).Identities)
	s.refuse = func(_, path string) error {
		if strings.HasSuffix(path, "/kube-system") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil)
		}
		return nil
	}
	assert.Equal(t, []object{{"uid": "uid-3"}, {"uid": "uid-4"}}, r.State(t).Identities)
}

func TestWhatOthersMadeIsNotTakenOver(t *testing.T) {
	s := newServer(t)
	s.edit("v1", "ConfigMap", webConfig, "kubectl-create", func(o object) { o["data"] = object{"color": "blue"} })
	r, k := s.resource(object{"manifest": configMap("web", object{"color": "blue"})})
	want := `ConfigMap default/web is there already, and this resource has not made it (its field managers are kubectl-create): give yours another name, or set "adopt: true"`
	r.Fails(t, want, "state")
	r.Fails(t, want, "apply")
	adopting := r.With(with(r.Config.(object), object{"adopt": true}))
	for _, one := range []typetest.Resource{r, adopting} {
		one.Gone().Valid(t) // and what it has not made it does not remove
		code, _, stderr := one.Gone().Invoke(t, nil, "remove")
		assert.True(t, code == 0 && strings.Contains(stderr, "ConfigMap default/web is left as it is: this resource has not made it"),
			"it ended with %d and said %q", code, stderr)
	}
	adopting.Stale(t, "apply")
	adopting.Apply(t)
	r.Valid(t) // it is ours from then on
	other, o := s.resource(r.Config.(object))
	o.id = "01J9Z3NDEKTSV4RRFFQ69G5FAV/other"
	theirs := other.State(t)
	assert.Equal(t, protocol.Conflict, theirs.Status, "%+v", theirs)
	assert.Contains(t, theirs.Message, "belongs to another resource (01J9Z3NDEKTSV4RRFFQ69G5FAV/web)")
	assert.Equal(t, r.State(t).Identities, theirs.Identities, "it is the same object")
	other.Fails(t, "belongs to another resource (01J9Z3NDEKTSV4RRFFQ69G5FAV/web)", "apply")
	// Somebody deletes it, and makes another one.
	delete(s.objects, webConfig)
	s.edit("v1", "ConfigMap", webConfig, "kubectl-create", func(o object) { o["data"] = object{"color": "blue"} })
	r.Fails(t, want, "state")
	// Whose fields are not known by now is still known by its uid.
	k.kept["objects"].([]any)[0].(object)["uid"] = "uid-2"
	r.Stale(t, "apply")
}

func TestWhatCannotBeChangedIsReplacedWhereThatIsConfigured(t *testing.T) {
	s := newServer(t)
	s.changes = func(before, after object) error {
		if at(t, after, "spec", "selector") == "wrong" {
			return invalid("spec.selector", "no selector")
		}
		if before == nil && at(t, after, "spec", "selector") == "elsewhere" {
			return invalid("spec.template", "no template")
		}
		if before == nil || at(t, before, "spec", "selector") == at(t, after, "spec", "selector") {
			return nil
		}
		return invalid("spec.selector", "field is immutable")
	}
	config := object{"manifest": deployment("web", 1, "web:1")}
	spec := config["manifest"].(object)["spec"].(object)
	spec["selector"] = "a"
	r, _ := s.resource(config)
	r.Apply(t)
	spec["selector"] = "b"
	r.Fails(t, `Deployment default/web: spec.selector cannot be changed while it exists: leave it as it is, or set "replace: true"`, "state")
	r.Fails(t, "spec.selector", "apply")
	r = r.With(with(config, object{"replace": true}))
	found := r.Stale(t, "apply", "wait")
	if at(t, found.StaleState, "manifest", "spec", "selector") != "a" || !found.Actions[0].Destroys || !strings.Contains(found.Actions[0].Description, "deleted and made anew: spec.selector cannot be changed") {
		t.Errorf("%+v", found)
	}
	s.changed()
	r.Apply(t)
	assert.Equal(t, []string{"delete " + webDeployment, "apply " + webDeployment}, s.changed(), "it did")
	// What would not be better as a new one is not deleted.
	spec["selector"] = "wrong"
	r.Fails(t, "spec.selector: Invalid value: \"x\": no selector", "state")
	r.Fails(t, "spec.selector: Invalid value: \"x\": no selector", "apply")
	// What would be wrong with a new one is said, too.
	spec["selector"] = "elsewhere"
	r.Fails(t, "spec.selector: Invalid value: \"x\": field is immutable", "state")
	r.Fails(t, "spec.template: Invalid value: \"x\": no template", "state")
	assert.Nil(t, s.changed(), "it did")
}

func TestSecretsAreComparedAsTheyAreDeclared(t *testing.T) {
	s := newServer(t)
	secret := object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "db"},
		"stringData": object{"password": "s3cret"}, "data": object{"key": "AAAA"},
	}
	r, _ := s.resource(object{"secrets": []any{secret}})
	r.Apply(t)
	const path = "namespaces/default/secrets/db"
	data := at(t, s.get(path), "data")
	assert.True(t, at(t, data, "password") == "czNjcmV0" && s.get(path)["stringData"] == nil, "the cluster has %v", s.get(path))
	s.edit("v1", "Secret", path, "kubectl-edit", func(o object) { o["data"].(object)["password"] = "b3RoZXI=" })
	found := r.Stale(t, "apply")
	if at(t, found.StaleState, "secrets", 0, "stringData", "password") != "other" || at(t, found.StaleState, "secrets", 0, "data", "key") != "AAAA" {
		t.Errorf("it has found %v", found.StaleState)
	}
	assert.Equal(t, "apply Secret default/db (stringData.password, changed by kubectl-edit)", found.Actions[0].Description, "it says")
	r.Apply(t)
}

func TestNamespacesAndDefinitionsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.settle = func(o object) {
			rolledOut(o)
			if o["kind"] == "CustomResourceDefinition" {
				o["status"] = object{"conditions": []any{object{"type": "Established", "status": "True"}}}
			}
		}
		r, _ := s.resource(object{"objects": []any{
			object{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": object{"name": "w", "namespace": "shop"}, "spec": object{"size": 3}},
			object{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "widgets.example.com"},
				"spec": object{"group": "example.com", "scope": "Namespaced", "names": object{"kind": "Widget", "plural": "widgets"}},
			},
			object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}},
		}})
		r.Stale(t, "apply", "wait")
		r.Apply(t)
		want := []string{"apply namespaces/shop", "apply customresourcedefinitions/widgets.example.com", "apply namespaces/shop/widgets/w"}
		assert.Equal(t, want, s.changed(), "it did")
		r.Gone().Apply(t)
		want = []string{"delete namespaces/shop/widgets/w", "delete customresourcedefinitions/widgets.example.com", "delete namespaces/shop"}
		assert.Equal(t, want, s.changed(), "it removed")
	})
}

func invalid(at, why string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Object"}, "it", field.ErrorList{field.Invalid(field.NewPath(at), "x", why)})
}

func TestObjectsKeepToTheProtocol(t *testing.T) {
	s := newServer(t)
	protocoltest.Check(t, newType(s.connect), web(), object{"manifest": configMap("other", object{"color": "red"})}, map[string]string{"kubeconfig": t.TempDir()})
}

func TestWhatDeclaredObjectsLiveInIsNotRemoved(t *testing.T) {
	namespace := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}}
	definition := object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "widgets.example.com"},
		"spec": object{"group": "example.com", "scope": "Namespaced", "names": object{"kind": "Widget", "plural": "widgets"}},
	}
	widget := object{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": object{"name": "w", "namespace": "shop"}}
	for name, tc := range map[string]struct {
		without int
		want    string
	}{
		"its namespace":              {0, "Namespace shop is no longer declared, and Widget shop/w (objects[1]), which is, would go with it: declare it again"},
		"the definition of its kind": {1, "CustomResourceDefinition widgets.example.com is no longer declared, and Widget shop/w (objects[1]), which is, would go with it: declare it again"},
	} {
		s := newServer(t)
		s.settle = func(o object) {
			rolledOut(o)
			if o["kind"] == "CustomResourceDefinition" {
				o["status"] = object{"conditions": []any{object{"type": "Established", "status": "True"}}}
			}
		}
		all := []any{namespace, definition, widget}
		r, _ := s.resource(object{"objects": all})
		r.Apply(t)
		s.changed()
		fewer := r.With(object{"objects": slices.Delete(slices.Clone(all), tc.without, tc.without+1)})
		fewer.Fails(t, tc.want, "state")
		fewer.Fails(t, tc.want, "prune")
		did := s.changed()
		assert.True(t, did == nil, "%s: it did %q", name, did)
		r.Valid(t)
		r.With(object{"objects": []any{configMap("web", nil)}}).Apply(t) // nothing that is declared is in it
		assert.True(t, s.get("namespaces/shop") == nil && s.get("customresourcedefinitions/widgets.example.com") == nil,
			"%s: it is left", name)
	}
}

// handedOver is a world in which b has taken over what a has made.
func handedOver(t *testing.T) (s *server, a, b typetest.Resource, bID string) {
	s = newServer(t)
	a, _ = s.resource(object{"manifest": configMap("web", object{"color": "blue"})})
	a.Apply(t)
	b, k := s.resource(object{"manifest": configMap("web", object{"color": "blue"}), "adopt": true})
	k.id = "01J9Z3NDEKTSV4RRFFQ69G5FAV/b"
	b.Apply(t)
	s.changed()
	return s, a, b, k.id
}

func TestWhatAnotherResourceTookOverIsLeftToIt(t *testing.T) {
	for name, leave := range map[string]func(a typetest.Resource) (action string, _ typetest.Resource){
		"dropped": func(a typetest.Resource) (string, typetest.Resource) {
			return "prune", a.With(object{"manifest": configMap("other", nil)})
		},
		"destroyed": func(a typetest.Resource) (string, typetest.Resource) { return "remove", a.Gone() },
	} {
		s, a, b, taker := handedOver(t)
		action, a := leave(a)
		actions := a.State(t).Actions
		if says := actions[len(actions)-1].Description; actions[len(actions)-1].Name != action || says != "let go of ConfigMap default/web (which "+taker+" has applied, too)" {
			t.Errorf("%s: it says %+v", name, actions)
		}
		_, _, said := a.Invoke(t, nil, action)
		want := "ConfigMap default/web is left as it is, and forgotten: another resource (" + taker + ") has applied it, too"
		assert.Contains(t, said, want, "%s: it said %q, want %q", name, said, want)
		did := s.changed()
		assert.True(t, slices.Equal(did, []string{"patch " + webConfig}) && at(t, s.get(webConfig), "data", "color") == "blue",
			"%s: it did %q to %v", name, did, s.get(webConfig))
		a.Apply(t)
		a.Valid(t)
		b.Valid(t)
		b.Gone().Apply(t) // it is that resource's alone by now
		assert.True(t, s.get(webConfig) == nil, "%s: it is left for ever", name)
	}
}

// What others change all the while is looked at again, and no one's fields are lost.
func TestWhatIsLetGoOfMayBeChangedMeanwhile(t *testing.T) {
	s, a, _, _ := handedOver(t)
	changes := 0
	s.refuse = func(method, path string) error {
		if method == "PATCH" && strings.HasSuffix(path, "/web") && changes < 3 {
			changes++
			return apierrors.NewConflict(schema.GroupResource{}, path, errors.New("the object has been modified"))
		}
		return nil
	}
	a.Gone().Apply(t)
	managers := managedfields.Managers(s.get(webConfig))
	assert.True(t, changes == 3 && slices.Equal(managers, []string{managerPrefix + "01J9Z3NDEKTSV4RRFFQ69G5FAV/b"}),
		"after %d changes it has %q", changes, managers)
	s, a, _, _ = handedOver(t)
	s.refuse = func(method, path string) error {
		if method == "PATCH" {
			return apierrors.NewConflict(schema.GroupResource{}, path, errors.New("the object has been modified"))
		}
		return nil
	}
	a.Gone().Fails(t, "let go of configmaps default/web: Operation cannot be fulfilled", "remove")
	s.refuse = func(method, path string) error {
		if method == "PATCH" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "web", errors.New(`User "u" cannot patch resource "configmaps" in API group "" in the namespace "default"`))
		}
		return nil
	}
	a.Gone().Fails(t, "grant the verb patch on configmaps in namespace default", "remove")
}

// A namespace that another resource has taken over does not go, and so nothing goes with it.
func TestANamespaceThatIsHandedOverHoldsNothingUp(t *testing.T) {
	s := newServer(t)
	namespace := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}}
	inside := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "web", "namespace": "shop"}}
	a, _ := s.resource(object{"objects": []any{namespace, inside}})
	a.Apply(t)
	b, k := s.resource(object{"manifest": namespace, "adopt": true})
	k.id = "01J9Z3NDEKTSV4RRFFQ69G5FAV/b"
	b.Apply(t)
	a = a.With(object{"manifest": inside})
	a.Stale(t, "prune")
	a.Apply(t)
	b.Valid(t)
	assert.True(t, s.get("namespaces/shop") != nil && s.get("namespaces/shop/configmaps/web") != nil, "something is gone")
}

func TestWhatWasAppliedIsKeptAtOnce(t *testing.T) {
	s := newServer(t)
	r, k := s.resource(web())
	r.State(t)
	s.refuse = func(method, path string) error {
		if method == "PATCH" && strings.HasSuffix(path, "deployments/web") {
			return invalid("spec", "no")
		}
		return nil
	}
	r.Fails(t, "spec: Invalid value", "apply")
	kept, _ := k.kept["objects"].([]any)
	assert.True(t, len(kept) == 2 && at(t, kept, 0, "uid") == "uid-1" && at(t, kept, 0, "fields") != nil && at(t, kept, 1, "uid") == nil,
		"it keeps %v", k.kept)
	s.refuse = nil
	r.Invoke(t, nil, "apply")
	kept, _ = k.kept["objects"].([]any)
	assert.True(t, len(kept) == 2 && at(t, kept, 1, "uid") == "uid-2" && at(t, kept, 1, "fields") != nil, "it keeps %v", k.kept)
}

func TestWhoAlsoOwnsAFieldHasNotChangedIt(t *testing.T) {
	s := newServer(t)
	a, _ := s.resource(web())
	a.Apply(t)
	b, k := s.resource(object{"manifest": deployment("web", 2, "web:1"), "adopt": true})
	k.id = "01J9Z3NDEKTSV4RRFFQ69G5FAV/b"
	b.Apply(t)
	a = a.With(object{"objects": []any{configMap("web", object{"color": "blue"}), deployment("web", 3, "web:1")}})
	says := a.Stale(t, "apply", "wait").Actions[0].Description
	assert.True(t, says == "apply Deployment default/web (spec.replicas, owned also by deployster/"+k.id+")", "it says %q", says)
}

func TestAnObjectOfTwoGroupsIsOne(t *testing.T) {
	s := newServer(t)
	s.kinds["extensions/v1beta1"] = s.kinds["apps/v1"]
	r, k := s.resource(web())
	r.Apply(t)
	s.changed()
	k.kept["objects"] = append(k.kept["objects"].([]any), object{"apiVersion": "extensions/v1beta1", "kind": "Deployment", "namespace": "default", "name": "web"})
	kept := k.kept
	r.Valid(t)
	k.kept = kept
	r.Invoke(t, nil, "prune")
	r.Gone().Apply(t)
	did := s.changed()
	assert.True(t, slices.Equal(did, []string{"delete " + webDeployment, "delete " + webConfig}), "it did %q", did)
}

func TestWhatIsNotReadyIsWaitedForWithABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.settle = nil
		config := object{"manifest": deployment("web", 2, "web:1"), "wait": object{"timeout": "90s"}}
		r, _ := s.resource(config)
		r.Stale(t, "apply", "wait")
		r.Invoke(t, nil, "apply")
		if found := r.Stale(t, "wait"); found.Actions[0].Description != "wait at most 1m30s until ready: Deployment default/web (its controller has not seen the change yet)" {
			t.Errorf("%+v", found)
		}
		begun := time.Now()
		r.Fails(t, `waited for 1m30s until all is ready: Deployment default/web: its controller has not seen the change yet; see`, "wait")
		took := time.Since(begun)
		assert.True(t, took >= 90*time.Second && took <= 92*time.Second, "it waited for %s", took)
		time.AfterFunc(time.Minute, func() { s.edit("apps/v1", "Deployment", webDeployment, "controller", rolledOut) })
		begun = time.Now()
		r.Apply(t)
		took = time.Since(begun)
		assert.True(t, took >= time.Minute && took <= 63*time.Second, "it waited for %s", took)
		r.With(with(config, object{"wait": object{"for": "none"}})).Valid(t)
	})
}

func TestNothingIsWaitedForWhereThatIsConfigured(t *testing.T) {
	s := newServer(t)
	s.settle = nil
	r, _ := s.resource(with(web(), object{"wait": object{"for": "none"}}))
	r.Stale(t, "apply")
	r.Apply(t)
}

func TestAServerThatIsStartedAnewIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		r, _ := s.resource(web())
		r.Invoke(t, nil, "apply")
		until := time.Now().Add(10 * time.Second)
		s.refuse = func(_, path string) error {
			if strings.HasSuffix(path, "/web") && time.Now().Before(until) {
				return apierrors.NewInternalError(errors.New("etcd has no leader"))
			}
			return nil
		}
		code, _, stderr := r.Invoke(t, nil, "wait")
		assert.True(t, code == 0, stderr)
	})
}

func TestAServerThatDoesNotAnswerIsWaitedForWithABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		r, _ := s.resource(with(web(), object{"wait": object{"timeout": "10s"}}))
		r.Invoke(t, nil, "apply")
		s.instead = http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
			if strings.HasSuffix(asked.URL.Path, "/web") {
				<-asked.Context().Done()
			}
			s.ServeHTTP(w, asked)
		})
		begun := time.Now()
		r.Fails(t, "waited for 10s until all is ready: the cluster does not answer; see", "wait")
		took := time.Since(begun)
		assert.True(t, took == 10*time.Second, "it waited for %s", took)
		// Who does not want to wait any longer is another end.
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		time.AfterFunc(time.Second, func() { cancel(stopped) })
		err := (&manager{}).until(ctx, "never", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		assert.ErrorIs(t, err, stopped)
	})
}

func TestAServerWithoutAnythingIsNoCluster(t *testing.T) {
	s := newServer(t)
	r, k := s.resource(web())
	r.Apply(t)
	s.instead = http.NotFoundHandler()
	const want = "what answers is no API server"
	r.Fails(t, want, "state")
	r.Fails(t, want, "apply")
	r.Fails(t, want, "prune")
	r.Gone().Fails(t, want, "state")
	r.Gone().Fails(t, want, "remove")
	kept, _ := k.kept["objects"].([]any)
	assert.True(t, len(kept) == 2, "it keeps %v", k.kept)
}

func TestANamespaceThatEndsIsMadeAnew(t *testing.T) {
	s := newServer(t)
	s.edit("v1", "Namespace", "namespaces/shop", "kubectl-create", func(object) {})
	now := metav1.Unix(1, 0)
	s.objects["namespaces/shop"].SetDeletionTimestamp(&now)
	s.refuse = func(method, path string) error {
		if method != "PATCH" || !strings.HasSuffix(path, "/configmaps/web") {
			return nil
		}
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "web", errors.New("namespace shop is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Message: "namespace shop is being terminated"}}
		return err
	}
	shop := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}}
	r, _ := s.resource(object{"namespace": "shop", "adopt": true, "objects": []any{shop, configMap("web", nil)}})
	says := r.Stale(t, "apply").Actions[0].Description
	assert.True(t, says == "apply Namespace shop (once the one that is being deleted is gone), ConfigMap shop/web (new)",
		"it says %q", says)
	r.With(object{"namespace": "shop", "manifest": configMap("web", nil)}).Fails(t, "namespace shop is being terminated", "state")
}

func TestWhatHasFailedIsNotWaitedFor(t *testing.T) {
	s := newServer(t)
	s.settle = func(o object) {
		o["status"] = object{"conditions": []any{object{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}}}
	}
	r, _ := s.resource(object{"manifest": object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": "migrate"}, "spec": object{}}})
	r.State(t)
	r.Invoke(t, nil, "apply")
	r.Stale(t, "wait")
	r.Fails(t, "Job default/migrate will not be ready: BackoffLimitExceeded", "wait")
	delete(s.objects, "namespaces/default/jobs/migrate")
	r.Fails(t, "Job default/migrate was deleted while it was waited for", "wait")
}

func TestAnObjectThatDoesNotGoIsWaitedForWithABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.keeps = true
		r, _ := s.resource(object{"manifest": configMap("web", nil), "wait": object{"timeout": "10s"}})
		r.Apply(t)
		r.Gone().Stale(t, "remove")
		r.Gone().Fails(t, "waited for 10s until ConfigMap default/web is gone: it has the finalizers foregroundDeletion", "remove")
		// It is made again once it is gone.
		found := r.Stale(t, "apply")
		assert.Contains(t, found.Actions[0].Description, "once the one that is being deleted is gone", "%+v", found)
		time.AfterFunc(5*time.Second, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.gone(webConfig)
		})
		r.Apply(t)
		did := s.changed()
		assert.True(t, slices.Equal(did, []string{"apply " + webConfig, "delete " + webConfig, "apply " + webConfig}), "it did %q", did)
	})
}

func TestAnotherClusterIsNotTakenForTheOneBefore(t *testing.T) {
	s := newServer(t)
	r, k := s.resource(web())
	r.Apply(t)
	k.kept["server"] = "http://elsewhere"
	r.Valid(t) // it has the objects: the same cluster at another address
	assert.True(t, k.kept["server"] == "http://cluster", "it keeps %v", k.kept["server"])
	k.kept["server"] = "http://elsewhere"
	s.objects = nil
	want := "what this resource has made is in the cluster at http://elsewhere, and that at http://cluster has nothing of it: destroy it there first, or have it forgotten with `deployster state forget web`"
	r.Fails(t, want, "state")
	r.Gone().Fails(t, want, "state")
	r.Gone().Fails(t, want, "remove")
}

func TestRightsThatAreMissingAreNamed(t *testing.T) {
	s := newServer(t)
	s.refuse = func(method, path string) error {
		if method != "PATCH" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web",
			errors.New(`User "ci" cannot patch resource "deployments" in API group "apps" in the namespace "default"`))
	}
	r, _ := s.resource(object{"manifest": deployment("web", 1, "web:1")})
	r.Fails(t, "grant the verb patch on deployments.apps in namespace default", "state")
}

func TestWhatIsKeptFits(t *testing.T) {
	var m memory
	for range 200 {
		m.Objects = append(m.Objects, remembered{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings", UID: "01234567-89ab-cdef", Fields: make([]byte, 600)})
	}
	m.Objects[7].Fields = make([]byte, 6) // the others have more
	fits, err := m.bounded()
	if err != nil || len(fits.Objects) != 200 || fits.Objects[0].Fields != nil || fits.Objects[7].Fields == nil || fits.Objects[199].Fields == nil || m.Objects[0].Fields == nil {
		t.Errorf("%d objects, %v", len(fits.Objects), err)
	}
	text, err := json.Marshal(fits)
	assert.True(t, err == nil && len(text) <= protocol.MaxKeep && len(text) >= protocol.MaxKeep-1000, "it has %d bytes, %v", len(text), err)
	for range 600 {
		m.Objects = append(m.Objects, m.Objects[0])
	}
	_, err = m.bounded()
	assert.ErrorContains(t, err, "800 objects are more than can be kept of one resource", err)
	before := remembered{Fields: fieldsOf(remembered{}, []string{".a", ".b"}, nil)}
	after := remembered{Fields: fieldsOf(before, []string{".c"}, []string{".b", ".d"})}
	for field, want := range map[string]bool{".a": false, ".b": true, ".c": true, ".d": false} {
		assert.True(t, after.managed(field) == want, "%s is managed: %v", field, !want)
	}
}

func TestObjectsThatCannotBeMeantAreRefused(t *testing.T) {
	named := func(changes object) object { return with(configMap("web", nil), changes) }
	meta := func(changes object) object { return named(object{"metadata": with(object{"name": "web"}, changes)}) }
	for name, tc := range map[string]struct {
		config object
		want   string
	}{
		"nothing":                      {object{}, "there is no object"},
		"a text":                       {object{"manifest": "kind: ConfigMap"}, "manifest: an object is a mapping"},
		"a path as a name":             {object{"manifest": meta(object{"name": "../../pods/web"})}, "metadata.name must be text like"},
		"the parent as a name":         {object{"manifest": meta(object{"name": ".."})}, "metadata.name must be text like"},
		"an escaped path":              {object{"manifest": meta(object{"name": "a%2fb"})}, "metadata.name must be text like"},
		"a number as a name":           {object{"manifest": meta(object{"name": 1})}, "metadata.name must be text like"},
		"a path as a namespace":        {object{"manifest": meta(object{"namespace": "a/b"})}, "metadata.namespace must be text like"},
		"a path as a version":          {object{"manifest": named(object{"apiVersion": "../v1"})}, "apiVersion must be text like"},
		"a query as a version":         {object{"manifest": named(object{"apiVersion": "v1?dryRun=All"})}, "apiVersion must be text like"},
		"no kind":                      {object{"manifest": named(object{"kind": nil})}, "kind must be text like"},
		"a Secret among objects":       {object{"objects": []any{named(object{"kind": "Secret"})}}, `objects[0]: the kind Secret does not belong here`},
		"another among Secrets":        {object{"secrets": []any{named(nil)}}, `secrets[0]: the kind ConfigMap does not belong here`},
		"a list":                       {object{"manifest": named(object{"kind": "ConfigMapList", "items": []any{}})}, `put its items into the list "objects"`},
		"what the cluster has":         {object{"manifest": meta(object{"resourceVersion": "7"})}, "metadata.resourceVersion of ConfigMap web cannot be declared"},
		"a kind that is not there":     {object{"manifest": named(object{"kind": "Widget"})}, "manifest: kind Widget of v1: the cluster does not know it"},
		"a version that is not there":  {object{"manifest": named(object{"apiVersion": "example.com/v1"})}, "check both for typing errors, or install what defines it first"},
		"two of a name":                {object{"namespace": "default", "objects": []any{named(nil), meta(object{"namespace": "default"})}}, "objects[0] and objects[1] are both ConfigMap default/web"},
		"a namespace within another":   {object{"manifest": object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "a", "namespace": "b"}}}, "Namespace a is in no namespace"},
		"a namespace that is not here": {object{"namespace": "nowhere", "manifest": named(nil)}, "declare the namespace, too, or make it first"},
		"a wait without an end":        {object{"manifest": named(nil), "wait": object{"timeout": "0s"}}, "a duration must be positive"},
		"a typing error":               {object{"manifest": named(nil), "adpot": true}, `unknown field "adpot"`},
	} {
		s := newServer(t)
		r, _ := s.resource(tc.config)
		code, _, stderr := r.Invoke(t, nil, "state")
		assert.True(t, code == 1 && strings.Contains(stderr, tc.want), "%s: %d, %s, want %s", name, code, stderr, tc.want)
		did := s.changed()
		assert.True(t, did == nil, "%s: it did %q", name, did)
	}
}

func TestLargeObjectsAreShownByTheirNames(t *testing.T) {
	live := object{
		"apiVersion": "v1", "kind": "ConfigMap", "data": object{"a": strings.Repeat("x", maxShown)},
		"metadata": object{"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7"},
	}
	if got := shown(live); got["data"] != nil || kubeapi.Text(got, "metadata", "uid") != "c" || kubeapi.At(got, "metadata", "resourceVersion") != nil {
		t.Errorf("%.200v", got)
	}
}

func TestWhatAnnotationsRepeatIsNotShown(t *testing.T) {
	annotations := object{lastApplied: `{"data": {"password": "s3cret"}}`, "team": "shop"}
	for kind, want := range map[string]string{"Secret": "", "ConfigMap": "shop"} {
		live := object{"kind": kind, "metadata": object{"name": "a", "annotations": annotations}}
		got, _ := kubeapi.At(shown(live), "metadata", "annotations").(object)
		assert.True(t, len(got) == 1 && got["team"] == want && len(annotations) == 2, "%s: %v", kind, got)
	}
}

func TestManagersFit(t *testing.T) {
	for _, tc := range []struct{ id, want string }{
		{"01J9Z3NDEKTSV4RRFFQ69G5FAV/web@host1", "deployster/01J9Z3NDEKTSV4RRFFQ69G5FAV/web@host1"},
		{strings.Repeat("x", 118), ""},
	} {
		got := managerOf(tc.id)
		assert.True(t, len(got) <= 128 && (tc.id[0] != '0' || got == tc.want) && got != managerOf(tc.id+"x"), "%s: %s", tc.id, got)
	}
}

// keeping gives a type what the log of a deployment gives it: the id of a resource, and what was
// kept of it.
type keeping struct {
	typetest.Type
	id   string
	kept map[string]any
}

func (k *keeping) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var input map[string]any
	if err := json.NewDecoder(stdin).Decode(&input); err != nil {
		return -1
	}
	input["id"], input["kept"] = k.id, k.kept
	text, err := json.Marshal(input)
	if err != nil {
		return -1
	}
	var out bytes.Buffer
	isState := len(args) == 1 && args[0] == "state"
	code := k.Type.Run(ctx, args, bytes.NewReader(text), &out, stderr)
	if !isState {
		return k.tell(&out, stdout, code)
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return -1
	}
	if code == 0 {
		answer, err := protocol.DecodeState(out.Bytes())
		if err != nil {
			return -1
		}
		if answer.Keep != nil {
			k.kept = answer.Keep
		}
	}
	return code
}

// tell prints what an action said without its last line, where that is to be kept.
func (k *keeping) tell(out *bytes.Buffer, stdout io.Writer, code int) int {
	said := out.String()
	before, last := "", strings.TrimSuffix(said, "\n")
	if i := strings.LastIndex(last, "\n"); i >= 0 {
		before, last = last[:i+1], last[i+1:]
	}
	kept, ok, err := protocol.DecodeKeep([]byte(last))
	if err != nil {
		return -1
	}
	if ok {
		k.kept, said = kept, before
	}
	if _, err := io.WriteString(stdout, said); err != nil {
		return -1
	}
	return code
}

func (s *server) resource(config object) (typetest.Resource, *keeping) {
	k := &keeping{Type: newType(s.connect), id: "01J9Z3NDEKTSV4RRFFQ69G5FAV/web"}
	return typetest.Resource{Type: k, Name: "web", Config: config}, k
}

func with(config object, changes object) object {
	config = maps.Clone(config)
	maps.Copy(config, changes)
	return config
}

func configMap(name string, data object) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}, "data": data}
}

func deployment(name string, replicas int, image string) object {
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": name},
		"spec": object{"replicas": replicas, "template": object{"image": image}},
	}
}

// at is a value within what JSON makes of something.
func at(t *testing.T, value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			members, _ := value.(map[string]any)
			value = members[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}
