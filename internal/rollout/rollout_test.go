package rollout_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/rollout"
)

func TestHowFarAWorkloadIs(t *testing.T) {
	for _, c := range []struct{ name, kind, object, due, all string }{
		{"nothing is there yet", "Deployment", `{"spec": {"replicas": 2}}`, "0 of 2 Pods are of its newest template", ""},
		{"one Pod, by default", "Deployment", `{"status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}}`, "", ""},
		{"none is wanted", "Deployment", `{"spec": {"replicas": 0}}`, "", ""},
		{"an old one goes", "Deployment", `{"spec": {"replicas": 2}, "status": {"replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}}`, "Pods of before are still there: 1", ""},
		{"a new one starts", "Deployment", `{"spec": {"replicas": 2}, "status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}}`, "1 of 2 Pods are available", ""},
		{"a set in parts", "StatefulSet", `{"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}, "status": {"replicas": 3, "updatedReplicas": 1, "availableReplicas": 3}}`, "", "1 of 3 Pods are of its newest template"},
		{"a partition of more than there are", "StatefulSet", `{"spec": {"replicas": 1, "updateStrategy": {"rollingUpdate": {"partition": 9}}}, "status": {"replicas": 1, "availableReplicas": 1}}`, "", "0 of 1 Pods are of its newest template"},
		{"a set of an old cluster", "StatefulSet", `{"spec": {"replicas": 2}, "status": {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}}`, "1 of 2 Pods are available", ""},
		{"a set whose Pods are ready a moment", "StatefulSet", `{"spec": {"replicas": 2}, "status": {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 1}}`, "1 of 2 Pods are available", ""},
		{"a set that people update", "StatefulSet", `{"spec": {"replicas": 1, "updateStrategy": {"type": "OnDelete"}}, "status": {"replicas": 1, "availableReplicas": 1}}`, "", "0 of 1 Pods are of its newest template"},
		{"a daemon of no node", "DaemonSet", `{"spec": {"replicas": 5}}`, "", ""},
		{"a daemon that comes to a node", "DaemonSet", `{"status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 2, "numberAvailable": 3}}`, "2 of 3 Pods are of its newest template", ""},
		{"a daemon that people update", "DaemonSet", `{"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": {"desiredNumberScheduled": 2, "numberAvailable": 2}}`, "", "0 of 2 Pods are of its newest template"},
		{"a status of another form", "Deployment", `{"spec": {"replicas": "two"}, "status": [{"replicas": 1.5}]}`, "0 of 1 Pods are of its newest template", ""},
	} {
		var plain, numbers map[string]any
		decoder := json.NewDecoder(strings.NewReader(c.object))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&numbers))
		require.NoError(t, json.Unmarshal([]byte(c.object), &plain))
		p, ok := rollout.Of(c.kind, plain)
		again, _ := rollout.Of(c.kind, numbers)
		assert.True(t, ok && again == p, "%s: %+v, and of other numbers %+v", c.name, p, again)
		if c.all == "" {
			c.all = c.due
		}
		if due, all := p.Waits(p.Due), p.Waits(p.Wanted); due != c.due || all != c.all {
			t.Errorf("%s: by itself %q, want %q; until all is new %q, want %q", c.name, due, c.due, all, c.all)
		}
	}
	for generation, seen := range map[string]bool{"1": true, "2": false, "null": true} {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"metadata": {"generation": `+generation+`}, "status": {"observedGeneration": 1}}`), &object))
		p, _ := rollout.Of("Deployment", object)
		assert.Equal(t, seen, p.Seen, "of generation %s", generation)
	}
	_, ok := rollout.Of("Job", map[string]any{})
	assert.False(t, ok, "a Job is rolled out")
}
