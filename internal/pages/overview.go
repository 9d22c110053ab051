package pages

import (
	"net/http"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/scope"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// overviewBody is what is deployed where.
type overviewBody struct {
	Query        string // what the names that are shown begin with
	Environments []environmentRow
	Pipelines    []query.PipelineRow
	More         int // environments and pipelines that are not shown
	Counts       []stateCount
}

// environmentRow is an environment with the revisions that have tasks in it.
type environmentRow struct {
	Name      string
	Status    report.RevisionStatus
	Query     string
	Active    report.Row
	Revisions []report.Row // the newest first
	Paused    bool
	Deleted   bool
}

// stateCount is how many there are of something.
type stateCount struct {
	Name string
	N    int
}

// mostRows is how many rows a table has at most.
const mostRows = 500

// overview is what is deployed where.
func (p *Pages) overview(r *http.Request, k *known) (page, error) {
	body := overviewBody{Query: r.URL.Query().Get("q")}
	counts := map[report.RevisionStatus]int{}
	for _, row := range scope.Rows(r.Context(), identity.Environments, k.environments.List(""), func(e query.EnvironmentRow) string { return e.Name }) {
		if !strings.HasPrefix(row.Name, body.Query) {
			continue
		}
		counts[row.Status]++
		if len(body.Environments) == mostRows {
			body.More++
			continue
		}
		body.Environments = append(body.Environments, environmentRow{Name: row.Name, Status: row.Status, Query: row.Query, Active: row.Row})
	}
	for i := range body.Environments {
		e := &body.Environments[i]
		all, err := k.environments.Status(e.Name)
		if err != nil {
			return page{}, err
		}
		e.Paused = all[0].Pause != nil
		for _, row := range slices.Backward(all[0].Rows) {
			if row.Current > 0 || row.Desired > 0 || row.Revision == e.Active.Revision {
				e.Revisions = append(e.Revisions, row)
			}
		}
	}
	for _, status := range report.RevisionStatuses() {
		if n := counts[status]; n > 0 {
			body.Counts = append(body.Counts, stateCount{string(status), n})
		}
	}
	rows, err := pipelineRows(k)
	if err != nil {
		return page{}, err
	}
	for _, row := range scope.Rows(r.Context(), identity.Pipelines, rows, func(p query.PipelineRow) string { return p.Name }) {
		switch {
		case !strings.HasPrefix(row.Name, body.Query):
		case len(body.Pipelines) == mostRows:
			body.More++
		default:
			body.Pipelines = append(body.Pipelines, row)
		}
	}
	return page{Title: "What is deployed where", Tab: "overview", Follow: following("environment", "task", "pipeline", "stage", "host-group", "host"), Body: body}, nil
}

// pipelineRows are all pipelines by their names, also those that promote by observed state.
func pipelineRows(k *known) ([]query.PipelineRow, error) {
	rows, _ := k.pipelines.List()
	for _, name := range k.promotions.Present() {
		r, _, _, err := k.promoted(name)
		if err != nil {
			return nil, err
		}
		row := query.PipelineRow{Name: name, Stages: len(r.Stages), Deployed: r.Completed}
		if r.Revision != "" && r.Revision != r.Completed {
			row.InProgress = []string{r.Revision}
		}
		for _, s := range r.Stages {
			if s.Promotion != nil && s.Promotion.Status == promotion.Failed {
				row.Failed = s.Promotion.Revision
			}
		}
		if r.Stopped != nil {
			row.Pauses = []pipeline.PauseInfo{{By: r.Stopped.By, Reason: r.Stopped.Reason, Since: r.Stopped.Since}}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b query.PipelineRow) int { return strings.Compare(a.Name, b.Name) })
	return rows, nil
}
