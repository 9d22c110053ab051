package kubernetes

import (
	"slices"
	"strings"
	"testing"

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
		if did := s.changed(); did != nil {
			t.Errorf("%s: it did %q", name, did)
		}
		r.Valid(t)
		r.With(object{"objects": []any{configMap("web", nil)}}).Apply(t) // nothing that is declared is in it
		if s.get("namespaces/shop") != nil || s.get("customresourcedefinitions/widgets.example.com") != nil {
			t.Errorf("%s: it is left", name)
		}
	}
}

func TestWhatAnotherResourceTookOverIsLeftToIt(t *testing.T) {
	for name, leave := range map[string]func(a typetest.Resource) string{
		"dropped": func(a typetest.Resource) string {
			a = a.With(object{"manifest": configMap("other", nil)})
			_, _, stderr := a.Invoke(t, nil, "state")
			a.Apply(t)
			return stderr
		},
		"destroyed": func(a typetest.Resource) string {
			a.Gone().Valid(t)
			_, _, stderr := a.Gone().Invoke(t, nil, "remove")
			return stderr
		},
	} {
		s := newServer(t)
		a, _ := s.resource(object{"manifest": configMap("web", object{"color": "blue"})})
		a.Apply(t)
		b, k := s.resource(object{"manifest": configMap("web", object{"color": "blue"}), "adopt": true})
		k.id = "01J9Z3NDEKTSV4RRFFQ69G5FAV/b"
		b.Apply(t)
		said := leave(a)
		if want := "ConfigMap default/web is left as it is, and forgotten: another resource (" + k.id + ") has applied it, too"; !strings.Contains(said, want) {
			t.Errorf("%s: it said %q, want %q", name, said, want)
		}
		if s.get(webConfig) == nil {
			t.Errorf("%s: it is gone", name)
		}
		b.Valid(t)
	}
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
	if len(kept) != 2 || at(t, kept, 0, "uid") != "uid-1" || at(t, kept, 0, "fields") == nil || at(t, kept, 1, "uid") != nil {
		t.Errorf("it keeps %v", k.kept)
	}
	s.refuse = nil
	r.Invoke(t, nil, "apply")
	kept, _ = k.kept["objects"].([]any)
	if len(kept) != 2 || at(t, kept, 1, "uid") != "uid-2" || at(t, kept, 1, "fields") == nil {
		t.Errorf("it keeps %v", k.kept)
	}
}

func TestWhoAlsoOwnsAFieldHasNotChangedIt(t *testing.T) {
	s := newServer(t)
	a, _ := s.resource(web())
	a.Apply(t)
	b, k := s.resource(object{"manifest": deployment("web", 2, "web:1"), "adopt": true})
	k.id = "01J9Z3NDEKTSV4RRFFQ69G5FAV/b"
	b.Apply(t)
	a = a.With(object{"objects": []any{configMap("web", object{"color": "blue"}), deployment("web", 3, "web:1")}})
	if says := a.Stale(t, "apply", "wait").Actions[0].Description; says != "apply Deployment default/web (spec.replicas, owned also by deployster/"+k.id+")" {
		t.Errorf("it says %q", says)
	}
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
	if did := s.changed(); !slices.Equal(did, []string{"delete " + webDeployment, "delete " + webConfig}) {
		t.Errorf("it did %q", did)
	}
}
