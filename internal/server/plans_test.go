package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/manifest"
)

// A run is bound to a plan that the server has itself, of the same.
func TestARunIsBoundToAPlanOfTheSame(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := smallRun(t, store)
	plan := func() (id string) { return carriedOut(t, url, "/v1/plans", r) }
	first := plan()
	if status, header, text := ask(t, "GET", url+"/v1/plans/"+first, "operator", ""); status != 200 || header.Get("Content-Type") != "application/json" || !strings.Contains(text, first) {
		t.Errorf("%d %v %s", status, header, text)
	}
	require.Len(t, runsOf(t, log), 0, "a plan is in the log")
	begin := func(want int, words string, change func(*proposal.Run)) (run string) {
		t.Helper()
		bound := r
		change(&bound)
		status, _, text := ask(t, "POST", url+"/v1/runs", "operator", runBody(t, bound))
		var begun proposal.Begun
		if err := json.Unmarshal([]byte(text), &begun); status != want || !strings.Contains(text, words) || err != nil {
			t.Errorf("%d %s, want %d and %q", status, text, want, words)
		}
		return begun.Run
	}
	run := begin(200, "run/a.yaml", func(r *proposal.Run) { r.Plan = first })
	begin(410, "plan again", func(r *proposal.Run) { r.Plan = "01JZ" })
	begin(410, "plan again", func(r *proposal.Run) { r.Plan = run }) // which has planned nothing
	begin(409, "something else", func(r *proposal.Run) { r.Plan, r.KeepGoing = first, true })
	begin(409, "something else", func(r *proposal.Run) {
		r.Plan, r.Carries = first, map[string]string{"a.yaml": keep(t, store, nothing+"# altered"), "/variables": r.Carries["/variables"]}
	})
	for path, want := range map[string]int{"/v1/plans/" + run: 404, "/v1/plans/01JZ": 404} {
		expect(t, want, "", "GET", url+path, "operator", "")
	}
	again := r
	again.Plan = first
	expect(t, 422, "", "POST", url+"/v1/plans", "operator", runBody(t, again))
	for range 8 {
		plan()
	}
	begin(410, "not any more", func(r *proposal.Run) { r.Plan = first })
}

// What was seen of drift is asked for as such: it is no plan, and nothing is bound to it.
func TestALookForDriftIsNoPlan(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := smallRun(t, store)
	looks, plan := carriedOut(t, url, "/v1/drifts", r), carriedOut(t, url, "/v1/plans", r)
	for path, want := range map[string]int{"/v1/drifts/" + looks: 200, "/v1/plans/" + looks: 404, "/v1/drifts/" + plan: 404, "/v1/drifts/01JZ": 404} {
		if status, _, text := ask(t, "GET", url+path, "operator", ""); status != want || want == 200 && !strings.Contains(text, looks) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	assert.Len(t, runsOf(t, log), 0, "a look is in the log")
	bound, removing := r, r
	bound.Plan, removing.Destroy = looks, true
	for _, c := range []struct {
		path string
		r    proposal.Run
		want int
	}{{"/v1/runs", bound, 410}, {"/v1/drifts", bound, 422}, {"/v1/drifts", removing, 422}} {
		expect(t, c.want, "", "POST", url+c.path, "operator", runBody(t, c.r))
	}
}

// Whoever asked for a plan may save it, and have just that applied later; what is no such plan is
// refused before anything begins.
func TestARunIsBoundToAPlanThatWasSaved(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := smallRun(t, store)
	plan := carriedOut(t, url, "/v1/plans", r)
	expect(t, 403, "", "GET", url+"/v1/plans/"+plan+"/saved", "viewer", "")
	_, _, sent := ask(t, "GET", url+"/v1/plans/"+plan+"/saved", "operator", "")
	m, err := manifest.Load([]manifest.Source{{Name: "a.yaml", Data: []byte(nothing)}}, manifest.Options{})
	require.NoError(t, err)
	saved := func(change func(*planfile.File)) string {
		t.Helper()
		f, err := planfile.Sent([]byte(sent))
		require.NoError(t, err)
		f.Manifests, f.Deployster = r.Manifests, "1"
		require.NoError(t, f.Pin(m, map[string]any{}))
		change(f)
		data, err := f.Encode()
		require.NoError(t, err)
		return keep(t, store, string(data))
	}
	as := func(*planfile.File) {}
	begin := func(want int, words string, change func(*proposal.Run)) {
		t.Helper()
		bound := r
		change(&bound)
		expect(t, want, words, "POST", url+"/v1/runs", "operator", runBody(t, bound))
	}
	for words, change := range map[string]func(*proposal.Run){
		"put it first":         func(r *proposal.Run) { r.Saved = strings.Repeat("0", 64) },
		"validation failed":    func(r *proposal.Run) { r.Saved = "../../etc/passwd" },
		"is not a saved plan":  func(r *proposal.Run) { r.Saved = keep(t, store, "{}") },
		"is empty":             func(r *proposal.Run) { r.Saved = keep(t, store, " ") },
		"leave plan and":       func(r *proposal.Run) { r.Saved, r.Plan = saved(as), plan },
		"and destroy out":      func(r *proposal.Run) { r.Saved, r.Destroy = saved(as), true },
		"and this server has ": func(r *proposal.Run) { r.Saved = saved(func(f *planfile.File) { f.Engine.Address = "elsewhere" }) },
		"its plugs are others": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.ManifestHash = strings.Repeat("0", 64) })
		},
		"word was removed": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.Variables["word"] = strings.Repeat("0", 64) })
		},
		"part was removed": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.Includes = map[string]string{"part": strings.Repeat("0", 64)} })
		},
		"part has another text": func(r *proposal.Run) {
			r.Saved = saved(func(f *planfile.File) { f.Includes = map[string]string{"part": strings.Repeat("0", 64)} })
			r.Carries = map[string]string{"a.yaml": r.Carries["a.yaml"], "/variables": r.Carries["/variables"], "part": keep(t, store, "another")}
		},
	} {
		begin(422, words, change)
	}
	assert.Len(t, runsOf(t, log), 0, "what is refused is in the log")
	looks := r
	looks.Saved = saved(as)
	for _, path := range []string{"/v1/plans", "/v1/drifts"} {
		expect(t, 422, "", "POST", url+path, "operator", runBody(t, looks))
	}
	begin(200, "run/a.yaml", func(r *proposal.Run) { r.Saved = saved(as) })
	for _, e := range runsOf(t, log) {
		assert.Contains(t, string(e.Data), `"plan":"sha256:`, "the log does not say of which plan: %s", e.Data)
	}
	for _, run := range []string{"01JZ", runsOf(t, log)[0].Deployment} {
		expect(t, 404, "", "GET", url+"/v1/plans/"+run+"/saved", "operator", "")
	}
}
