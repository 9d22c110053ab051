package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

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
