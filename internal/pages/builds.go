package pages

import (
	"net/http"
	"slices"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/query"
)

// buildsBody is a list of build groups, the newest first.
type buildsBody struct {
	Groups []build.Summary
	Pages  pager
}

// mostGroups are on one page.
const mostGroups = 50

// groups is the build groups.
func (p *Pages) groups(r *http.Request, k *known) (page, error) {
	from, err := number(r, "from")
	if err != nil {
		return page{}, err
	}
	all := k.builds.Groups()
	slices.Reverse(all)
	body := buildsBody{Pages: paged(r, int(from), mostGroups, len(all))}
	body.Groups = all[min(int(from), len(all)):min(int(from)+mostGroups, len(all))]
	return page{Title: "Build groups", Tab: "builds", Follow: following("group", "job"), Body: body}, nil
}

// buildBody is a build group with those of its jobs that are in a state.
type buildBody struct {
	query.BuildStatus
	State   string // of the jobs that are shown; "" is any
	Workers []query.WorkerStatus
	More    int // workers that are not shown
	States  []stateCount
	Jobs    []build.JobReport
	Pages   pager
}

// Ready is how many jobs could be begun.
func (b buildBody) Ready() int { return b.Counts[transition.Eligible] }

// The most that are on one page.
const (
	mostJobs    = 100
	mostWorkers = 100
)

// group is one build group.
func (p *Pages) group(r *http.Request, k *known) (page, error) {
	builds, workers := k.builds, build.Workers(nil)
	if k.present() {
		serve, inventory, err := p.Workers()
		builds, workers = k.builds.Here(inventory, err), serve
	}
	status, err := builds.BuildStatus(r.PathValue("id"), workers)
	if err != nil {
		return page{}, err
	}
	from, err := number(r, "from")
	if err != nil {
		return page{}, err
	}
	body := buildBody{BuildStatus: status, State: r.URL.Query().Get("state")}
	if body.Workers, err = builds.WorkersOf(status, workers); err != nil {
		return page{}, err
	}
	body.More = max(0, len(body.Workers)-mostWorkers)
	body.Workers = body.Workers[:len(body.Workers)-body.More]
	var states []transition.Job
	for _, s := range transition.AllJobs() {
		if n := status.Counts[s]; n > 0 {
			body.States = append(body.States, stateCount{s.String(), n})
		}
		if s.String() == body.State {
			states = append(states, s)
		}
	}
	_, jobs, err := k.builds.Jobs(status.ID, states...)
	if err != nil {
		return page{}, err
	}
	body.Pages = paged(r, int(from), mostJobs, len(jobs))
	body.Jobs = jobs[min(int(from), len(jobs)):min(int(from)+mostJobs, len(jobs))]
	return page{Title: "Build group " + status.Name, Tab: "builds", Follow: following("group/"+status.ID, "job/"+status.ID), Body: body}, nil
}
