//go:build kube

package promotions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// workload makes a workload of an image, or gives it another one.
func (f *space) workload(method, resource, kind, image string, replicas int) {
	f.Helper()
	labels := fields{"app": "shop"}
	spec := fields{"selector": fields{"matchLabels": labels}, "template": fields{
		"metadata": fields{"labels": labels}, "spec": fields{"containers": []any{fields{"name": "shop", "image": image}}},
	}}
	if replicas > 0 {
		spec["replicas"] = replicas
	}
	if kind == "StatefulSet" {
		spec["serviceName"] = "shop"
	}
	path := "/apis/apps/v1/namespaces/" + f.namespace + "/" + resource
	if method == http.MethodPut {
		path += "/shop"
	}
	f.Ask(f, method, path+"?fieldValidation=Strict", fields{"apiVersion": "apps/v1", "kind": kind, "metadata": fields{"name": "shop"}, "spec": spec})
}

// reports is what the controller of a workload says of it, as it is now.
func (f *space) reports(resource string, status fields) {
	f.Helper()
	path := "/apis/apps/v1/namespaces/" + f.namespace + "/" + resource + "/shop"
	var live fields
	require.NoError(f, json.Unmarshal(f.Ask(f, http.MethodGet, path, nil), &live))
	status["observedGeneration"] = live["metadata"].(map[string]any)["generation"]
	live["status"] = status
	f.Ask(f, http.MethodPut, path+"/status?fieldValidation=Strict", live)
}

// The tag of the image that a Deployment runs goes to a StatefulSet and a DaemonSet. Each runs an
// image when all of its Pods do, by what the API server has of it.
func TestARevisionGoesThroughWorkloads(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	f := &space{t, c, c.Namespace(t, "")}
	for resource, kind := range map[string]string{"deployments": "Deployment", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet"} {
		replicas := 2
		if kind == "DaemonSet" {
			replicas = 0
		}
		f.workload(http.MethodPost, resource, kind, "registry.example/shop:41", replicas)
	}
	dir := t.TempDir()
	kubetest.Kubeconfig(t, filepath.Join(dir, "kubeconfig"), c.Server, c.Token, f.namespace)
	r := newReceiver(t)
	w, end := watching(t, r.workspace, func(string) string { return filepath.Join(dir, "kubeconfig") }, r.asks, func(d *definition.Definition) {
		of := func(kind string) object.Object {
			return object.Object{Cluster: "one", Kind: kind, Namespace: f.namespace, Name: "shop"}
		}
		d.Stages[0].Environment, d.Stages[0].Objects = "objects:shop/dev", []object.Object{of("Deployment")}
		d.Stages[1].Environment, d.Stages[1].Objects = "objects:shop/prod", []object.Object{of("StatefulSet"), of("DaemonSet")}
	})
	w.comesToSay("dev", "its controller has not looked at it yet")
	f.workload(http.MethodPut, "deployments", "Deployment", "registry.example/shop:42", 2)
	f.reports("deployments", fields{"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2, "availableReplicas": 2})
	w.comesToSay("dev", "of before are still there")
	f.reports("deployments", fields{"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2})
	w.comesToSay("dev", "revision 42 is current")
	sets := fields{"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "currentRevision": "shop-1", "updateRevision": "shop-1"}
	f.reports("statefulsets", sets)
	daemons := fields{"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}
	f.reports("daemonsets", daemons)
	kubetest.Until(t, "42 is asked for", func() (string, bool) {
		asked := r.take()
		return fmt.Sprint(asked), len(asked) == 1 && asked[0].Revision == "42"
	})

	f.workload(http.MethodPut, "daemonsets", "DaemonSet", "registry.example/shop:42", 0)
	f.reports("daemonsets", daemons)
	f.workload(http.MethodPut, "statefulsets", "StatefulSet", "registry.example/shop:42", 2)
	w.comesToRecord("its controller has not looked at it since it was changed: it has seen generation 1 of 2")
	sets["updateRevision"] = "shop-2"
	f.reports("statefulsets", sets)
	w.comesToRecord("shop-1 gives way to shop-2")
	sets["currentRevision"] = "shop-2"
	f.reports("statefulsets", sets)
	w.finishes("42")
	end()
}
