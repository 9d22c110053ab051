package pages

import (
	"net/http"
	"slices"
	"strings"

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
	State  string // of the jobs that are shown; "" is any
	Busy   []busyWorker
	States []stateCount
	Jobs   []build.JobReport
	Pages  pager
}

// busyWorker is a worker with what it builds of a group.
type busyWorker struct {
	Name string
	Jobs []build.JobReport
}

// busy are the workers that build something, by their names.
func busy(running []build.JobReport) (all []busyWorker) {
	at := map[string]int{}
	for _, j := range running {
		if _, ok := at[j.Worker]; !ok {
			at[j.Worker] = len(all)
			all = append(all, busyWorker{Name: j.Worker})
		}
		all[at[j.Worker]].Jobs = append(all[at[j.Worker]].Jobs, j)
	}
	slices.SortFunc(all, func(a, b busyWorker) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// mostJobs are on one page.
const mostJobs = 100

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
	body := buildBody{BuildStatus: status, State: r.URL.Query().Get("state"), Busy: busy(status.Running)}
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
