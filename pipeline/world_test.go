package pipeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// cases runs a property on so many cases, or ten times as many in the long run, unless the command line says how many.
func cases(t *testing.T, n int, property func(*rapid.T)) {
	checks := flag.Lookup("rapid.checks")
	if was := checks.Value.String(); was == checks.DefValue {
		require.NoError(t, checks.Value.Set(strconv.Itoa(ringtest.Cases(n, 10*n))))
		t.Cleanup(func() { _ = checks.Value.Set(was) })
	}
	rapid.Check(t, property)
}

// world is a pipeline, its log, and what is under way: the place of the scheduler and of people is taken by chance.
type world struct {
	*rapid.T
	state    *State
	oracle   *naive
	log      []deploylog.Event
	recorded map[string]bool // as a store knows what it has
	running  []step.Step
	ids      int
	steady   bool // the definition never changes
	now      time.Time
	carried  carriedOracle
	short    []deploylog.Event // what was needed of the log up to an event
	upTo     int               // events of the log that short stands for
}

func newWorld(t *rapid.T) *world {
	return &world{T: t, state: New("p"), oracle: newNaive("p"), now: noon, recorded: map[string]bool{}}
}

func (w *world) id() string                    { w.ids++; return fmt.Sprintf("d%d", w.ids) }
func (w *world) n(limit int, label string) int { return rapid.IntRange(0, limit-1).Draw(w.T, label) }

func (w *world) append(events ...deploylog.Event) {
	for _, e := range events {
		require.NoError(w, e.Validate(), "event that no store takes")
		key := fmt.Sprintf("%s %s %s %d", e.Deployment, e.Target, e.Name, e.Attempt)
		if w.recorded[key] {
			continue
		}
		w.recorded[key] = true
		e.Seq, e.CreatedAt = int64(len(w.log)+1), w.now
		w.log = append(w.log, e)
		w.state.Apply(e)
		w.oracle.apply(e)
		w.carried.apply(e, func(deployment string) bool { return w.state.byID[deployment] != nil })
		steps := slices.Collect(w.state.Decide(noon, Can{}))
		problem := cmp.Or(w.carried.check(steps), w.checkSkips(steps), w.checkMixed(e))
		if e.Seq%4 == 0 { // what is derived wrongly stays so
			problem = cmp.Or(problem, w.state.drift())
		}
		if problem != "" {
			w.Fatalf("after event %d %s %s: %s\n%s", e.Seq, e.Target, e.Name, problem, w.story())
		}
	}
}

func (w *world) propose(c Command) error {
	events, err := w.state.Propose(c, w.now)
	if err == nil {
		w.append(events...)
	}
	return err
}

func (w *world) define(d *definition.Definition) {
	copied := cloneDefinition(d)
	define := Define{Definition: copied, ID: w.id()}
	define.Carries = w.files(copied, define.ID)
	if n := len(w.state.Registrations()); n > 0 && w.n(4, "adopts") == 0 {
		define.Adopt = []string{w.anyRevision()}
	}
	otherwise := w.passedOtherwise(copied)
	err := w.propose(define)
	var refused *refusal.Error
	if errors.As(err, &refused) && (refused.Code == NotRunning || refused.Code == AlreadyApproved) && len(define.Adopt) > 0 {
		define.Adopt = nil // it has ended, or was approved
		err = w.propose(define)
	}
	if errors.As(err, &refused) && refused.Code == OtherStage {
		require.Contains(w, otherwise, strings.Fields(refused.Error())[1], "no revision has passed a stage that would become an approval, or was one: %v", err)
		return
	}
	require.NoError(w, err)
	require.Empty(w, otherwise, "revisions have passed these stages as an approval that is none any more, or the other way round")
}

// passedOtherwise returns the stages of a definition that are an approval, while the last that passed them
// passed no approval, or the other way round. Those that the present definition has as they are stay so.
func (w *world) passedOtherwise(d *definition.Definition) (names []string) {
	approvals := func(d *definition.Definition) map[string]bool {
		all := map[string]bool{}
		if d != nil {
			for _, s := range d.Stages {
				all[s.Name] = s.Approval != nil
			}
		}
		return all
	}
	then, passed := map[string]bool{}, map[string]bool{} // whether they were approvals
	for _, e := range w.log {
		switch e.Name {
		case record.PipelineDefined:
			then = approvals(record.Read(e.Data).Definition)
		case record.StageFinished:
			name := strings.TrimPrefix(string(e.Target), string(record.StageTarget("p", "")))
			delete(passed, name)
			if approval, has := then[name]; has {
				passed[name] = approval
			}
		}
	}
	present := approvals(w.state.Definition())
	for name, approval := range approvals(d) {
		was, has := passed[name]
		now, stays := present[name]
		if has && was != approval && (!stays || now != approval) {
			names = append(names, name)
		}
	}
	return names
}

func cloneDefinition(d *definition.Definition) *definition.Definition {
	data, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	var copied definition.Definition
	if err := json.Unmarshal(data, &copied); err != nil {
		panic(err)
	}
	return &copied
}

func (w *world) complete(s step.Step) {
	made := map[string]string{}
	for _, kind := range s.Artifacts {
		made[kind] = "ref-of-" + kind
	}
	events := must.Get(s.Completed(made))(w)
	w.append(events...)
}

var (
	someKinds  = []string{"x86", "aarch64", "raspbian"}
	someEvents = []string{"host-artifact-replicated", "host-deployed", "host-tested"}
	someGroups = []string{"g1", "g2", "g3"}
	someHosts  = []string{"w1", "w2", "w3"}
)

func (w *world) stage(name string, groups []string) definition.Stage {
	s := definition.Stage{Name: name}
	if goes := w.n(3, "stops") > 0; !goes {
		s.StopOnFailure = &goes
	}
	switch w.n(8, "kind") {
	case 0:
		s.Run = &definition.Run{Manifest: "run.yaml"}
	case 1:
		s.Approval = &definition.Approval{Approvals: w.n(4, "approvals")}
		if w.n(2, "timed") == 0 {
			s.Approval.Expires = duration.Duration(w.n(60, "seconds")+1) * duration.Duration(time.Second)
		}
	case 2:
		s.Build = &definition.Build{Artifacts: slices.Clone(someKinds[:w.n(3, "kinds")])}
		if w.n(2, "timed") == 0 {
			s.Build.Timeout = duration.Duration(w.n(60, "seconds")+1) * duration.Duration(time.Second)
		}
	case 3:
		s.Build = &definition.Build{Artifacts: slices.Clone(someKinds[:w.n(3, "kinds")]), Manifest: "build.yaml"}
		if w.n(2, "of packages") == 0 {
			s.Build = &definition.Build{Group: "packages.yaml"}
		}
	default:
		s.Deploy = &definition.Deploy{}
		for _, g := range groups {
			group := definition.HostGroup{Name: g, Hosts: "attribute:group == " + g}
			if w.n(3, "lenient") == 0 {
				group.MaxFailed = budget.Budget{Percent: 50}
			}
			if w.n(3, "in flight") == 0 {
				group.MaxInFlight = &[]budget.Budget{{Count: 1}, {Count: 2}, {Percent: 10}, {Percent: 70}}[w.n(4, "may be in flight")]
			}
			group.AllowEmpty = w.n(3, "allow empty") == 0
			if w.n(3, "others may leave") == 0 {
				group.MaxLeaving = &[]budget.Budget{{}, {Count: 1}, {Percent: 1}, {Percent: 100}}[w.n(4, "may leave")]
			}
			s.Deploy.HostGroups = append(s.Deploy.HostGroups, group)
		}
		first := w.n(2, "first step")
		for _, event := range someEvents[first : first+1+w.n(2, "steps")] {
			s.Deploy.Steps = append(s.Deploy.Steps, definition.HostStep{Event: event, Manifest: event + ".yaml"})
		}
	}
	return s
}

func (w *world) pipeline() *definition.Definition {
	d := &definition.Definition{Name: "p"}
	for range 1 + w.n(3, "stages") {
		w.insert(d)
	}
	w.batch(d)
	d.Supersede = w.n(3, "supersede") == 0
	return d
}

func freeGroups(d *definition.Definition) []string {
	free := slices.Clone(someGroups)
	for _, g := range d.Groups() {
		free = slices.DeleteFunc(free, func(name string) bool { return name == g.Name })
	}
	return free
}

// insert puts a stage anywhere into the pipeline.
func (w *world) insert(d *definition.Definition) {
	name := ""
	for _, candidate := range []string{"a", "b", "c", "d"} {
		if !slices.ContainsFunc(d.Stages, func(s definition.Stage) bool { return s.Name == candidate }) {
			name = candidate
			break
		}
	}
	if name == "" {
		return
	}
	free := freeGroups(d)
	s := w.stage(name, free[:min(len(free), w.n(3, "groups"))])
	at := w.n(len(d.Stages)+1, "where")
	d.Stages = slices.Insert(d.Stages, at, s)
	if at > 0 {
		w.rewire(d, at)
	}
	if at+1 < len(d.Stages) {
		d.Stages[at+1].After = []string{name} // the one behind now comes after it
	}
}

// rewire draws after which earlier stages a stage comes.
func (w *world) rewire(d *definition.Definition, at int) {
	d.Stages[at].After = nil
	for i := range at {
		if w.n(3, "after") > 0 && len(d.Stages[at].After) < 2 {
			d.Stages[at].After = append(d.Stages[at].After, d.Stages[i].Name)
		}
	}
}

func (w *world) batch(d *definition.Definition) {
	d.Batches = nil
	for range w.n(3, "batches") {
		from := w.n(len(d.Stages), "from")
		for to := len(d.Stages) - 1; to > from; to-- {
			if follows(d, from, to) && w.n(3, "so far") > 0 {
				d.Batches = append(d.Batches, definition.Batch{From: d.Stages[from].Name, To: d.Stages[to].Name})
				break
			}
		}
	}
}

func follows(d *definition.Definition, from, to int) bool {
	if from == to {
		return true
	}
	for i := from; i < to; i++ {
		if slices.Contains(d.Stages[to].After, d.Stages[i].Name) && follows(d, from, i) {
			return true
		}
	}
	return false
}

func (w *world) change(d *definition.Definition) *definition.Definition {
	d = cloneDefinition(d)
	at := w.n(len(d.Stages), "which")
	s := &d.Stages[at]
	switch w.n(9, "change") {
	case 0, 1:
		w.insert(d)
	case 2:
		removeStage(d, at)
	case 3:
		w.rewire(d, at)
	case 4, 5:
		if s.Build != nil && s.Build.Group == "" {
			s.Build.Artifacts = slices.Clone(someKinds[:w.n(4, "kinds")])
		}
		if s.Deploy != nil {
			w.changeSteps(s.Deploy)
		}
		if s.Approval != nil {
			s.Approval.Approvals = w.n(4, "approvals")
		}
		if s.Run != nil {
			s.Run.Manifest = []string{"run.yaml", "shared.yaml"}[w.n(2, "manifest")]
		}
	case 6:
		if s.Deploy != nil {
			w.changeGroup(d, s.Deploy)
		}
	case 7: // the stage does something else
		var groups []string
		if s.Deploy != nil {
			for _, g := range s.Deploy.HostGroups {
				groups = append(groups, g.Name)
			}
		}
		changed := w.stage(s.Name, groups)
		changed.After = s.After
		*s = changed
	}
	keepBatches(d)
	if w.n(6, "other policy") == 0 {
		d.Supersede = !d.Supersede
	}
	if w.n(4, "other batches") == 0 {
		w.batch(d)
	}
	return d
}

func removeStage(d *definition.Definition, at int) {
	if len(d.Stages) == 1 {
		return
	}
	name := d.Stages[at].Name
	d.Stages = slices.Delete(d.Stages, at, at+1)
	for i := range d.Stages {
		d.Stages[i].After = slices.DeleteFunc(d.Stages[i].After, func(b string) bool { return b == name })
	}
}

func (w *world) changeSteps(d *definition.Deploy) {
	for _, event := range someEvents {
		d.Steps = slices.DeleteFunc(d.Steps, func(h definition.HostStep) bool { return h.Event == event && w.n(3, "goes") == 0 })
		if !slices.Contains(eventsOf(d), event) && w.n(2, "comes") == 0 {
			i := w.n(len(d.Steps)+1, "where")
			d.Steps = slices.Insert(d.Steps, i, definition.HostStep{Event: event, Manifest: event + ".yaml"})
		}
	}
	for i := range d.Steps {
		if w.n(3, "another manifest") == 0 {
			d.Steps[i].Manifest = []string{d.Steps[i].Event + ".yaml", d.Steps[i].Event + "2.yaml", "shared.yaml"}[w.n(3, "manifest")]
		}
	}
}

func (w *world) changeGroup(d *definition.Definition, of *definition.Deploy) {
	name := someGroups[w.n(len(someGroups), "group")]
	had := slices.ContainsFunc(of.HostGroups, func(g definition.HostGroup) bool { return g.Name == name })
	for i := range d.Stages {
		if o := d.Stages[i].Deploy; o != nil {
			o.HostGroups = slices.DeleteFunc(o.HostGroups, func(g definition.HostGroup) bool { return g.Name == name })
		}
	}
	if !had {
		of.HostGroups = append(of.HostGroups, definition.HostGroup{Name: name, Hosts: "attribute:group == " + name})
	}
}

func keepBatches(d *definition.Definition) {
	keep := d.Batches
	d.Batches = nil
	index := func(name string) int {
		return slices.IndexFunc(d.Stages, func(s definition.Stage) bool { return s.Name == name })
	}
	for _, b := range keep {
		if from, to := index(b.From), index(b.To); from >= 0 && to > from && follows(d, from, to) {
			d.Batches = append(d.Batches, b)
		}
	}
}

func (w *world) setMembers() {
	members := map[string][]string{}
	for _, g := range w.state.Definition().Groups() {
		if _, known := w.state.Members(g.Name); known && w.n(2, "leave") == 0 {
			continue
		}
		var hosts []string
		for _, h := range someHosts {
			if w.n(5, "member") > 1 {
				hosts = append(hosts, h)
			}
		}
		members[g.Name] = hosts
	}
	before := map[string][]string{}
	for name := range members {
		before[name], _ = w.state.Members(name)
	}
	require.NoError(w, w.propose(SetMembers{Members: members, ID: w.id()}))
	for _, g := range w.state.Definition().Groups() {
		if selected, given := members[g.Name]; given {
			w.checkMembers(g, before[g.Name], selected)
		}
	}
}

// checkMembers holds that a group has the hosts that were selected, unless they are too
// few to be believed: then it has those of before, and holds.
func (w *world) checkMembers(g *definition.HostGroup, before, selected []string) {
	lost := 0
	for _, h := range before {
		if !slices.Contains(selected, h) {
			lost++
		}
	}
	most := max(1, len(before)/2)
	if g.MaxLeaving != nil {
		most = max(g.MaxLeaving.Count, int(g.MaxLeaving.Percent)*len(before)/100)
		if g.MaxLeaving.Percent > 0 {
			most = max(most, 1)
		}
	}
	believed := lost <= most
	if len(selected) == 0 {
		believed = g.AllowEmpty || len(before) == 0
	}
	want := before
	if believed {
		want = selected
	}
	got, known := w.state.Members(g.Name)
	holds := slices.ContainsFunc(w.state.Holds(), func(r reason.Reason) bool { return r.Name == g.Name })
	if !known || !slices.Equal(got, want) || holds != (!believed || len(got) == 0 && !g.AllowEmpty) {
		w.Fatalf("group %+v of %v, of which %v are selected, has %v and holds: %t\n%s", g, before, selected, got, holds, w.story())
	}
}
