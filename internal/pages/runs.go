package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// runsBody is a list of runs, the newest first.
type runsBody struct {
	Target string
	Runs   []*query.Run
	Older  string // path; "" is none
}

// mostRuns are on one page.
const mostRuns = 50

// runs is the newest runs, or those before an event.
func (p *Pages) runs(r *http.Request, k *known) (page, error) {
	body := runsBody{Target: r.URL.Query().Get("target")}
	f := deploylog.Filter{Target: deploylog.Target(body.Target), Name: deploylog.Target("run/").Started(), Until: k.at, Last: mostRuns + 1}
	if !strings.HasPrefix(body.Target, "run/") {
		f.Target = "run/"
	}
	var began []deploylog.Event
	for e, err := range p.Log.Read(r.Context(), f) {
		if err != nil {
			return page{}, err
		}
		began = append(began, e)
	}
	if len(began) > mostRuns {
		began = began[1:]
		older := url.Values{"at": {fmt.Sprint(began[0].Seq - 1)}}
		if body.Target != "" {
			older.Set("target", body.Target)
		}
		body.Older = "/runs?" + older.Encode()
	}
	for _, e := range slices.Backward(began) {
		run, err := query.RunOf(r.Context(), p.Log, e.Deployment, k.at)
		if err != nil {
			return page{}, err
		}
		body.Runs = append(body.Runs, run)
	}
	return page{Title: "Runs", Tab: "runs", Follow: following("run"), Body: body}, nil
}

// runBody is a run as a tree: its resources, and what was done for each.
type runBody struct {
	*query.Run
	Details   []detail
	Resources []*resourceNode
	Reason    string // why it has no end
}

// detail is something that a run says of itself.
type detail struct{ Name, Value string }

// resourceNode is a resource of a run.
type resourceNode struct {
	Name, Type string
	State      string // of the last event
	Events     []nodeEvent
	Actions    []*actionNode
	Took       time.Duration
	Error      string
	Differs    []diffLine // how what there was differed from the configuration
	Open       bool       // it is shown with all there is
}

// actionNode is an action of a resource.
type actionNode struct {
	Name, Description string
	Args              []string
	State             string
	Attempt           int
	Took              time.Duration
	Exit              *int
	Error             string
	Output            string
}

// nodeEvent is what happened to a resource beside its actions.
type nodeEvent struct {
	Seq  int64
	Name string
	Says string
	At   time.Time
}

// run is one with its tree.
func (p *Pages) run(r *http.Request, k *known) (page, error) {
	id := r.PathValue("id")
	run, err := query.RunOf(r.Context(), p.Log, id, k.at)
	if err != nil {
		return page{}, err
	}
	body := runBody{Run: run}
	if err := body.read(r.Context(), p.Log, k.at); err != nil {
		return page{}, err
	}
	if run.Outcome == query.RunInProgress || run.Outcome == query.RunDied {
		if reasons, err := query.ExplainRuns(r.Context(), p.Log, run.Target); err == nil {
			for _, why := range reasons {
				body.Reason = why.Message
			}
		} else if !errors.Is(err, query.ErrNotFound) {
			return page{}, err
		}
	}
	return page{Title: "Run of " + run.Manifest, Tab: "runs", Follow: following(string(run.Target), "resource", "action"), Body: body}, nil
}

// read makes the tree of the events of the run.
func (b *runBody) read(ctx context.Context, log deploylog.Log, until int64) error {
	byName := map[string]*resourceNode{}
	node := func(name string) *resourceNode {
		if byName[name] == nil {
			byName[name] = &resourceNode{Name: name, State: "waiting"}
			b.Resources = append(b.Resources, byName[name])
		}
		return byName[name]
	}
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: b.Run.Run, Until: until}) {
		if err != nil {
			return err
		}
		data := runs.DataOf(e)
		kind, rest, _ := strings.Cut(string(e.Target), "/")
		switch kind {
		case "run":
			if e.Name != e.Target.Started() {
				continue
			}
			names := make([]string, 0, len(data.Resources))
			for name := range data.Resources {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				node(name).Type = data.Resources[name]
			}
			for _, name := range []string{"command", "user", "host", "workspace", "engine", "deployment", "target", "event"} {
				if value := data.Details[name]; value != "" {
					b.Details = append(b.Details, detail{name, value})
				}
			}
		case "resource":
			node(rest).receive(e, data)
		case "action":
			i := strings.LastIndexByte(rest, '/')
			if i > 0 {
				node(rest[:i]).act(rest[i+1:], e, data)
			}
		}
	}
	return nil
}

// took is a duration of the data of an event.
func took(ms *float64) time.Duration {
	if ms == nil {
		return 0
	}
	return time.Duration(*ms * float64(time.Millisecond))
}

func (n *resourceNode) receive(e deploylog.Event, data runs.Data) {
	n.Took = max(n.Took, took(data.DurationMS))
	says := string(data.Status)
	switch e.Name {
	case e.Target.Started():
		n.State = "running"
	case e.Target.Succeeded():
		n.State = strings.ToLower(cmp.Or(string(data.Status), "finished"))
	case e.Target.Failed(), "resource-lost":
		n.State, n.Error, n.Open = "failed", data.Error, true
	case string(report.ResourceSkipped):
		n.State, n.Error = "skipped", data.Error
	}
	for _, line := range data.Differs {
		n.Differs = append(n.Differs, diffLine{kindOfChange(line), line})
	}
	if len(data.Actions) > 0 {
		says += ", to do: " + strings.Join(data.Actions, ", ")
	}
	if data.Image != "" {
		says = strings.TrimPrefix(says+", image "+data.Image, ", ")
	}
	n.Events = append(n.Events, nodeEvent{e.Seq, e.Name, says, e.CreatedAt})
}

// kindOfChange says by its first character what a line of a difference has become of.
func kindOfChange(line string) string {
	switch {
	case strings.HasPrefix(line, string(diff.Add)):
		return "added"
	case strings.HasPrefix(line, string(diff.Remove)):
		return "removed"
	default:
		return "same"
	}
}

func (n *resourceNode) act(name string, e deploylog.Event, data runs.Data) {
	var a *actionNode
	for _, known := range n.Actions {
		if known.Name == name && known.Attempt == e.Attempt {
			a = known
		}
	}
	if a == nil {
		a = &actionNode{Name: name, Attempt: e.Attempt}
		n.Actions = append(n.Actions, a)
	}
	a.Took, a.Exit = max(a.Took, took(data.DurationMS)), data.Exit
	switch e.Name {
	case e.Target.Started():
		a.State = "running"
		if data.Plan != nil {
			a.Description, a.Args = data.Plan.Description, data.Plan.Args
		}
	case e.Target.Succeeded():
		a.State = "finished"
	default:
		a.State, a.Error, a.Output, n.Open = "failed", data.Error, strings.Join(data.Output, "\n"), true
	}
}
