package killloop

import (
	"encoding/json"
	"fmt"

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
	w.Helper()
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
