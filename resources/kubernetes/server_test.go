package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/rest"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
)

type object = map[string]any

// server is an API server in memory, with the field managers of the real one. It knows no schemas,
// so lists are fields as a whole.
type server struct {
	t       *testing.T
	mu      sync.Mutex
	kinds   map[string][]metav1.APIResource // by apiVersion
	objects map[string]*unstructured.Unstructured
	uids    int
	version int
	asked   []string // changes, in their order

	instead http.Handler                     // what answers at its address; nil is the server
	settle  func(o object)                   // what controllers make of an object that was applied; nil is nothing
	refuse  func(verb, path string) error    // nil refuses nothing
	changes func(before, after object) error // what an update may not change
	keeps   bool                             // nobody removes the finalizers of what is deleted
}

func newServer(t *testing.T) *server {
	s := &server{t: t, objects: map[string]*unstructured.Unstructured{}}
	s.kinds = map[string][]metav1.APIResource{
		"v1": {
			{Name: "namespaces", Kind: "Namespace"}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
			{Name: "secrets", Kind: "Secret", Namespaced: true}, {Name: "pods/status", Kind: "Pod", Namespaced: true},
		},
		"apps/v1":                 {{Name: "deployments", Kind: "Deployment", Namespaced: true}, {Name: "deployments/status", Kind: "Deployment", Namespaced: true}},
		"batch/v1":                {{Name: "jobs", Kind: "Job", Namespaced: true}},
		"apiextensions.k8s.io/v1": {{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
	}
	s.settle = rolledOut
	return s
}

// rolledOut is what controllers make of objects at once.
func rolledOut(o object) {
	switch o["kind"] {
	case "Deployment":
		n := kubeapi.At(o, "spec", "replicas")
		o["status"] = object{"observedGeneration": int64(1), "replicas": n, "updatedReplicas": n, "availableReplicas": n}
	case "Namespace":
		o["status"] = object{"phase": "Active"}
	}
}

// connect is a way to the server without a network.
func (s *server) connect(request) (*kubeapi.Client, error) {
	return kubeapi.New(&rest.Config{Host: "http://cluster", Transport: s}, "default")
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	handler := s.instead
	if handler == nil {
		handler = s
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return recorder.Result(), nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, err := s.answer(r)
	w.Header().Set("Content-Type", "application/json")
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		said := status.Status()
		said.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer = said
		w.WriteHeader(int(status.Status().Code))
	} else if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		w.WriteHeader(http.StatusTeapot)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *server) answer(r *http.Request) (any, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	if list, ok := s.kinds[path]; ok {
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, APIResources: list}, nil
	}
	apiVersion, resource, at := s.parse(path)
	if resource == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	if s.refuse != nil {
		if err := s.refuse(r.Method, r.URL.Path); err != nil {
			return nil, err
		}
	}
	gvk := schema.FromAPIVersionAndKind(apiVersion, resource.Kind)
	live := s.objects[at]
	missing := apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: resource.Name}, at)
	switch r.Method {
	case http.MethodGet:
		if live == nil {
			return nil, missing
		}
		return live, nil
	case http.MethodPost:
		return nil, s.makeable(r, at)
	case http.MethodDelete:
		if live == nil {
			return nil, missing
		}
		return live, s.delete(r, at, live)
	}
	if r.Header.Get("Content-Type") == "application/json-patch+json" {
		if live == nil {
			return nil, missing
		}
		return s.patch(r, at, live)
	}
	return s.apply(r, gvk, at, live)
}

// patch replaces the managers of an object that is of a version.
func (s *server) patch(r *http.Request, at string, live *unstructured.Unstructured) (any, error) {
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&operations); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := live.DeepCopy()
	for _, o := range operations {
		switch o.Op + " " + o.Path {
		case "replace /metadata/resourceVersion":
			if string(o.Value) != fmt.Sprintf("%q", live.GetResourceVersion()) {
				return nil, apierrors.NewConflict(schema.GroupResource{}, at, errors.New("the object has been modified"))
			}
		case "replace /metadata/managedFields":
			var entries []metav1.ManagedFieldsEntry
			if err := json.Unmarshal(o.Value, &entries); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			next.SetManagedFields(entries)
		default:
			return nil, apierrors.NewBadRequest(o.Op + " " + o.Path)
		}
	}
	s.asked = append(s.asked, "patch "+at)
	s.version++
	next.SetResourceVersion(fmt.Sprint(s.version))
	s.objects[at] = next
	return next, nil
}

func (s *server) parse(path string) (apiVersion string, resource *metav1.APIResource, at string) {
	for version, list := range s.kinds {
		rest, ok := strings.CutPrefix(path, version+"/")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		for i := range list {
			if last := parts[len(parts)-1]; last == list[i].Name && list[i].Namespaced == (len(parts) == 3) {
				return version, &list[i], rest
			}
			if len(parts) > 1 && list[i].Name == parts[len(parts)-2] && list[i].Namespaced == (len(parts) == 4) {
				return version, &list[i], rest
			}
		}
	}
	return "", nil, ""
}

// makeable answers who asks to make an object, of which there is one already.
func (s *server) makeable(r *http.Request, at string) error {
	var object unstructured.Unstructured
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = object.UnmarshalJSON(body)
	}
	if err != nil || r.URL.Query().Get("dryRun") != "All" || object.GetUID() != "" {
		return apierrors.NewBadRequest("no try to make an object")
	}
	if s.changes != nil {
		if err := s.changes(nil, object.Object); err != nil {
			return err
		}
	}
	return apierrors.NewAlreadyExists(schema.GroupResource{}, at)
}

func (s *server) delete(r *http.Request, at string, live *unstructured.Unstructured) error {
	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		return err
	}
	if *options.Preconditions.UID != live.GetUID() || *options.PropagationPolicy != metav1.DeletePropagationForeground {
		return apierrors.NewConflict(schema.GroupResource{}, at, errors.New("another uid"))
	}
	s.asked = append(s.asked, "delete "+at)
	if s.keeps {
		now := metav1.Unix(1, 0)
		live.SetDeletionTimestamp(&now)
		live.SetFinalizers([]string{"foregroundDeletion"})
		return nil
	}
	s.gone(at)
	return nil
}

func (s *server) gone(at string) {
	if kubeapi.Text(s.objects[at].Object, "kind") == "CustomResourceDefinition" {
		delete(s.kinds, apiVersionOf(s.objects[at].Object))
	}
	delete(s.objects, at)
}

// apiVersionOf is that of the objects of a definition.
func apiVersionOf(definition object) string { return kubeapi.Text(definition, "spec", "group") + "/v1" }

func (s *server) apply(r *http.Request, gvk schema.GroupVersionKind, at string, live *unstructured.Unstructured) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var patch unstructured.Unstructured
	if err := patch.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	query := r.URL.Query()
	if r.Header.Get("Content-Type") != "application/apply-patch+yaml" || query.Get("fieldValidation") != "Strict" {
		return nil, apierrors.NewBadRequest("no strict apply")
	}
	uid := patch.GetUID()
	patch.SetUID("")
	if ns := patch.GetNamespace(); ns != "" && ns != "default" && s.objects["namespaces/"+ns] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, ns)
	}
	before := live
	if live == nil {
		if uid != "" {
			return nil, apierrors.NewConflict(schema.GroupResource{}, at, errors.New("uid mismatch: no object was found"))
		}
		before = &unstructured.Unstructured{Object: object{"metadata": object{}}}
		before.SetGroupVersionKind(gvk)
		before.SetName(patch.GetName())
		before.SetNamespace(patch.GetNamespace())
	} else if uid != live.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{}, at, errors.New("uid mismatch"))
	}
	fields := managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), gvk)
	applied, err := fields.Apply(before.DeepCopy(), &patch, query.Get("fieldManager"), query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	next := applied.(*unstructured.Unstructured)
	if live != nil && s.changes != nil {
		if err := s.changes(live.Object, next.Object); err != nil {
			return nil, err
		}
	}
	if query.Get("dryRun") == "All" {
		return next, nil
	}
	s.asked = append(s.asked, "apply "+at)
	s.store(at, live, next)
	return next, nil
}

// store keeps an object. One that has only other managed fields is not a new version.
func (s *server) store(at string, live, next *unstructured.Unstructured) {
	if live == nil {
		s.uids++
		next.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
		next.SetGeneration(1)
	}
	if s.settle != nil {
		s.settle(next.Object)
	}
	if next.GetKind() == "CustomResourceDefinition" && kubeapi.At(next.Object, "status") != nil {
		s.kinds[apiVersionOf(next.Object)] = []metav1.APIResource{{
			Name: kubeapi.Text(next.Object, "spec", "names", "plural"), Kind: kubeapi.Text(next.Object, "spec", "names", "kind"), Namespaced: true,
		}}
	}
	if live == nil || !sameJSON(withoutFields(live.Object), withoutFields(next.Object)) {
		s.version++
	}
	next.SetResourceVersion(fmt.Sprint(s.version))
	s.objects[at] = next
}

func withoutFields(o object) object {
	o = maps.Clone(o)
	metadata, _ := o["metadata"].(object)
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	o["metadata"] = metadata
	return o
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// edit changes an object as `kubectl edit` does, or makes it.
func (s *server) edit(apiVersion, kind, at, manager string, change func(o object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	live := s.objects[at]
	before := live
	if before == nil {
		parts := strings.Split(at, "/")
		before = &unstructured.Unstructured{Object: object{}}
		before.SetGroupVersionKind(gvk)
		before.SetName(parts[len(parts)-1])
		if len(parts) == 4 {
			before.SetNamespace(parts[1])
		}
	}
	next := before.DeepCopy()
	change(next.Object)
	fields := managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), gvk)
	updated := must.Get(fields.Update(before, next, manager))(s.t)
	s.store(at, live, updated.(*unstructured.Unstructured))
}

func (s *server) get(at string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[at] == nil {
		return nil
	}
	return s.objects[at].Object
}

// changed returns the changes since it was asked last.
func (s *server) changed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.asked)
	s.asked = nil
	return all
}
