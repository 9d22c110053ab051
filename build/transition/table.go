package transition

import "github.com/deployster-go/deployster/build/record"

// Row is one transition.
type Row[S any] struct {
	From  S // the zero state: there is none before
	Event string
	To    S
	When  string // of such an event, where not each has this effect
	Added string // why there is this transition, where the seed does not have it
}

const (
	lost     = "the seed leaves open whether a lost job is tried again"
	retried  = "what a failed or canceled group has built is used"
	damaged  = "an artifact that is missing or altered is built again"
	failFast = "the seed leaves open whether a failure ends what has not begun"
	stopping = "the group fails fast"
	needing  = "it needs the job of the event"
)

// Groups are the transitions of groups.
func Groups() []Row[Group] { return groups }

// Jobs are the transitions of jobs. One event may move many.
func Jobs() []Row[Job] { return jobs }

var groups = []Row[Group]{
	{NoGroup, record.GroupTriggered, Triggered, "", ""},
	{Triggered, record.GroupCreated, Created, "", ""},
	{Created, record.GroupQueued, Queued, "", ""},
	{Queued, record.GroupStarted, Dispatching, "", ""},
	{Dispatching, record.GroupFinished, Complete, "", ""},
	{Dispatching, record.GroupFailing, FailureCleanup, "", ""},
	{Dispatching, record.GroupFailed, Failed, "", ""},
	{FailureCleanup, record.GroupFailed, Failed, "", ""},
	{Triggered, record.GroupCanceling, Canceling, "", ""},
	{Created, record.GroupCanceling, Canceling, "", ""},
	{Queued, record.GroupCanceling, Canceling, "", ""},
	{Dispatching, record.GroupCanceling, Canceling, "", ""},
	{FailureCleanup, record.GroupCanceling, Canceling, "", ""},
	{Canceling, record.GroupCanceled, Canceled, "", ""},
	{Failed, record.GroupRetried, Queued, "", retried},
	{Canceled, record.GroupRetried, Queued, "", retried},
}

var jobs = []Row[Job]{
	{NoJob, record.JobsCreated, Pending, "", ""},
	{Pending, record.GroupStarted, Schedulable, "", ""},
	{Schedulable, record.JobsEligible, Eligible, "it is named", ""},
	{Schedulable, record.JobDependentsEligible, Eligible, "it is named", ""},
	{Eligible, record.JobStarted, Dispatched, "", ""},
	{Dispatched, record.JobFinished, Built, "", ""},
	{Dispatched, record.JobFailed, JobFailed, "", ""},
	{Dispatched, record.JobLost, JobLost, "", ""},
	{JobLost, record.JobEligible, Eligible, "", lost},
	{Schedulable, record.JobEligible, Eligible, "", damaged},
	{JobLost, record.JobFailed, JobFailed, "", lost},

	{Schedulable, record.JobDependentsFailed, DependencyFailed, needing, ""},
	{Eligible, record.JobDependentsFailed, DependencyFailed, needing, damaged},
	{JobLost, record.JobDependentsFailed, DependencyFailed, needing, damaged},

	{Pending, record.GroupCanceling, CancelComplete, "", ""},
	{Schedulable, record.GroupCanceling, CancelComplete, "", ""},
	{Eligible, record.GroupCanceling, CancelComplete, "", ""},
	{JobLost, record.GroupCanceling, CancelComplete, "", ""},
	{Dispatched, record.GroupCanceling, CancelPending, "", ""},
	{CancelPending, record.JobCanceled, CancelComplete, "", ""},
	{CancelPending, record.JobLost, CancelComplete, "", ""},
	{CancelPending, record.JobFinished, Built, "", ""},
	{CancelPending, record.JobFailed, JobFailed, "", ""},

	{Pending, record.GroupFailing, CancelComplete, stopping, failFast},
	{Schedulable, record.GroupFailing, CancelComplete, stopping, failFast},
	{Eligible, record.GroupFailing, CancelComplete, stopping, failFast},
	{JobLost, record.GroupFailing, CancelComplete, stopping, failFast},
	{Schedulable, record.GroupFailed, CancelComplete, stopping, failFast},
	{Eligible, record.GroupFailed, CancelComplete, stopping, failFast},
	{JobLost, record.GroupFailed, CancelComplete, stopping, failFast},
	{JobLost, record.JobCanceled, CancelComplete, stopping, failFast},

	{Built, record.JobSpoiled, Schedulable, "", damaged},
	{Eligible, record.JobSpoiled, Schedulable, "it is named", damaged},
	{JobLost, record.JobSpoiled, Schedulable, "it is named", damaged},

	{JobFailed, record.GroupRetried, Pending, "", retried},
	{DependencyFailed, record.GroupRetried, Pending, "", retried},
	{CancelComplete, record.GroupRetried, Pending, "", retried},
}

var (
	nextGroup = index(groups)
	nextJob   = index(jobs)
)

// index is a table by event and state.
func index[S ~uint8](rows []Row[S]) map[string]*[jobStates]S {
	all := map[string]*[jobStates]S{}
	for _, r := range rows {
		if all[r.Event] == nil {
			all[r.Event] = new([jobStates]S)
		}
		all[r.Event][r.From] = r.To
	}
	return all
}

// NextGroup is the state after an event; ok is false where it does not fit.
func NextGroup(from Group, event string) (to Group, ok bool) { return next(nextGroup, from, event) }

// NextJob is the state after an event; ok is false where it does not fit.
func NextJob(from Job, event string) (to Job, ok bool) { return next(nextJob, from, event) }

func next[S ~uint8](table map[string]*[jobStates]S, from S, event string) (S, bool) {
	of := table[event]
	if of == nil || int(from) >= len(of) || of[from] == 0 {
		return from, false
	}
	return of[from], true
}
