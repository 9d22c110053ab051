package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/manifest"
)

// Whoever asked for a plan may save it, and have just that applied later; what is no such plan is
// refused before anything begins.
func TestARunIsBoundToAPlanThatWasSaved(t *testing.T) {
	log := logOf(t, 0)
	url, store, _ := applying(t, log)
	r := proposal.Run{Manifests: []string{"a.yaml"}, Carries: map[string]string{"a.yaml": keep(t, store, nothing), "/variables": keep(t, store, noVariables)}}
	status, _, text := ask(t, "POST", url+"/v1/plans", "operator", runBody(t, r), "Content-Type", "application/json")
	var begun proposal.Begun
	if err := json.Unmarshal([]byte(text), &begun); err != nil || status != 200 {
		t.Fatal(status, text, err)
	}
	endOf(t, url, begun.Run)
	if status, _, text := ask(t, "GET", url+"/v1/plans/"+begun.Run+"/saved", "viewer", ""); status != 403 {
		t.Errorf("%d %s", status, text)
	}
	_, _, sent := ask(t, "GET", url+"/v1/plans/"+begun.Run+"/saved", "operator", "")
	m, err := manifest.Load([]manifest.Source{{Name: "a.yaml", Data: []byte(nothing)}}, manifest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	saved := func(change func(*planfile.File)) string {
		t.Helper()
		f, err := planfile.Sent([]byte(sent))
		if err != nil {
			t.Fatal(err)
		}
		f.Manifests, f.Deployster = r.Manifests, "1"
		if err := f.Pin(m, map[string]any{}); err != nil {
			t.Fatal(err)
		}
		change(f)
		data, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return keep(t, store, string(data))
	}
	as := func(*planfile.File) {}
	begin := func(want int, words string, change func(*proposal.Run)) {
		t.Helper()
		bound := r
		change(&bound)
		if status, _, text := ask(t, "POST", url+"/v1/runs", "operator", runBody(t, bound), "Content-Type", "application/json"); status != want || !strings.Contains(text, words) {
			t.Errorf("%d %s, want %d and %q", status, text, want, words)
		}
	}
	for words, change := range map[string]func(*proposal.Run){
		"put it first":         func(r *proposal.Run) { r.Saved = strings.Repeat("0", 64) },
		"validation failed":    func(r *proposal.Run) { r.Saved = "../../etc/passwd" },
		"is not a saved plan":  func(r *proposal.Run) { r.Saved = keep(t, store, "{}") },
		"is empty":             func(r *proposal.Run) { r.Saved = keep(t, store, " ") },
		"leave plan and":       func(r *proposal.Run) { r.Saved, r.Plan = saved(as), begun.Run },
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
	if begun := runsOf(t, log); len(begun) != 0 {
		t.Errorf("what is refused is in the log: %v", begun)
	}
	looks := r
	looks.Saved = saved(as)
	for _, path := range []string{"/v1/plans", "/v1/drifts"} {
		if status, _, text := ask(t, "POST", url+path, "operator", runBody(t, looks), "Content-Type", "application/json"); status != 422 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	begin(200, "run/a.yaml", func(r *proposal.Run) { r.Saved = saved(as) })
	for _, e := range runsOf(t, log) {
		if !strings.Contains(string(e.Data), `"plan":"sha256:`) {
			t.Errorf("the log does not say of which plan: %s", e.Data)
		}
	}
	for _, run := range []string{"01JZ", runsOf(t, log)[0].Deployment} {
		if status, _, text := ask(t, "GET", url+"/v1/plans/"+run+"/saved", "operator", ""); status != 404 {
			t.Errorf("%d %s", status, text)
		}
	}
}
