//go:build kube

package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
	"github.com/deployster-go/deployster/resources/internal/managedfields"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

// api asks the API server as others do.
type api struct {
	t      *testing.T
	config *rest.Config
	http   *http.Client
}

// ask may be used in any goroutine.
func (a *api) ask(method, path, contentType string, body any) (status int, answer object, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.config.Host+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", contentType)
	response, err := a.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	_ = json.Unmarshal(said, &answer) // of a kind that is not there it is no JSON
	return response.StatusCode, answer, nil
}

func (a *api) try(method, path, contentType string, body any) (status int, answer object) {
	a.t.Helper()
	status, answer, err := a.ask(method, path, contentType, body)
	require.NoError(a.t, err)
	return status, answer
}

func (a *api) do(method, path, contentType string, body any) object {
	a.t.Helper()
	status, answer := a.try(method, path, contentType, body)
	require.True(a.t, status < 300, "%s %s: %d: %v", method, path, status, answer)
	return answer
}

const (
	mergePatch = "application/merge-patch+json"
	plainJSON  = "application/json"
)

// deployed is what the controller of Deployments says of one, which this cluster does not have.
func (a *api) deployed(path string) {
	a.t.Helper()
	live := a.do(http.MethodGet, path, plainJSON, nil)
	n := at(a.t, live, "spec", "replicas")
	a.do(http.MethodPatch, path+"/status", mergePatch, object{"status": object{
		"observedGeneration": at(a.t, live, "metadata", "generation"), "replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n,
	}})
}

// collect does what the controllers of garbage and of namespaces do: it takes the finalizers off what is being
// deleted, until a channel is closed.
func (a *api) collect(done <-chan struct{}, paths ...string) error {
	for {
		select {
		case <-done:
			return nil
		case <-time.After(50 * time.Millisecond):
		}
		for _, path := range paths {
			status, live, err := a.ask(http.MethodGet, path, plainJSON, nil)
			if err != nil {
				return err
			}
			if status != http.StatusOK || kubeapi.Text(live, "metadata", "deletionTimestamp") == "" {
				continue
			}
			if live["kind"] == "Namespace" && kubeapi.At(live, "metadata", "finalizers") == nil {
				live["spec"] = object{"finalizers": []any{}}
				_, _, err = a.ask(http.MethodPut, path+"/finalize", plainJSON, live)
			} else {
				_, _, err = a.ask(http.MethodPatch, path, mergePatch, object{"metadata": object{"finalizers": []any{}}})
			}
			if err != nil {
				return err
			}
		}
	}
}

func TestObjectsInARealCluster(t *testing.T) {
	cluster := kubetest.Shared(t)
	kubeconfig := must.Get(os.ReadFile(cluster.Kubeconfig))(t)
	config := must.Get(clientcmd.RESTConfigFromKubeConfig(kubeconfig))(t)
	client := must.Get(rest.HTTPClientFor(config))(t)
	a := &api{t, config, client}

	const ns, crd = "/api/v1/namespaces/shop", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
	const web, widget, settings, secret = "/apis/apps/v1/namespaces/shop/deployments/web", "/apis/example.com/v1/namespaces/shop/widgets/one", "/api/v1/namespaces/shop/configmaps/settings", "/api/v1/namespaces/shop/secrets/db"
	labels := object{"app": "web"}
	deployed := object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "web"},
		"spec": object{"replicas": 2, "selector": object{"matchLabels": labels}, "template": object{
			"metadata": object{"labels": labels},
			"spec": object{"containers": []any{object{
				"name": "web", "image": "web:1", "ports": []any{object{"containerPort": 80}},
				"resources": object{"limits": object{"cpu": "1000m", "memory": "1024Mi"}}, // the server writes 1 and 1Gi
			}}},
		}},
	}
	wanted := object{
		"kubeconfig": string(kubeconfig), "namespace": "shop", "wait": object{"timeout": "30s"},
		"secrets": []any{object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "db"}, "stringData": object{"password": "s3cret"}}},
		"objects": []any{
			object{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": object{"name": "one"}, "spec": object{"size": 3}},
			object{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "widgets.example.com"},
				"spec": object{
					"group": "example.com", "scope": "Namespaced", "names": object{"kind": "Widget", "plural": "widgets", "singular": "widget"},
					"versions": []any{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{
						"type": "object", "properties": object{"spec": object{"type": "object", "properties": object{
							"size":  object{"type": "integer", "x-kubernetes-validations": []any{object{"rule": "self == oldSelf", "message": "size is immutable"}}},
							"color": object{"type": "string", "default": "blue"},
						}}},
					}}}},
				},
			},
			deployed,
			configMap("settings", object{"color": "blue"}),
			object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}},
		},
	}
	k := &keeping{Type: Type(), id: "01J9Z3NDEKTSV4RRFFQ69G5FAV/shop"}
	r := typetest.Resource{Type: k, Name: "shop", Config: wanted}
	run := func(action string) {
		t.Helper()
		code, stdout, stderr := r.Invoke(t, nil, action)
		require.True(t, code == 0, "%s ended with %d: %s%s", action, code, stdout, stderr)
	}

	// Nothing is there, not even the kind and the namespace of what is declared.
	if found := r.Stale(t, "apply", "wait"); found.StaleState != nil {
		t.Errorf("it has found %v", found.StaleState)
	}
	run("apply")
	if found := r.Stale(t, "wait"); !strings.Contains(found.Actions[0].Description, "Deployment shop/web (") {
		t.Errorf("it waits for %s", found.Actions[0].Description)
	}
	a.deployed(web)
	run("wait")
	r.Valid(t)
	data := at(t, a.do(http.MethodGet, secret, plainJSON, nil), "data")
	assert.True(t, at(t, data, "password") == "czNjcmV0", "the Secret has %v", data)

	// What is changed by others is drift where it is declared, and is healed.
	a.do(http.MethodPatch, web+"?fieldManager=kubectl-edit", "application/strategic-merge-patch+json", object{"spec": object{
		"replicas": 5, "minReadySeconds": 7, "template": object{"spec": object{"containers": []any{
			object{"name": "web", "image": "web:broken"}, object{"name": "sidecar", "image": "sidecar:1"},
		}}},
	}})
	a.do(http.MethodPatch, secret+"?fieldManager=kubectl-edit", mergePatch, object{"data": object{"password": "b3RoZXI="}})
	found := r.Stale(t, "apply", "wait")
	drifted := at(t, found.StaleState, "objects", 2, "spec")
	containers, _ := at(t, drifted, "template", "spec", "containers").([]any)
	if fmt.Sprint(at(t, drifted, "replicas")) != "5" || len(containers) != 1 || at(t, containers, 0, "image") != "web:broken" ||
		at(t, containers, 0, "resources", "limits", "cpu") != "1000m" || at(t, found.StaleState, "secrets", 0, "stringData", "password") != "other" {
		t.Errorf("it has found %v", found.StaleState)
	}
	says := found.Actions[0].Description
	assert.True(t, strings.Contains(says, `spec.template.spec.containers[name="web"].image, changed by kubectl-edit`), "it says %s", says)
	run("apply")
	a.deployed(web)
	r.Valid(t)
	if spec := at(t, a.do(http.MethodGet, web, plainJSON, nil), "spec"); fmt.Sprint(at(t, spec, "replicas")) != "2" || fmt.Sprint(at(t, spec, "minReadySeconds")) != "7" ||
		len(at(t, spec, "template", "spec", "containers").([]any)) != 2 {
		t.Errorf("it has become %v", spec)
	}

	// What others have set before is theirs.
	spec := deployed["spec"].(object)
	spec["minReadySeconds"] = 9
	r.Fails(t, "Deployment shop/web: spec.minReadySeconds is managed by kubectl-edit", "state")
	delete(spec, "minReadySeconds")

	// What cannot be changed is named, and made anew where that is configured.
	done := make(chan struct{})
	collected := make(chan error)
	go func() { collected <- a.collect(done, web, widget, settings, secret, crd, ns) }()
	defer func() {
		close(done)
		if err := <-collected; err != nil {
			t.Error(err)
		}
	}()
	spec["selector"] = object{"matchLabels": object{"app": "web", "tier": "front"}}
	spec["template"].(object)["metadata"] = object{"labels": object{"app": "web", "tier": "front"}}
	r.Fails(t, "Deployment shop/web: spec.selector cannot be changed while it exists", "state")
	spec["selector"] = object{"matchLabels": labels}
	spec["template"].(object)["metadata"] = object{"labels": labels}
	one := wanted["objects"].([]any)[0].(object)["spec"].(object)
	one["size"] = 4
	r.Fails(t, `Widget shop/one: spec.size cannot be changed while it exists`, "state")
	r.With(with(wanted, object{"replace": true})).Apply(t)
	size := at(t, a.do(http.MethodGet, widget, plainJSON, nil), "spec", "size")
	assert.True(t, fmt.Sprint(size) == "4", "the size is %v", size)
	one["typo"] = true
	r.Fails(t, `typo`, "state")
	delete(one, "typo")

	// What is no longer declared goes, and another user may not do what needs rights.
	all := wanted["objects"].([]any)
	wanted["objects"] = slices.Delete(slices.Clone(all), 3, 4)
	r.Stale(t, "prune")
	r.Apply(t)
	if status, _ := a.try(http.MethodGet, settings, plainJSON, nil); status != http.StatusNotFound {
		t.Error("what is no longer declared is left")
	}

	// What another resource takes over is that one's alone, once this one no longer declares it.
	wanted["objects"] = all
	r.Apply(t)
	other := &keeping{Type: Type(), id: "01J9Z3NDEKTSV4RRFFQ69G5FAV/other"}
	taker := typetest.Resource{Type: other, Name: "other", Config: object{
		"kubeconfig": string(kubeconfig), "namespace": "shop", "adopt": true, "manifest": configMap("settings", object{"color": "blue"}),
	}}
	taker.Apply(t)

	// Both say that it is one object, also to who may not take it over.
	system := at(t, a.do(http.MethodGet, "/api/v1/namespaces/kube-system", plainJSON, nil), "metadata", "uid")
	same := object{"cluster": system, "group": "", "kind": "ConfigMap", "namespace": "shop", "name": "settings"}
	assert.Equal(t, []object{same}, taker.State(t).Identities)
	assert.Contains(t, r.State(t).Identities, same)
	third := typetest.Resource{Type: &keeping{Type: Type(), id: "01J9Z3NDEKTSV4RRFFQ69G5FAV/third"}, Name: "third", Config: with(taker.Config.(object), object{"adopt": false})}
	theirs := third.State(t)
	assert.Equal(t, protocol.Conflict, theirs.Status, "%+v", theirs)
	assert.Equal(t, []object{same}, theirs.Identities)
	wanted["objects"] = slices.Delete(slices.Clone(all), 3, 4)
	r.Stale(t, "prune")
	r.Apply(t)
	r.Valid(t)
	taker.Valid(t)
	appliers := managedfields.Appliers(a.do(http.MethodGet, settings, plainJSON, nil))
	assert.True(t, slices.Equal(appliers, []string{managerPrefix + other.id}), "it is of %q", appliers)
	taker.Gone().Apply(t)
	if status, _ := a.try(http.MethodGet, settings, plainJSON, nil); status != http.StatusNotFound {
		t.Error("what was taken over is left")
	}
	limited := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "limited",
		"clusters": [{"name": "c", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
		"users": [{"name": "u", "user": {"token": %q}}],
		"contexts": [{"name": "limited", "context": {"cluster": "c", "user": "u"}}]}`, cluster.Server, cluster.Limited)
	r.With(with(wanted, object{"kubeconfig": limited})).Fails(t, "grant the verb get on namespaces by a ClusterRole", "state")

	// All of it goes in the end, with what it defines.
	r.Gone().Stale(t, "remove")
	r.Gone().Apply(t)
	for _, path := range []string{web, widget, secret, crd, ns} {
		if status, _ := a.try(http.MethodGet, path, plainJSON, nil); status != http.StatusNotFound {
			t.Errorf("%s is left", path)
		}
	}
}
