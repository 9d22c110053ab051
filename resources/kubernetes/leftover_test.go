package kubernetes

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/resources/internal/managedfields"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

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
