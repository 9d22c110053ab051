package readiness_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/resources/internal/readiness"
)

func TestReadiness(t *testing.T) {
	const ready, failed = "ready", "failed: "
	for _, tc := range []struct{ name, apiVersion, kind, rest, want string }{
		{"an object without a status", "v1", "ConfigMap", ``, ready},
		{"what is being deleted", "v1", "ConfigMap", `"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}`, "it is being deleted"},

		{"nobody has seen it", "apps/v1", "Deployment", `"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}`, "its controller has not seen the change yet"},
		{"old Pods", "apps/v1", "Deployment", `"spec": {"replicas": 3}, "status": {"replicas": 3, "updatedReplicas": 1, "availableReplicas": 3}`, "1 of 3 Pods are of its newest template"},
		{"Pods that end", "apps/v1", "Deployment", `"spec": {"replicas": 3}, "status": {"replicas": 4, "updatedReplicas": 3, "availableReplicas": 3}`, "Pods of before are still there: 1"},
		{"Pods that start", "apps/v1", "Deployment", `"spec": {"replicas": 3}, "status": {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}`, "2 of 3 Pods are available"},
		{"one Pod, by default", "apps/v1", "Deployment", `"status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}`, ready},
		{"no Pods", "apps/v1", "Deployment", `"spec": {"replicas": 0}`, ready},
		{"a deadline that is over", "apps/v1", "Deployment", `"status": {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow"}]}`, failed + "ProgressDeadlineExceeded: too slow"},

		{"a set in parts", "apps/v1", "StatefulSet", `"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}, "status": {"replicas": 3, "updatedReplicas": 1, "readyReplicas": 3}`, ready},
		{"a set that starts", "apps/v1", "StatefulSet", `"spec": {"replicas": 3}, "status": {"replicas": 2, "updatedReplicas": 3, "readyReplicas": 2}`, "2 of 3 Pods are available"},
		{"a set that is updated by hand", "apps/v1", "StatefulSet", `"spec": {"replicas": 1, "updateStrategy": {"type": "OnDelete"}}, "status": {"readyReplicas": 1}`, ready},
		{"a daemon that starts", "apps/v1", "DaemonSet", `"status": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}`, "1 of 2 Pods are available"},
		{"a daemon", "apps/v1", "DaemonSet", `"status": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}`, ready},
		{"a daemon that is updated by hand", "apps/v1", "DaemonSet", `"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": {"desiredNumberScheduled": 2, "numberAvailable": 2}`, ready},

		{"a job that goes on", "batch/v1", "Job", `"spec": {"completions": 3}, "status": {"succeeded": 1}`, "1 of 3 completions"},
		{"a job that is done", "batch/v1", "Job", `"status": {"conditions": [{"type": "Complete", "status": "True"}]}`, ready},
		{"a job that is suspended", "batch/v1", "Job", `"spec": {"suspend": true}`, ready},
		{"a job that failed", "batch/v1", "Job", `"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}`, failed + "BackoffLimitExceeded"},

		{"a Pod that is pulled", "v1", "Pod", `"status": {"phase": "Pending"}`, "it is pending"},
		{"a Pod", "v1", "Pod", `"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`, ready},
		{"a Pod that is done", "v1", "Pod", `"status": {"phase": "Succeeded"}`, ready},
		{"a Pod that failed", "v1", "Pod", `"status": {"phase": "Failed"}`, failed + "it has failed"},
		{"a namespace", "v1", "Namespace", `"status": {"phase": "Active"}`, ready},
		{"a namespace that ends", "v1", "Namespace", `"status": {"phase": "Terminating"}`, "it is terminating"},
		{"a service", "v1", "Service", `"spec": {"type": "ClusterIP"}`, ready},
		{"a service without a load balancer", "v1", "Service", `"spec": {"type": "LoadBalancer"}`, "it has no load balancer yet"},
		{"a load balancer", "v1", "Service", `"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}`, ready},
		{"a definition", "apiextensions.k8s.io/v1", "CustomResourceDefinition", ``, "it is not established yet"},
		{"a definition of a name that is taken", "apiextensions.k8s.io/v1", "CustomResourceDefinition", `"status": {"conditions": [{"type": "NamesAccepted", "status": "False", "reason": "ListKindConflict"}]}`, failed + "ListKindConflict"},

		{"a kind of others", "example.com/v1", "Widget", ``, ready},
		{"a Deployment of others", "example.com/v1", "Deployment", ``, ready},
		{"one that is not ready", "example.com/v1", "Widget", `"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Progressing", "message": "step 1"}]}`, "it is not ready: Progressing: step 1"},
		{"one that is available", "example.com/v1", "Widget", `"status": {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Available", "status": "True"}]}`, ready},
		{"a condition of before", "example.com/v1", "Widget", `"metadata": {"generation": 2}, "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}`, "its controller has not seen the change yet"},
		{"a status of before", "example.com/v1", "Widget", `"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}`, "its controller has not seen the change yet"},
		{"one that is stalled", "example.com/v1", "Widget", `"status": {"conditions": [{"type": "Stalled", "status": "True", "message": "no such chart"}, {"type": "Ready", "status": "False"}]}`, failed + "no such chart"},
		{"a status of another form", "example.com/v1", "Widget", `"status": {"conditions": [1, {"type": 2}], "observedGeneration": "x"}`, ready},
	} {
		text := `{"apiVersion": "` + tc.apiVersion + `", "kind": "` + tc.kind + `"`
		if tc.rest != "" {
			text += ", " + tc.rest
		}
		decoder := json.NewDecoder(strings.NewReader(text + "}"))
		decoder.UseNumber()
		var object map[string]any
		require.NoError(t, decoder.Decode(&object), "%s", tc.name)
		got := readiness.Of(object)
		says := got.Why
		switch {
		case got.Ready:
			says = ready + says
		case got.Failed:
			says = failed + says
		}
		assert.Equal(t, tc.want, says, "%s: %q, want %q", tc.name, says, tc.want)
	}
}

func TestWhatIsWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		apiVersion, kind string
		want             bool
	}{
		{"v1", "ConfigMap", false},
		{"v1", "Namespace", false},
		{"v1", "Service", true},
		{"apps/v1", "Deployment", true},
		{"rbac.authorization.k8s.io/v1", "Role", false},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", true},
		{"apiregistration.k8s.io/v1", "APIService", true},
		{"example.com/v1", "Widget", true},
	} {
		got := readiness.Matters(tc.apiVersion, tc.kind)
		assert.True(t, got == tc.want, "%s %s: %v", tc.apiVersion, tc.kind, got)
	}
}
