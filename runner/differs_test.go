package runner_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/runner/report"
)

// Of what was there, and not as configured, the log says how it differed.
func TestWhatDiffersIsRecorded(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		config string
		want   []string
	}{
		{"{value: 1, token: first}", nil}, // it did not exist
		{"{value: 2, token: second}", []string{"~ value: 1 → 2"}},
		{"{value: 2, token: second}", nil},
	} {
		w.forget()
		if _, err := w.apply(t, "resources: {db: {type: thing, config: "+step.config+"}}"); err != nil {
			t.Fatal(err)
		}
		for _, e := range w.logged {
			if e.Kind != report.ResourceResolved {
				continue
			}
			text := strings.Join(e.Differs, "\n")
			for _, line := range step.want {
				if !strings.Contains(text, line) {
					t.Errorf("%s: %q is not in %q", step.config, line, text)
				}
			}
			if len(step.want) == 0 && text != "" || strings.Contains(text, "first") || strings.Contains(text, "second") {
				t.Errorf("%s: %q", step.config, text)
			}
		}
	}
}
