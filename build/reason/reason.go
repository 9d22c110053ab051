package reason

import (
	"cmp"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Code says why something of a build group does not move. Its values never change their
// meaning.
type Code string

// The reasons of groups.
const (
	NotQueued      Code = "not-queued"  // its submission has not ended
	NotStarted     Code = "not-started" // it is the next, and nobody has started it
	OlderFirst     Code = "older-first" // an older group has its turn; also of jobs
	NoDispatcher   Code = "no-dispatcher"
	NoInventory    Code = "inventory-unreadable" // so it is not known which workers there are
	OtherInventory Code = "other-inventory"      // its workers are of another one
	Unbuildable    Code = "unbuildable"          // some packages
	Failing        Code = "failing"              // it has failed, and some jobs still run
	GroupFailed    Code = "group-failed"
	GroupStalled   Code = "stalled" // a fault of the program
)

// The reasons of groups and of jobs.
const (
	NoWorker    Code = "no-worker" // none serves it
	WorkersBusy Code = "workers-busy"
	Canceling   Code = "canceling" // it still runs
	Canceled    Code = "canceled"
)

// The reasons of jobs.
const (
	Ready            Code = "ready"
	InProgress       Code = "in-progress"
	GroupWaits       Code = "group-not-started"
	WaitsForJobs     Code = "waits-for-jobs"
	Rests            Code = "rests" // it was lost, and is tried again later
	JobFailed        Code = "job-failed"
	DependencyFailed Code = "dependency-failed"
)

// Reason is why something does not move.
type Reason struct {
	Target  string `json:"target"`
	Code    Code   `json:"reason"`
	Message string `json:"message"`
	Change  string `json:"change"` // what would change it
	Seq     int64  `json:"event,omitempty"`
}

// Details are what the texts of reasons are made of.
type Details struct {
	Group  string // id
	Seq    int64  // of the event that is responsible
	Cause  string
	By     string // who canceled it
	Place  string // as Place words it; "" where it is not known who serves it
	Jobs   int    // of a group, that wait for a worker of the place
	Worker string
	Slots  int // of all workers that serve the place
	Others string
	Failed string // job that failed, of one that needs it

	Attempt int
	Lost    int
	Until   time.Time
}

// Place words where jobs may be built.
func Place(platform, workers string) string {
	if workers == "" {
		return cmp.Or(platform, "no platform")
	}
	return fmt.Sprintf("%s, on hosts of %s", cmp.Or(platform, "no platform"), workers)
}

// Explain is the reason of a target.
func (d Details) Explain(code Code, target deploylog.Target) Reason {
	r := Reason{Target: string(target), Code: code, Seq: d.Seq}
	r.Message, r.Change = d.text(code)
	return r
}

// text is the message of a reason and what would change it: all sentences are here.
func (d Details) text(code Code) (message, change string) {
	retry := "deployster build retry " + d.Group
	switch code {
	case NotQueued:
		return "its submission has not ended", "deployster build cancel " + d.Group + ", and submitting it again"
	case NotStarted:
		text := "queued, and the next to start"
		if d.Place != "" {
			text += ": a worker is free for it"
		}
		return text, "the dispatcher, which starts it"
	case NoDispatcher:
		return "nobody dispatches jobs, so nothing begins", "deployster build run"
	case OlderFirst:
		return "waiting for its turn: older groups come first, and have work for all workers: " + d.Others, "a worker for which they have no work"
	case Unbuildable:
		return "some of its packages cannot be built: " + d.Cause, "a definition in which they can, submitted again"
	case Failing:
		return fmt.Sprintf("it has failed (event %d), and waits for what still runs: %s", d.Seq, d.Cause), "the end of " + d.Others
	case GroupFailed:
		return fmt.Sprintf("failed (event %d): %s", d.Seq, d.Cause), mended(retry)
	case GroupStalled:
		return "nothing of it moves, which must not be: " + d.Cause, "deployster build cancel " + d.Group + ", and submitting it again; please report it"
	case NoWorker:
		text := "no worker serves " + d.Place
		if d.Jobs > 0 {
			text += ": " + phrase.Count(d.Jobs, "job") + " of it cannot begin"
		}
		return text, "a host of that platform in the inventory that can be reached"
	case WorkersBusy:
		return fmt.Sprintf("waiting for a worker: all that serve %s are busy (%s)", d.Place, phrase.Count(d.Slots, "slot")), "the end of a job there"
	case Canceling:
		if d.Worker != "" {
			return fmt.Sprintf("canceled (event %d)%s, and being stopped on %s, whose engine has to say that it has", d.Seq, d.why(), d.Worker),
				"its end: deployster build run at work, and an answer of " + d.Worker + "; where that is gone for good, taking it out of the inventory"
		}
		return fmt.Sprintf("canceled (event %d)%s, and being stopped", d.Seq, d.why()), "its end"
	case Canceled:
		return fmt.Sprintf("canceled (event %d)%s", d.Seq, d.why()), retry
	default:
		return d.jobText(code, retry)
	}
}

// jobText is the text of a reason that concerns one job alone.
func (d Details) jobText(code Code, retry string) (message, change string) {
	switch code {
	case InProgress:
		return fmt.Sprintf("being built on %s since event %d (attempt %d)", cmp.Or(d.Worker, "a worker"), d.Seq, d.Attempt), "its result"
	case GroupWaits:
		return "its group has not started", "the start of that: deployster build explain " + d.Group
	case WaitsForJobs:
		return "waiting for " + d.Others, "their end"
	case Rests:
		return fmt.Sprintf("lost %s, next try at %s: %s", times(d.Lost), d.Until.Format("15:04:05 MST"), d.Cause), "the next try"
	case JobFailed:
		return fmt.Sprintf("failed (event %d, attempt %d): %s", d.Seq, d.Attempt, d.Cause), mended(retry + " --failed-only")
	case DependencyFailed:
		return fmt.Sprintf("it needs job %s, which failed: %s", d.Failed, d.Cause), mended(retry + " --failed-only")
	default:
		return "ready for the next free worker", "the dispatcher, which starts it"
	}
}

// mended says what helps after a failure. A group carries what its jobs run, so a retry does
// not see a file that was mended.
func mended(retry string) string {
	return "deployster build submit, after the file or its sources are mended: what is built is used again; " + retry + ", where the cause lay outside, e.g. in the network"
}

// why is who canceled something, and the reason that they gave.
func (d Details) why() string {
	text := ""
	if d.By != "" {
		text = " by " + d.By
	}
	if d.Cause != "" {
		text += ": " + d.Cause
	}
	return text
}

func times(n int) string {
	switch n {
	case 0, 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
