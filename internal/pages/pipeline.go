package pages

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// pipelineBody is a pipeline with the revisions in it.
type pipelineBody struct {
	Name      string
	Pauses    []pipeline.PauseInfo
	Layers    [][]stageCard // those that come after one another
	Deployed  string
	Failed    string
	Batches   []string
	Reasons   []revisionReasons
	Quiet     int             // reasons that only say that something else comes first
	Releases  []query.Release // the newest first
	Earlier   int             // releases that are not shown
	Elsewhere *reason.Reason
}

// stageCard is a stage with what is there, and what is on its way through.
type stageCard struct {
	Name     string
	Deployed string
	Failed   string // later than what is deployed
	Shut     []string
	Paused   bool
	Here     []arrival
	Groups   []groupRow
}

// groupRow is a host group of a stage.
type groupRow struct {
	Name     string
	Hosts    int
	Deployed string
	Failing  []string
	Here     []arrival
}

// arrival is a revision that has come to a place and not left it.
type arrival struct {
	Revision string
	State    string // running, waiting or failed
	Again    string
	Done, Of int // hosts
	Failed   int
}

// revisionReasons are why a revision does not move.
type revisionReasons struct {
	Revision string
	Reasons  []shownReason
}

// shownReason is why something does not move, with the hosts of which the same is to be said.
type shownReason struct {
	Target  string
	Code    string
	Event   string
	State   string // of how urgent it is
	Message string
	Change  string
	Seq     int64
	Run     string
}

// mostReleases are shown of a pipeline.
const mostReleases = 15

// pipeline is one with its revisions.
func (p *Pages) pipeline(r *http.Request, k *known) (page, error) {
	name := r.PathValue("name")
	if promoted, is, err := p.promotedPipeline(k, name); is || err != nil {
		return promoted, err
	}
	if err := k.pipelines.Check(name); err != nil {
		return page{}, err
	}
	all, err := k.pipelines.Status(false, false, name)
	if err != nil {
		return page{}, err
	}
	body := bodyOf(all[0])
	reasons, err := k.pipelines.Explain(record.Target(name), p.Hosts, k.present())
	if err != nil {
		return page{}, err
	}
	body.explain(query.AlikeReasons(reasons, false))
	releases, err := k.pipelines.Releases(name)
	if err != nil {
		return page{}, err
	}
	slices.Reverse(releases)
	body.Earlier = max(0, len(releases)-mostReleases)
	body.Releases = releases[:len(releases)-body.Earlier]
	if k.present() {
		body.Elsewhere = k.pipelines.Elsewhere(name, p.Hosts.Identity())
	}
	return page{
		Title: name, Tab: "overview", look: "pipeline", Body: body,
		Follow: following("pipeline/"+name, "stage/"+name, "host-group/"+name, "host/"+name, "run"),
	}, nil
}

// bodyOf is what a status says of stages and host groups.
func bodyOf(status query.PipelineStatus) pipelineBody {
	body := pipelineBody{Name: status.Name, Pauses: status.Pauses}
	for _, b := range status.Batches {
		body.Batches = append(body.Batches, b.From+" to "+b.To)
	}
	depth := map[string]int{}
	at := map[string][2]int{} // where the card of a stage is
	for _, row := range status.Rows {
		switch {
		case row.Stage == "":
			body.Deployed, body.Failed = row.Deployed, row.Failed
		case row.Group == "":
			for _, before := range row.After {
				depth[row.Stage] = max(depth[row.Stage], depth[before]+1)
			}
			d := depth[row.Stage]
			for len(body.Layers) <= d {
				body.Layers = append(body.Layers, nil)
			}
			card := stageCard{Name: row.Stage, Deployed: row.Deployed, Here: arrivals(row)}
			if row.FailedEvent > row.DeployedEvent {
				card.Failed = row.Failed
			}
			card.Paused = slices.ContainsFunc(status.Pauses, func(p pipeline.PauseInfo) bool { return p.Stage == row.Stage })
			for _, s := range status.Shut {
				if s.By == row.Target || s.Target == row.Target {
					card.Shut = append(card.Shut, s.Message())
				}
			}
			at[row.Stage] = [2]int{d, len(body.Layers[d])}
			body.Layers[d] = append(body.Layers[d], card)
		default:
			card := &body.Layers[at[row.Stage][0]][at[row.Stage][1]]
			card.Groups = append(card.Groups, groupRow{Name: row.Group, Hosts: row.Hosts, Deployed: row.Deployed, Failing: row.FailedHosts, Here: arrivals(row)})
		}
	}
	return body
}

// arrivals are the revisions that have come to a place and not left it.
func arrivals(row query.TargetRow) (here []arrival) {
	for _, r := range row.Revisions {
		state := ""
		switch r.Progress {
		case pipeline.IsRunning:
			state = "running"
		case pipeline.IsWaiting:
			state = "waiting"
		case pipeline.HasFailure:
			state = "failed"
		default:
			continue
		}
		if r.Failed > 0 {
			state = "failed"
		}
		here = append(here, arrival{Revision: r.Revision, State: state, Again: row.Again[r.Deployment], Done: r.Hosts - r.Open - r.Failed, Of: r.Hosts, Failed: r.Failed})
	}
	return here
}

// explain sorts reasons by the revisions of which they are, those first that somebody has to
// do something about. Those that only say that something else comes first are counted.
func (b *pipelineBody) explain(reasons []query.Alike[reason.Reason]) {
	at := map[string]int{}
	for _, a := range reasons {
		r := a.First
		state := "running"
		switch {
		case r.Code == reason.HasFailed:
			state = "failed"
		case r.Blocking():
			state = "waiting"
		case r.Code == reason.AwaitsStage, r.Code == reason.NotNew, r.Code == reason.LeftOut, r.Code == reason.CameLater:
			b.Quiet++
			continue
		}
		i, known := at[r.Revision]
		if !known {
			i = len(b.Reasons)
			at[r.Revision] = i
			b.Reasons = append(b.Reasons, revisionReasons{Revision: r.Revision})
		}
		b.Reasons[i].Reasons = append(b.Reasons[i].Reasons, shownReason{
			Target: a.Name(string(r.Target)), Code: string(r.Code), Event: r.Event, State: state, Message: r.Message(), Change: r.Change(), Seq: r.Seq, Run: r.Run,
		})
	}
	urgency := func(r shownReason) int { return slices.Index([]string{"failed", "waiting", "running"}, r.State) }
	for _, r := range b.Reasons {
		slices.SortStableFunc(r.Reasons, func(a, b shownReason) int { return cmp.Compare(urgency(a), urgency(b)) })
	}
}

// Rollout is what a release says of itself beside its revision.
func (b pipelineBody) Kind(r query.Release) string {
	switch {
	case r.Rollback != nil:
		return "rollback of " + r.Rollback.Stage
	case r.Redo != nil:
		return strings.TrimSpace(string(r.Redo.What) + " of " + r.Redo.Stage)
	case r.Fix:
		return "fix"
	default:
		return ""
	}
}
