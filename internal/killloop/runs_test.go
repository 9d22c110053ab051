package killloop

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// details are the fields of events that these tests read.
type details struct {
	Steps []struct {
		Deployment string           `json:"deployment"`
		Revision   string           `json:"revision"`
		Target     deploylog.Target `json:"target"`
		Event      string           `json:"event"`
		Attempt    int              `json:"attempt"`
		Try        int              `json:"try"`
		Outcome    string           `json:"outcome"`
	} `json:"steps"`
	Details struct {
		Deployment string `json:"deployment"`
		Target     string `json:"target"`
		Event      string `json:"event"`
		PID        string `json:"pid"`
	} `json:"details"`
	Rollback *struct {
		Stage string `json:"stage"`
	} `json:"rollback"`
	Abandoned  bool            `json:"abandoned"`
	Nothing    bool            `json:"nothing_applied"`
	Kind       string          `json:"kind"`
	Hosts      []string        `json:"hosts"`
	Joined     []string        `json:"joined"`
	Left       []string        `json:"left"`
	Lost       []string        `json:"lost"`
	Only       []string        `json:"only"`
	Drain      bool            `json:"drain"`
	Task       int             `json:"task_of"`
	Definition json.RawMessage `json:"definition"`
}

func (w *world) details(e deploylog.Event) (d details) {
	if len(e.Data) == 0 {
		return d
	}
	require.NoError(w, json.Unmarshal(e.Data, &d), "event %d", e.Seq)
	return d
}

// checkRuns checks that all that began has an end, once, and that nothing is done again
// within a deployment of a pipeline whose success is recorded.
func (w *world) checkRuns(events []deploylog.Event) {
	w.Helper()
	type key struct {
		deployment string
		target     deploylog.Target
		attempt    int
	}
	open, step, done := map[key]bool{}, map[string]string{}, map[string]int64{}
	for _, e := range events {
		k, d := key{e.Deployment, e.Target, e.Attempt}, w.details(e)
		switch kind := e.Target.Kind(); {
		case e.Name == "run-started":
			open[k] = true
			if d.Details.Event != "" {
				step[e.Deployment] = fmt.Sprint(d.Details.Deployment, " ", d.Details.Target, " ", d.Details.Event)
			}
		case e.Name == "action-started":
			open[k] = true
			if before := done[step[e.Deployment]]; before > 0 {
				w.Errorf("event %d begins again what event %d has recorded as done: %s", e.Seq, before, step[e.Deployment])
			}
		case (kind == "run" || kind == "action") && (e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed()):
			assert.True(w, open[k], "event %d: %s of %s ended without having begun", e.Seq, e.Target, e.Deployment)
			delete(open, k)
			if s := step[e.Deployment]; e.Name == "action-finished-successfully" && !d.Abandoned && s != "" {
				done[s] = e.Seq
			}
		}
	}
	for k := range open {
		w.Errorf("%s of %s has no end in the log", k.target, k.deployment)
	}
}

// An apply on a log in a database is killed in the middle, again and again. The next one finds what
// the last has begun, waits for it, and goes on: no action is done beside another, and all has an end.
func TestAppliesGoOnWhereTheLastOneWasKilled(t *testing.T) {
	rounds(t, 10, func(w *world, kills int) {
		w.inDatabase()
		require.NoError(t, os.MkdirAll(w.path("hosts", "x"), 0o700))
		released := map[string]string{}
		next := func(n int) {
			var text strings.Builder
			text.WriteString("plugs: {dir: {path: hosts/x}, all: {path: all}}\nresources:\n")
			for i, file := range []string{"a", "b", "c"} {
				fmt.Fprintf(&text, "  %s: {type: journal:1, dependencies: {%s}, config: {file: %s, host: x, for: site %d, alone: site, wait: 150, value: %s %d}}\n",
					file, []string{"", "before: a", "before: b"}[i], file, n, file, n)
			}
			w.write("site.yaml", text.String())
			released[fmt.Sprintf("site %d", n)] = "released"
			for _, file := range []string{"a", "b", "c"} {
				released[fmt.Sprintf("site %d %s", n, file)] = fmt.Sprintf("%s %d image=0", file, n)
			}
		}
		n := 1
		for next(n); w.killed < kills; next(n) {
			w.work("apply", "site.yaml", "--confirm", "NO", "--engine", "oci")
			w.busy(2 * time.Second)
			one := w.workers[0]
			w.workers = nil
			select {
			case err := <-one.done: // it was quicker
				if err != nil {
					text, _ := os.ReadFile(one.log)
					w.Fatalf("%v\n%.4000s", err, text)
				}
			default:
				_ = one.Process.Kill()
				<-one.done
				w.killed++
			}
			if w.IntN(2) == 0 {
				n++
			}
		}
		w.must("apply", "site.yaml", "--confirm", "NO", "--engine", "oci")
		for _, file := range []string{"a", "b", "c"} {
			if got, want := w.file("x", file), fmt.Sprintf("%s %d image=0", file, n); got != want {
				w.Errorf("there is %q, want %q", got, want)
			}
		}
		w.checkRuns(w.events())
		w.checkJournal(released)
	})
}
