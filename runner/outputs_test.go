package runner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/report"
)

const telling = `
resources:
  web-site: {type: thing, for_each: [a, b], config: {value: '{{ each.key }}!'}}
  db: {type: thing, config: {value: 5432, token: hunter2}}
`

// ended is the last recorded event of the run.
func (w *world) ended(t *testing.T) report.Event {
	t.Helper()
	e := w.logged[len(w.logged)-1]
	if e.Kind != report.RunFinished && e.Kind != report.RunFailed {
		t.Fatalf("the last event is %s", e.Kind)
	}
	return e
}

func TestAnApplyTellsItsOutputs(t *testing.T) {
	w := newWorld(t)
	_, err := w.apply(t, telling+`
outputs:
  port: {value: '{{ db.state.value }}', description: where it listens}
  all: '{{ web_site.values() | map(attribute="state.value") | sort | join(" ") }}'
  stage: '{{ stage }}'
  fixed: [1, '{{ db.name }}']
`)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(w.ended(t).Outputs)
	const want = `{"outputs":{"all":{"value":"a! b!"},"fixed":{"value":[1,"db"]},"port":{"value":5432,"description":"where it listens"},"stage":{"value":"test"}}}`
	if string(got) != want {
		t.Errorf("it tells %s, want %s", got, want)
	}
	line, _ := json.Marshal(encoding.LineOf(w.ended(t)))
	var read encoding.Line
	if err := json.Unmarshal(line, &read); err != nil || len(read.Event().Outputs.Outputs) != 4 {
		t.Errorf("%s is read as %+v (%v)", line, read.Event(), err)
	}
}

func TestASecretOutputIsNotTold(t *testing.T) {
	for name, output := range map[string]string{
		"the manifest says so":   "{value: '{{ db.state.value }}', writeOnly: true}",
		"it holds a secret":      "the token is hunter2",
		"it is within something": "[{a: hunter2}]",
		"its description is":     "{value: 5432, writeOnly: true, description: hunter2}",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if _, err := w.apply(t, telling+"\noutputs: {o: "+output+"}"); err != nil {
				t.Fatal(err)
			}
			all, _ := json.Marshal([]any{w.logged, w.events})
			if o := w.ended(t).Outputs.Outputs["o"]; !o.Secret || o.Value != nil || strings.Contains(string(all)+w.kept(t), "hunter2") {
				t.Errorf("it is told as %+v", o)
			}
			if got := w.ended(t).Outputs.Secrets()["o"]; got == nil {
				t.Error("its value is not recorded")
			}
			for _, e := range w.events {
				if e.Outputs.Secrets() != nil {
					t.Errorf("%s shows it", e.Kind)
				}
			}
		})
	}
}

func TestWhatIsNotAppliedTellsNothing(t *testing.T) {
	w := newWorld(t)
	w.fail["db"] = true
	if _, err := w.apply(t, telling+"\noutputs: {o: 1}"); err == nil || len(w.ended(t).Outputs.Outputs) != 0 {
		t.Errorf("a run that failed (%v) tells %+v", err, w.ended(t).Outputs)
	}

	w = newWorld(t)
	_, err := w.apply(t, telling+"\noutputs: {o: 1, p: '{{ db.state.nothing }}', q: '{{ db.state.value.hunter2 }}'}")
	if err == nil || !strings.Contains(err.Error(), "m.yaml:6:32: outputs.p: ") || strings.Contains(err.Error(), "hunter2") || w.ended(t).Kind != report.RunFailed || len(w.ended(t).Outputs.Outputs) != 0 {
		t.Errorf("outputs that cannot be evaluated: %v", err)
	}

	w = newWorld(t)
	some := func(o *options) {
		m, err := o.Manifest.Select([]string{"db"})
		if err != nil {
			t.Fatal(err)
		}
		o.Manifest = m
	}
	if _, err := w.apply(t, telling+"\noutputs: {o: '{{ db.name }}', p: '{{ web_site | length }}'}", some); err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(w.ended(t).Outputs)
	if want := `{"outputs":{"o":{"value":"db"}},"outputs_unknown":["p"]}`; string(got) != want {
		t.Errorf("an apply of some resources tells %s, want %s", got, want)
	}

	w = newWorld(t)
	_, err = w.apply(t, telling+"\noutputs: {o: '{{ \"x\" * 600000 }}', p: '{{ \"x\" * 600000 }}'}")
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("outputs that are too large: %v", err)
	}
}
