// Package export writes the deployment log in the forms that other tools read: spans of
// OpenTelemetry, and the events of ShiViz, which draws who knew of what.
//
// Both follow from the events alone, in one pass over the log, and are the same whenever and
// wherever they are made. What events hold is of others: it is written as text, cut where it
// is long, and where it cannot be read it is left out.
package export

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Filter selects what is exported; zero fields select everything.
type Filter struct {
	Deployment string    // with the runs of its steps
	Since      time.Time // only events created at or after it
}

// maxText is how long a text of an event may get, in bytes.
const maxText = 2048

// details is what is read of the data of events. What is of another form stays zero.
type details struct {
	By        string `json:"by"`
	Error     string `json:"error"`
	Reason    string `json:"reason"`
	Status    string `json:"status"`
	NoticedBy string `json:"noticed_by"`
	ExitCode  *int   `json:"exit_code"`
	Details   struct {
		Command    string `json:"command"`
		User       string `json:"user"`
		Host       string `json:"host"`
		PID        string `json:"pid"`
		Deployment string `json:"deployment"` // of the step that the run is of
		Target     string `json:"target"`
	} `json:"details"`
}

func detailsOf(e deploylog.Event) (d details) {
	_ = json.Unmarshal(e.Data, &d) // what fits is there all the same
	for _, text := range []*string{&d.By, &d.Error, &d.Reason, &d.Status, &d.Details.Command, &d.Details.User, &d.Details.Host, &d.Details.PID} {
		*text = phrase.Cut(phrase.Plain(*text), maxText)
	}
	return d
}

// selected are the events of a log that a filter selects, with what is read of them.
func selected(ctx context.Context, log deploylog.Log, f Filter) iter.Seq2[deploylog.Event, error] {
	all := log.Read(ctx, deploylog.Filter{Since: f.Since})
	if f.Deployment == "" {
		return all
	}
	return func(yield func(deploylog.Event, error) bool) {
		wanted := map[string]bool{f.Deployment: true}
		for e, err := range all {
			if err == nil && isRun(e) && e.Name == e.Target.Started() && detailsOf(e).Details.Deployment == f.Deployment {
				wanted[e.Deployment] = true
			}
			if (err != nil || wanted[e.Deployment]) && !yield(e, err) {
				return
			}
		}
	}
}

// isRun reports whether an event is of a run as a whole.
func isRun(e deploylog.Event) bool { return e.Target.Kind() == "run" }

// ofRun reports whether an event is of a run or of something in one.
func ofRun(e deploylog.Event) bool {
	switch e.Target.Kind() {
	case "run", "resource", "action":
		return true
	default:
		return false
	}
}

// above is the path of a target without its last part, and "" where there is no more.
func above(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return ""
	}
	return path[:i]
}
