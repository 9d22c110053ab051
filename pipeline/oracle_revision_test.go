package pipeline

import (
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// revision is one deployment of a revision as the seed sees it.
type revision struct {
	fix       bool
	forgotten bool
	id        string
	name      string
	order     int
	adopted   map[string]bool // units
	attempt   int
	since     time.Time                  // of the attempt
	started   map[string]time.Time       // stages
	only      string                     // the stage that it rolls back; "" of one that goes through the pipeline
	age       int                        // order of the revision that it deploys
	redoes    *revision                  // what it does again; nil is nothing
	hosts     []string                   // targets that it repairs; nil is all
	did       map[string]map[string]bool // stage → steps that were done on all hosts there when it was finished
	over      bool
	finished  bool
	completed map[entry]int64
	failed    map[entry]int64 // of the present attempt
	tries     map[entry][]time.Time
	works     map[entry]bool // what is being done
	carries   *carried
	approvals []given
	reopened  map[string]bool // hosts that failed before the attempt, of which nothing is recorded in it
}

// note takes note of an event of the revision.
func (r *revision) note(at entry, e deploylog.Event) {
	if e.Attempt == r.attempt {
		delete(r.reopened, at.target)
	}
	switch {
	case e.Name == "pipeline-retried":
		for f := range r.failed {
			if r.reopened == nil {
				r.reopened = map[string]bool{}
			}
			r.reopened[f.target] = true
		}
		r.since = e.CreatedAt
		r.over, r.attempt, r.failed, r.tries = false, e.Attempt, map[entry]int64{}, map[entry][]time.Time{}
	case e.Name == "pipeline-failed" || e.Name == "pipeline-cancelled" || e.Name == "pipeline-skipped" || e.Name == "pipeline-superseded" || e.Name == "pipeline-finished-successfully":
		r.over, r.finished = true, e.Name == "pipeline-finished-successfully"
	case strings.HasSuffix(e.Name, "-failed"):
		if e.Attempt == r.attempt {
			r.failed[at] = e.Seq
		}
	case r.completed[at] == 0:
		r.completed[at] = e.Seq
	}
}

// done: an entry is complete, or is the start of something that failed, of which the
// algorithm of the seed says nothing. A revision that comes into a stage because the host
// group that it is in is moved there leaves no start of the stage; when the group has gone
// again, only the stage's failure shows that the revision came there. Nothing fails that
// was not begun, so it is in the stage, as after any other failure, until its deployment
// ends.
func (r *revision) done(e entry) bool {
	return r.completed[e] > 0 || e.event == deploylog.Target(e.target).Started() && r.hasFailed(e.target)
}
