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
