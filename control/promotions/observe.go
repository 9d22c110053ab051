package promotions

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// observe is what an environment runs, by its events: the value of a variable of its active
// definition, if every healthy task has that.
func observe(s *environment.State, variable string) promotion.Observation {
	r := s.Report()
	seen := promotion.Observation{Health: promotion.Partly, Event: r.Event}
	if !s.Exists() {
		return promotion.Observation{Health: promotion.Unknown, Event: r.Event, Why: "it was deleted", Deleted: true}
	}
	values := values{s, variable, map[int]string{}}
	all := s.Deployments()
	seen.Begun = begun(all)
	for _, d := range slices.Backward(all) {
		if d.Kind == record.ByRollback && !d.Automatic {
			seen.RolledBack = promotion.Rollback{Event: d.Seq, By: d.By, Reason: d.Reason}
			break
		}
	}
	active, deployed := s.ActiveDeployment()
	if !deployed || active.Kind == record.ByDelete {
		seen.Why = "nothing is deployed"
		return seen
	}
	seen.Revision, seen.Value = values.text(active.Revision), values.raw(active.Revision)
	seen.Active = promotion.Deployment{ID: active.ID, Revision: seen.Revision, Status: promotion.Deploying, Cause: active.Cause}
	seen.Came, seen.Arrived = arrivals(all, values)
	switch active.Status {
	case report.DeploymentStuck:
		seen.Active.Status = promotion.Stuck
	case report.DeploymentFinished:
		seen.Active.Status = promotion.Deployed
	default:
		seen.Moving = r.Pause == nil && !s.AwaitsHosts()
		seen.Runs = add(seen.Runs, seen.Revision)
	}
	hosts(&seen, r, values)
	return seen
}

// begun are the deployments that a step of a pipeline began.
func begun(all []report.Deployment) map[string]promotion.Begun {
	found := map[string]promotion.Begun{}
	for _, d := range all {
		if d.Step != "" {
			found[d.Step] = promotion.Begun{Deployment: d.ID, Event: d.Seq, Revision: d.Revision}
		}
	}
	return found
}

// values are the revisions that the revisions of an environment stand for.
type values struct {
	state    *environment.State
	variable string
	known    map[int]string
}

func (v values) raw(revision int) any {
	r, err := v.state.Revision(revision)
	if err != nil {
		return nil
	}
	return r.Definition.Task.Vars[v.variable]
}

// text is the revision, "" where the variable has none.
func (v values) text(revision int) string {
	text, ok := v.known[revision]
	if !ok {
		text = promotion.TextOf(v.raw(revision))
		v.known[revision] = text
	}
	return text
}

// arrivals are the events of the first of the last deployments in a row that have one revision. By came,
// those between them do not count that never finished: what they were to bring was never there as a whole.
// By arrived, they do count if somebody rolled back or deployed the revision again. A deployment that
// fails and is taken back automatically never counts, for nobody has decided anything.
func arrivals(all []report.Deployment, v values) (came, arrived int64) {
	if len(all) == 0 {
		return 0, 0
	}
	of := v.text(all[len(all)-1].Revision)
	anew := false                // another one came between, by arrived
	var first *report.Deployment // of the row, so far
	for i := len(all) - 1; i >= 0; i-- {
		d := &all[i]
		failed := (d.Status == report.DeploymentSuperseded || d.Status == report.DeploymentStuck) && d.BakeFailed == ""
		byHand := d.Kind == record.ByRollback && !d.Automatic
		switch {
		case d.Kind == record.ByDelete:
			return came, arrived
		case v.text(d.Revision) == of:
			if first, came = d, d.Seq; !anew {
				arrived = d.Seq
			}
		case !failed:
			return came, arrived
		case first.Version >= record.CountsTakenBack && (byHand || !first.Automatic):
			anew = true
		}
	}
	return came, arrived
}

func add(all []string, revision string) []string {
	if revision == "" || slices.Contains(all, revision) {
		return all
	}
	return append(all, revision)
}

// hosts finds out what the targets run, and whether that is one revision, healthy, on all.
func hosts(seen *promotion.Observation, r report.Report, v values) {
	var wrong, lost []string
	healthy := 0
	seen.Since = r.Deployment.Ended
	for _, h := range r.Hosts {
		tolerated := slices.Contains(r.Exceptions, h.Host)
		mine := false
		for _, t := range h.Tasks {
			text := v.text(t.Revision)
			if t.Status != report.TaskFailed {
				seen.Runs = add(seen.Runs, text)
			}
			switch {
			case t.Status == report.TaskLost || h.Lost:
				lost = append(lost, h.Host)
			case t.Status == report.TaskHealthy && text == seen.Revision:
				mine = true
				healthy++
				if t.Since.After(seen.Since) {
					seen.Since = t.Since
				}
			case t.Status == report.TaskHealthy:
				wrong = append(wrong, fmt.Sprintf("%s runs revision %s", h.Host, text))
			}
		}
		if h.Desired && !mine && !tolerated && len(wrong) < mostNamed {
			wrong = append(wrong, h.Host+" does not run it, or is not healthy")
		}
	}
	switch {
	case len(lost) > 0:
		seen.Health, seen.Why = promotion.Unknown, "the state of "+phrase.First(slices.Compact(lost), mostNamed)+" is not known"
	case seen.Revision == "":
		seen.Why = fmt.Sprintf("its active revision has no text or number in task.vars.%s", v.variable)
	case seen.Active.Status == promotion.Stuck:
		seen.Why = "its deployment is stuck: " + seen.Active.Cause
	case seen.Active.Status == promotion.Deploying:
		seen.Why = "it is being deployed"
	case len(wrong) > 0:
		seen.Why = phrase.First(wrong, mostNamed)
	case healthy == 0:
		seen.Why = "it has no healthy task"
	default:
		seen.Health = promotion.Whole
	}
}

// mostNamed is how many hosts a reason names.
const mostNamed = 3
