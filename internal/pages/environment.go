package pages

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/query"
)

// hostState is how a host of a rollout is, as one cell of the grid has it.
type hostState struct {
	Code byte   // in the grid
	Name string // on the page
	Says string // what it means
}

// The states of hosts, those first that somebody has to look at.
var hostStates = [...]hostState{
	{'f', "failed", "its task failed, died, or did not pass its check"},
	{'l', "lost", "it is not known how its task is"},
	{'d', "drifted", "its task is not as it was configured"},
	{'x', "cordoned", "it gets no task"},
	{'w', "waiting", "it should have a task, and has none"},
	{'s', "starting", "its task has started, and is not healthy for long enough yet"},
	{'t', "terminating", "a task is being terminated"},
	{'o', "older", "a healthy task of another revision"},
	{'c', "current", "a healthy task of the revision that is deployed"},
}

// stateOf is how a host is, whose tasks are to be of a revision.
func stateOf(h report.HostRow, revision int) hostState {
	code := byte('w')
	if h.Passed {
		code = 'x'
	}
	if !h.Desired && !h.Passed {
		code = 't'
	}
	for _, t := range h.Tasks {
		switch t.Status {
		case report.TaskHealthy:
			if code = 'o'; t.Revision == revision {
				code = 'c'
			}
		case report.TaskStarting, report.TaskLaunched:
			code = 's'
		case report.TaskTerminating:
			code = 't'
		case report.TaskDrifted:
			code = 'd'
		case report.TaskLost:
			code = 'l'
		case report.TaskFailed, report.TaskDied:
			code = 'f'
		}
	}
	switch {
	case h.Failed || h.Check != nil:
		code = 'f'
	case h.Lost:
		code = 'l'
	}
	for _, s := range hostStates {
		if s.Code == code {
			return s
		}
	}
	return hostState{}
}

// codeOf is what the grid has for a state.
func codeOf(name string) string {
	for _, s := range hostStates {
		if s.Name == name {
			return string(s.Code)
		}
	}
	return ""
}

// environmentBody is the rollout of an environment.
type environmentBody struct {
	report.Report
	Reasons  []query.Alike[reason.Reason]
	States   []stateCount  // of hosts
	Grid     template.HTML // empty where it is only asked what has changed
	Codes    string        // the states of all hosts, in the order of their names
	Names    string        // a hash of the names of all hosts, in their order
	Filter   hostFilter    //
	Shown    []hostDetails // hosts that the filter selects
	Selected int           // how many it selects
	Pages    pager
}

// hostDetails is a host that is shown with all there is to say of it.
type hostDetails struct {
	report.HostRow
	State hostState
}

// hostFilter selects hosts.
type hostFilter struct {
	State, Host string // "" is any, or all that are not current where no host is named
	States      []hostState
}

func (f hostFilter) selects(host string, s hostState) bool {
	switch {
	case !strings.HasPrefix(host, f.Host):
		return false
	case f.State == "all", f.State == "" && f.Host != "":
		return true
	case f.State == "":
		return s.Code != 'c' && s.Code != 'o'
	default:
		return s.Name == f.State
	}
}

// mostHosts are on one page of details.
const mostHosts = 50

// environment is the rollout of one.
func (p *Pages) environment(r *http.Request, k *known) (page, error) {
	name, values := r.PathValue("name"), r.URL.Query()
	all, err := k.environments.Status(name)
	if err != nil {
		return page{}, err
	}
	body := environmentBody{Report: all[0], Filter: hostFilter{State: values.Get("state"), Host: values.Get("host"), States: hostStates[:]}}
	from, err := number(r, "from")
	if err != nil {
		return page{}, err
	}
	body.hosts(int(from), r.Header.Get("Deployster-Live") == "", k.at)
	body.Pages = paged(r, int(from), mostHosts, body.Selected)
	reasons, err := k.environments.Explain(record.Target(name), p.Hosts.Identity(), k.present())
	if err != nil {
		return page{}, err
	}
	body.Reasons = query.AlikeTasks(reasons, false)
	return page{Title: name, Tab: "overview", Follow: following("environment/"+name, "task/"+name), Body: body}, nil
}

// hosts sorts the hosts by how they are, and picks those that are shown with details.
func (b *environmentBody) hosts(from int, shown bool, at int64) {
	counts, codes, names := map[byte]int{}, make([]byte, len(b.Hosts)), fnv.New64a()
	revision := 0
	if b.Deployment != nil {
		revision = b.Deployment.Revision
	}
	grid := grid{at: at}
	for i, h := range b.Hosts {
		s := stateOf(h, revision)
		counts[s.Code]++
		codes[i] = s.Code
		_, _ = names.Write(append([]byte(h.Host), 0))
		if shown {
			grid.add(h.Host, s)
		}
		if b.Filter.selects(h.Host, s) {
			if b.Selected >= from && len(b.Shown) < mostHosts {
				b.Shown = append(b.Shown, hostDetails{h, s})
			}
			b.Selected++
		}
	}
	b.Grid = grid.html()
	b.Codes, b.Names = string(codes), fmt.Sprintf("%x", names.Sum64())
	for _, s := range hostStates {
		if n := counts[s.Code]; n > 0 {
			b.States = append(b.States, stateCount{s.Name, n})
		}
	}
}

// Means says what a state of hosts is.
func (b environmentBody) Means(state string) string {
	for _, s := range hostStates {
		if s.Name == state {
			return s.Says
		}
	}
	return ""
}

// mostRevisions are shown of those that have no tasks any more.
const mostRevisions = 3

// Newest are the revisions that are shown, the newest first.
func (b environmentBody) Newest() (rows []report.Row) {
	quiet := 0
	for _, row := range slices.Backward(b.Rows) {
		if row.Current == 0 && row.Desired == 0 {
			if quiet++; quiet > mostRevisions {
				continue
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Earlier is how many revisions are not shown.
func (b environmentBody) Earlier() int { return len(b.Rows) - len(b.Newest()) }

// Baked is until when a deployment that has finished can still fail; zero is that it cannot.
func (b environmentBody) Baked() (until time.Time) {
	if b.Baking && b.Deployment != nil {
		until = b.Deployment.BakeUntil
	}
	return until
}

// pager leads to what is before and behind what is shown of a long list.
type pager struct {
	From, To, Of   int    // counted from 1
	Before, Behind string // paths; "" is none
}

// paged is the pager of a page that shows so many of a list.
func paged(r *http.Request, from, most, of int) pager {
	g := pager{From: min(from+1, of), To: min(from+most, of), Of: of}
	at := func(from int) string {
		values := url.Values{}
		for name, value := range r.URL.Query() {
			values[name] = value
		}
		values.Set("from", fmt.Sprint(from))
		return r.URL.EscapedPath() + "?" + values.Encode()
	}
	if from > 0 {
		g.Before = at(max(0, from-most))
	}
	if from+most < of {
		g.Behind = at(from + most)
	}
	return g
}
