//go:build kube

package kubernetes

import (
	"net/http"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// bound gives the namespace a quota, as its controller has it when nothing is used.
func (f *fixture) bound(t *testing.T, name string, hard map[string]string) {
	t.Helper()
	used := map[string]string{}
	for resource := range hard {
		used[resource] = "0"
	}
	quotas := "/api/v1/namespaces/" + f.options.Namespace + "/resourcequotas"
	quota := map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": name}, "spec": map[string]any{"hard": hard}}
	f.cluster.Create(t, quotas, quota)
	quota["status"] = map[string]any{"hard": hard, "used": used}
	f.cluster.Ask(t, http.MethodPut, quotas+"/"+name+"/status", quota)
}

// checked waits until a check says something; "" is that all is well.
func (f *fixture) checked(t *testing.T, wanted string) {
	t.Helper()
	kubetest.Until(t, "a check that says: "+wanted, func() (string, bool) {
		found, err := f.Check(t.Context())
		must(t, err)
		if err := found.Err(); err != nil {
			return err.Error(), wanted != "" && strings.Contains(err.Error(), wanted)
		}
		return "all is well", wanted == ""
	})
}

// Namespaces with quotas are the usual ones: a Pod says what it needs, or it is said what to do.
func TestPodsRunInANamespaceWithAQuota(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	spec := engine.Spec{Image: f.ref, Args: []string{"exit", "3"}, Memory: 64 << 20}
	f.bound(t, "memory", map[string]string{"limits.memory": "1Gi", "requests.memory": "1Gi"})
	f.checked(t, "must specify limits.memory for: main,prepare; requests.memory for: main,prepare; make a LimitRange in namespace "+f.options.Namespace)
	if exit, _, err := runProbe(t, f.Engine, spec); err != nil || exit.Code != 3 {
		t.Errorf("a Pod that says how much memory it needs: %v, %v", exit, err)
	}
	f.bound(t, "processors", map[string]string{"requests.cpu": "2", "limits.cpu": "4"})
	f.checked(t, "must specify limits.cpu for: main,prepare; requests.cpu for: main,prepare")
	if _, _, err := runProbe(t, f.Engine, spec); err == nil || !strings.Contains(err.Error(), "make a LimitRange in namespace "+f.options.Namespace) {
		t.Errorf("a Pod that does not say how many processors it needs: %v", err)
	}
	f.cluster.Create(t, "/api/v1/namespaces/"+f.options.Namespace+"/limitranges", documented(t, "LimitRange"))
	f.checked(t, "")
	for _, memory := range []int64{0, spec.Memory} {
		spec.Memory = memory
		if exit, _, err := runProbe(t, f.Engine, spec); err != nil || exit.Code != 3 {
			t.Errorf("with the LimitRange, and %d bytes: %v, %v", memory, exit, err)
		}
	}
	spec.Memory = 2 << 30
	if _, _, err := runProbe(t, f.Engine, spec); err == nil || !strings.Contains(err.Error(), "exceeded quota: memory") || !strings.Contains(err.Error(), "name less --memory") {
		t.Errorf("a Pod that needs more than there is: %v", err)
	}
}
