// Package record is what the log says of build groups: the names of their events, the
// targets that these happen to, and the data that they hold. Whoever folds events, and
// whoever words them, reads them with it; it decides nothing (seed "Implementation of
// build manifest based builds").
//
// A group is a deployment of its own, whose entries nest as it does:
//
//	group-triggered, -created, -jobs-created, -queued       group/base-7
//	group-started, group-jobs-eligible                      group/base-7
//	  job-started                                           job/base-7/12
//	  job-finished-successfully, job-dependents-eligible    job/base-7/12
//	group-finished-successfully                             group/base-7
//
// Every transition of a group or a job is in an event, and is appended together with what
// it causes. A list of jobs in one event stands for an event of each of them.
package record
