package query

import (
	"cmp"
	"slices"

	environmentreason "github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// The bounds of lists in a document that is not to show everything.
const (
	mostReasons  = 50
	mostChanges  = 100
	mostNames    = 100 // hosts of which the same is said
	mostCauses   = 20  // of these, with causes of their own
	mostRunning  = 100 // revisions in progress of a pipeline
	mostArrivals = 6   // of these, at one of its stages, host groups or hosts
	mostHosts    = 500 // targets that are hosts
)

// leastUrgent is the rank of what only waits its turn, or is over.
const leastUrgent = 3

// mostUrgent are so many of a list, those of the lowest rank and of these the first, in their
// order, and how many are left out.
func mostUrgent[T any](list []T, most int, rank func(T) int) (kept []T, left int) {
	if len(list) <= most {
		return list, 0
	}
	at := make([]int, len(list))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(rank(list[a]), rank(list[b])) })
	at = at[:most]
	slices.Sort(at)
	for _, i := range at {
		kept = append(kept, list[i])
	}
	return kept, len(list) - most
}

// bound replaces a list by its most urgent entries, and notes how many it leaves out.
func bound[T any](b *Bounded, field string, list *[]T, most int, rank func(T) int) {
	if b.All {
		return
	}
	kept, left := mostUrgent(*list, most, rank)
	if *list = kept; left > 0 {
		b.note(field, LeftOut{Entries: left})
	}
}

// Rank is how urgent a reason is, 0 the most: what failed, what somebody has to do, what goes on,
// and what only waits its turn.
func Rank(r reason.Reason) int {
	switch {
	case r.Code == reason.HasFailed:
		return 0
	case r.Blocking():
		return 1
	case r.Code == reason.AwaitsStage, r.Code == reason.NotNew, r.Code == reason.LeftOut, r.Code == reason.CameLater:
		return leastUrgent
	default:
		return 2
	}
}

// RankTask is Rank of a reason of an environment.
func RankTask(r environmentreason.Reason) int {
	switch r.Code {
	case environmentreason.Ready, environmentreason.InProgress, environmentreason.AwaitsHealth:
		return 2
	case environmentreason.AwaitsStep, environmentreason.AwaitsZone, environmentreason.MinHealthy, environmentreason.MaxOver, environmentreason.TaskPaused, environmentreason.Cordoned:
		return 1
	default:
		return 0
	}
}

// RankChange is Rank of what a change of a pipeline does: what is refused or ends is shown first.
func RankChange(c effect.Change) int {
	switch c.Effect {
	case effect.Refused, effect.Ends:
		return 0
	case effect.Runs, effect.Takes:
		return 1
	default:
		return 2
	}
}

// BoundReasons are the most urgent of some reasons, for a field of a document.
func BoundReasons(b *Bounded, field string, all []Alike[reason.Reason]) []Alike[reason.Reason] {
	return boundAlike(b, field, all, mostReasons, Rank)
}

// BoundTasks is BoundReasons of an environment.
func BoundTasks(b *Bounded, field string, all []Alike[environmentreason.Reason]) []Alike[environmentreason.Reason] {
	return boundAlike(b, field, all, mostReasons, RankTask)
}

// BoundChanges are the most urgent of some changes, for a field of a document.
func BoundChanges(b *Bounded, field string, all []Alike[effect.Change]) []Alike[effect.Change] {
	return boundAlike(b, field, all, mostChanges, RankChange)
}

// BoundRemovals are the first of some removals, for a field of a document, each with the first of its resources.
func BoundRemovals(b *Bounded, field string, found Removals) []Removal {
	all := append([]Removal{}, found.All...)
	if found.More > 0 {
		b.note(field, LeftOut{Entries: found.More})
	}
	for i := range all {
		of := Bounded{All: b.All}
		bound(&of, "resources", &all[i].Resources, mostNames, func(string) int { return 0 })
		all[i].LeftOut = of.LeftOut
	}
	return all
}

func boundAlike[T any](b *Bounded, field string, all []Alike[T], most int, rank func(T) int) []Alike[T] {
	bound(b, field, &all, most, func(a Alike[T]) int { return rank(a.First) })
	if b.All {
		return all
	}
	all = slices.Clone(all)
	for i, a := range all {
		all[i] = a.bounded()
	}
	return all
}

// bounded names the first of the hosts, and the causes of the first of these.
func (a Alike[T]) bounded() Alike[T] {
	var b Bounded
	same := func(string) int { return 0 }
	with := slices.Clone(a.Hosts) // causes
	if bound(&b, "hosts", &a.Hosts, mostNames, same); len(a.Causes) > mostCauses {
		bound(&b, "causes", &with, mostCauses, same)
		causes := map[string]string{}
		for _, host := range with {
			causes[host] = a.Causes[host]
		}
		a.Causes = causes
	}
	a.LeftOut = b.LeftOut
	return a
}

// Bound are statuses without most of what there is much of, unless all is asked for: each list
// has what failed, waits or goes on there first, and beside it is said how much it leaves out.
func Bound(list []PipelineStatus, all bool) []PipelineStatus {
	if all {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].bound()
	}
	return list
}

func (p *PipelineStatus) bound() {
	var b Bounded
	p.Waiting = BoundReasons(&b, "waiting", p.Waiting)
	hosts := 0
	for _, r := range p.Rows {
		if r.Host != "" {
			hosts++
		}
	}
	others := len(p.Rows) - hosts // which are never left out
	bound(&b, "targets", &p.Rows, others+mostHosts, TargetRow.rank)
	p.LeftOut = b.LeftOut
	p.Rows = slices.Clone(p.Rows)
	for i := range p.Rows {
		p.Rows[i].bound()
	}
}

// rank is how urgent the row of a target is.
func (r TargetRow) rank() int {
	if r.Host == "" {
		return -1
	}
	rank := leastUrgent
	for _, row := range r.Revisions {
		rank = min(rank, rankRow(row))
	}
	if r.FailedEvent > r.DeployedEvent {
		rank = 0
	}
	return rank
}

func (r *TargetRow) bound() {
	var b Bounded
	most := mostArrivals
	if r.Stage == "" {
		most = mostRunning
	}
	bound(&b, "in_progress", &r.Revisions, most, rankRow)
	same := func(string) int { return 0 }
	bound(&b, "failed_hosts", &r.FailedHosts, mostNames, same)
	failing := map[string][]string{}
	for revision, hosts := range r.Failing {
		bound(&b, "failing", &hosts, mostNames, same)
		failing[revision] = hosts
	}
	if len(failing) > 0 {
		r.Failing = failing
	}
	r.LeftOut = b.LeftOut
}

// rankRow is how urgent a revision in progress at a target is: what has not come there, or has
// left it, is the least.
func rankRow(r pipeline.Row) int {
	switch r.Progress {
	case pipeline.HasFailure:
		return 0
	case pipeline.IsWaiting:
		return 1
	case pipeline.IsRunning:
		return 2
	default:
		return leastUrgent
	}
}
