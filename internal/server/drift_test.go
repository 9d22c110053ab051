package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/proposal"
)

// What was seen of drift is asked for as such: it is no plan, and nothing is bound to it.
func TestALookForDriftIsNoPlan(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := proposal.Run{Manifests: []string{"a.yaml"}, Carries: map[string]string{"a.yaml": keep(t, store, nothing), "/variables": keep(t, store, noVariables)}}
	begin := func(path string) (id string) {
		t.Helper()
		status, _, text := ask(t, "POST", url+path, "operator", runBody(t, r), "Content-Type", "application/json")
		var begun proposal.Begun
		if err := json.Unmarshal([]byte(text), &begun); err != nil || status != 200 || endOf(t, url, begun.Run).Outcome != "succeeded" {
			t.Fatal(status, text, err)
		}
		return begun.Run
	}
	looks, plan := begin("/v1/drifts"), begin("/v1/plans")
	for path, want := range map[string]int{"/v1/drifts/" + looks: 200, "/v1/plans/" + looks: 404, "/v1/drifts/" + plan: 404, "/v1/drifts/01JZ": 404} {
		if status, _, text := ask(t, "GET", url+path, "operator", ""); status != want || want == 200 && !strings.Contains(text, looks) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if begun := runsOf(t, log); len(begun) != 0 {
		t.Errorf("a look is in the log: %v", begun)
	}
	bound, removing := r, r
	bound.Plan, removing.Destroy = looks, true
	for _, c := range []struct {
		path string
		r    proposal.Run
		want int
	}{{"/v1/runs", bound, 410}, {"/v1/drifts", bound, 422}, {"/v1/drifts", removing, 422}} {
		if status, _, text := ask(t, "POST", url+c.path, "operator", runBody(t, c.r), "Content-Type", "application/json"); status != c.want {
			t.Errorf("%s: %d %s, want %d", c.path, status, text, c.want)
		}
	}
}
