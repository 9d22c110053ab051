package environment

import (
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

// simulation is an environment among hosts, people and a controller, in a time
// of its own. All that happens by chance comes from its seed.
type simulation struct {
	*rand.Rand
	nature  nature
	now     time.Time
	agenda  agenda
	log     []deploylog.Event
	unique  map[identity]bool
	told    *State // as everybody knows it
	naive   *naive
	hosts   []*machine
	works   []*work // that may still have an effect
	control *controller
	since   time.Time   // the controller is there
	away    []naiveSpan // times in which none was
	left    int         // that people will do
	calm    bool        // nothing goes wrong any more
	numbers int         // that were given to things
	tally   map[string]int
	others  int // of that many hosts one is another environment's, unless it has a task there; 0 is none
}

// nature is what may go wrong in a simulation, and how often.
type nature struct {
	deaths   bool    // of tasks, by themselves
	failures float64 // of work
	crashes  float64 // of the controller, at each event that it records
	restless time.Duration
	hands    int
	check    time.Duration
}

// identity is what the log has only once.
type identity struct {
	deployment, event string
	target            deploylog.Target
	attempt           int
}

// machine is a real host.
type machine struct {
	name  string
	group string // for which queries ask
	zone  string // by which they may be ordered
	in    bool   // the inventory
	up    bool
	taken bool // its slots, by others
	tasks map[int]condition
	left  map[int]condition // those that were left when the environment was deleted
}

// condition is how a real task is. One that there is not has none.
type condition string

const (
	sound   condition = "sound"
	drifted condition = "drifted"
	sick    condition = "sick"
	half    condition = "half-made"
)

func (c condition) healthy() bool { return c == sound || c == drifted }

// place is a task on a host.
type place struct {
	host     string
	revision int
}

// How the tasks of a revision behave.
const (
	good      = "good"
	slow      = "slow"
	bad       = "bad"           // it never gets healthy
	uneven    = "bad somewhere" // on some hosts
	unable    = "unable"        // it cannot be started on some hosts, which can be seen before
	sickening = "sickening"     // it is healthy at first, but only where tasks die
)

// broken is a promise that was not kept.
type broken string

func (s *simulation) fail(format string, args ...any) { panic(broken(fmt.Sprintf(format, args...))) }

func simulate(seed uint64) (s *simulation, err error) {
	s = newSimulation(seed)
	defer func() {
		switch p := recover().(type) {
		case nil:
		case broken:
			err = errors.New(string(p))
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	s.run()
	return s, nil
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		Rand: rand.New(rand.NewPCG(seed, 0)), now: time.Date(2017, 9, 6, 11, 47, 23, 10_000_000, time.UTC),
		unique: map[identity]bool{}, told: New("SomeEnvironment/Prod"), naive: newNaive(), tally: map[string]int{},
	}
	s.nature = nature{
		deaths: s.chance(0.6), failures: pick(s, 0, 0.05, 0.3), crashes: pick(s, 0, 0, 0.005, 0.05),
		restless: pick(s, 30*time.Second, 2*time.Minute, 10*time.Minute), hands: pick(s, 1, 3, 16), check: pick(s, 30*time.Second, 90*time.Second),
	}
	for range s.IntN(13) {
		s.join()
	}
	s.left, s.others = 3+s.IntN(12), int(seed%4)
	return s
}

func pick[T any](s *simulation, from ...T) T { return from[s.IntN(len(from))] }
func (s *simulation) chance(p float64) bool  { return s.Float64() < p }

// between is a time between two others, some of which are more likely than others for things to happen at once.
func (s *simulation) between(a, b time.Duration) time.Duration {
	return a + (time.Duration(s.Int64N(int64(b - a + 1)))).Truncate(250*time.Millisecond)
}

type agenda []happening

type happening struct {
	at time.Time
	n  int // of those at the same time the first that was planned
	do func()
}

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func (s *simulation) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }

func (s *simulation) at(t time.Time, do func()) {
	s.numbers++
	heap.Push(&s.agenda, happening{t, s.numbers, do})
}

// step lets the next thing happen, and the controller see it.
func (s *simulation) step() {
	next := heap.Pop(&s.agenda).(happening)
	s.now = next.at
	if s.control != nil {
		if s.control.knows() {
			s.naive.wasInTime(s, s.since)
		}
	}
	next.do()
	s.react()
}

// react lets the controller see what has happened.
func (s *simulation) react() {
	if s.control != nil {
		s.control.turn()
	}
}

// run lets things go wrong for a while, and then not any more.
func (s *simulation) run() {
	s.begin()
	s.after(0, s.people)
	s.after(s.between(0, s.nature.restless), s.troubles)
	for s.left > 0 {
		s.step()
	}
	if !s.told.Exists() && s.chance(0.9) {
		s.command(Create{Definition: s.defined(), By: "alice@host"})
		s.deploy(len(s.naive.revisions))
		s.react()
	}
	for end := s.now.Add(s.between(0, 10*time.Minute)); len(s.agenda) > 0 && s.agenda[0].at.Before(end); {
		s.step()
	}
	s.anew()
	s.quieten()
	end := s.now.Add(8 * time.Hour)
	for s.control == nil || !s.settled() {
		if s.now.After(end) && len(s.works) == 0 {
			s.fail("after 8 hours without faults it has not come to rest: %s", s.unsettled())
		}
		s.step()
	}
	s.anew()
	if s.chance(0.05) {
		s.again()
	}
	s.tally["events"] = len(s.log)
	for _, d := range s.told.Deployments() {
		s.tally["rollouts"]++
		s.tally[string(d.Status)]++
		if d.Automatic {
			s.tally["automatic"]++
		}
	}
}

func (s *simulation) quieten() {
	s.calm = true
	for _, m := range s.hosts {
		m.up, m.taken = true, false
	}
	s.moved()
	s.command(Resume{By: "alice@host"})
	for _, c := range s.told.Cordons() {
		if s.chance(0.7) {
			s.command(UncordonHosts{Hosts: []string{c.Host}, By: "alice@host"})
		}
	}
	if s.naive.kept {
		s.after(time.Minute, s.confirm)
	}
	var promote func()
	promote = func() { s.promote(); s.after(s.between(time.Minute, 10*time.Minute), promote) }
	s.after(time.Minute, promote)
	if s.control == nil {
		s.begin()
	}
	s.control.news = true
	s.react()
}

// append appends events as the log does, all or none, and tells everybody. It is false when there is one already.
func (s *simulation) append(events []deploylog.Event) bool {
	for i, e := range events {
		id := identity{e.Deployment, e.Name, e.Target, e.Attempt}
		if err := e.Validate(); err != nil {
			s.fail("%s of %s: %v", e.Name, e.Target, err)
		}
		if s.unique[id] {
			for _, e := range events[:i] {
				delete(s.unique, identity{e.Deployment, e.Name, e.Target, e.Attempt})
			}
			return false
		}
		s.unique[id] = true
	}
	for _, e := range events {
		e.Seq, e.CreatedAt = int64(len(s.log)+1), s.now
		s.log = append(s.log, e)
		s.naive.note(s, e)
		s.naive.losesStep(e)
		s.told.Apply(e)
		switch {
		case e.Name == record.EnvironmentDeleted:
			s.orphan()
		case e.Name == record.EnvironmentStarted && (record.Read(e.Data).Clean || record.Read(e.Data).Adopt):
			s.find()
		}
		if s.control != nil {
			s.control.hears(e)
		}
		s.forget()
	}
	return true
}

// forget has everybody go on from a snapshot now and then.
func (s *simulation) forget() {
	const often = 23 // events
	if len(s.log)%often != 0 {
		return
	}
	s.told = s.restored(s.told)
	if s.control != nil && len(s.log)%2 == 0 {
		s.control.state = s.restored(s.control.state)
	}
}

func (s *simulation) orphan() {
	for _, m := range s.hosts {
		maps.Copy(m.left, m.tasks)
		clear(m.tasks)
	}
	for _, w := range s.works {
		w.lost, w.err = true, errAway
	}
}

// find makes the tasks that were left those of the environment again.
func (s *simulation) find() {
	for _, m := range s.hosts {
		maps.Copy(m.tasks, m.left)
		clear(m.left)
	}
}

// anew wants the log to say the same to somebody who reads it now.
func (s *simulation) anew() {
	anew := New(s.told.Name())
	for _, e := range s.log {
		anew.Apply(e)
	}
	states := []*State{s.told}
	if s.control != nil {
		states = append(states, s.control.state)
	}
	can := Can{Disrupt: true, Back: s.back}
	want := slices.Collect(anew.Decide(s.now, can))
	for _, known := range states {
		if got := slices.Collect(known.Decide(s.now, can)); !same(got, want) {
			s.fail("folded anew it does %v, not %v", want, got)
		}
		if len(want) == 0 || want[0].Kind != tasks.Record {
			if err := explains(known, s.now, want); err != nil {
				s.fail("%v", err)
			}
		}
		report := anew.Report()
		if got := known.Report(); !same(got, report) {
			s.fail("folded anew it reports\n%+v, not\n%+v", report, got)
		}
		s.naive.reports(s, report)
		if got, want := known.Idle(), anew.Idle(); got != want {
			s.fail("folded anew it is idle: %t, not %t", want, got)
		}
		if got, want := known.Wake(), anew.Wake(); !got.Equal(want) {
			s.fail("folded anew it wakes at %s, not %s", want, got)
		}
	}
}

// again reads the log once more, and asks all that can be asked after each event.
func (s *simulation) again() {
	anew := New(s.told.Name())
	for _, e := range s.log {
		anew.Apply(e)
		for range anew.Decide(e.CreatedAt, Can{Disrupt: true, Back: s.back}) {
			continue
		}
		anew.Report()
		anew.Wake()
		anew.Idle()
		anew.Explain(anew.target, e.CreatedAt)
	}
}

func (s *simulation) selected(query string) (names []string) {
	for _, m := range s.hosts {
		if m.in && (query == "all" || query == m.group) {
			names = append(names, m.name)
		}
	}
	return names
}

func (s *simulation) machine(name string) *machine {
	return s.hosts[slices.IndexFunc(s.hosts, func(m *machine) bool { return m.name == name })]
}

func (s *simulation) behaves(p place) string {
	how, _ := s.naive.revisions[p.revision-1].Task.Vars["behaves"].(string)
	if how == "unable somewhere" {
		if (len(p.host)+int(p.host[len(p.host)-1]))%3 == 0 {
			return unable
		}
		return good
	}
	if how == uneven {
		if (len(p.host)+int(p.host[len(p.host)-1])+p.revision)%3 == 0 {
			return bad
		}
		return good
	}
	return how
}

func (s *simulation) story() string {
	var out strings.Builder
	for _, e := range s.log {
		fmt.Fprintf(&out, "%4d %12s  %-34s %-28s %s/%d %s\n", e.Seq, e.CreatedAt.Sub(s.log[0].CreatedAt), e.Name, e.Target, e.Deployment, e.Attempt, e.Data)
	}
	return out.String()
}

// people do something, and something else later.
func (s *simulation) people() {
	if s.left--; s.calm {
		return
	}
	if !s.told.Exists() {
		switch {
		case s.left > 0 && len(s.told.Orphans()) > 0 && s.chance(0.4):
			s.command(Clean{By: "alice@host"})
		case s.left > 0 && len(s.told.Orphans()) > 0 && s.chance(0.4):
			s.readopt()
		case s.left > 0:
			s.command(Create{Definition: s.defined(), By: "alice@host"})
			if revision := len(s.naive.revisions); !s.chance(0.2) || !s.takeOver(revision) {
				s.deploy(revision)
			}
		}
	} else {
		s.act()
	}
	s.after(s.between(0, pick(s, 5*time.Second, time.Minute, 5*time.Minute, 20*time.Minute)), s.people)
}

func (s *simulation) act() {
	newest := len(s.naive.revisions)
	switch n := s.IntN(30); {
	case n >= 26:
		s.promote()
	case n >= 24:
		s.restart()
	case n >= 20:
		s.maintain()
	case n < 8:
		s.update(newest)
		s.deploy(len(s.naive.revisions))
	case n < 9:
		s.update(newest)
	case n < 12:
		s.deploy(newest - s.IntN(min(newest, 2)))
	case n < 16:
		s.rollback(s.IntN(1 + newest))
	case n < 17:
		s.command(Pause{By: "alice@host", Reason: "a mistake"})
	case n < 19:
		s.command(Resume{By: "alice@host", Reason: "none after all"})
	case s.chance(0.3):
		s.command(Delete{TerminateTasks: s.chance(0.7), By: "alice@host"})
	}
}

// command does what a person wants, unless it is refused.
func (s *simulation) command(c Command) bool {
	events, err := s.told.Propose(c, s.now)
	if err != nil {
		return false
	}
	if !s.append(events) {
		s.fail("%T: the log has one of its events already: %v", c, events)
	}
	return true
}

// readopt has a deleted environment exist again, with what it left running.
func (s *simulation) readopt() {
	if r, err := s.told.LastDeployed(); err == nil && s.command(Adopt{Revision: r.Number, Hosts: s.selected(r.Definition.InstanceGroup.Query), By: "alice@host"}) {
		s.tally["exists again"]++
	}
}

// update makes a revision. Sometimes two people do at once.
func (s *simulation) update(base int) {
	events, err := s.told.Propose(Update{Base: base, Definition: s.defined(), By: "alice@host"}, s.now)
	if f := s.naive.force; err != nil && f != nil && f.kind == record.ByDelete {
		return
	}
	if err != nil {
		s.fail("updating: %v", err)
	}
	second, err := s.told.Propose(Update{Base: base, Definition: s.defined(), By: "bob@host"}, s.now)
	if err != nil {
		s.fail("updating: %v", err)
	}
	if !s.append(events) {
		s.fail("the first of two updates is not taken")
	}
	if s.chance(0.2) && s.append(second) {
		s.fail("two updates at once are taken")
	}
}

func (s *simulation) deploy(revision int) {
	d := Deploy{Revision: revision, Change: s.change(), Hosts: s.selected(s.naive.revisions[revision-1].InstanceGroup.Query), By: "alice@host"}
	if !s.command(d) {
		surge := definition.Surge
		d.Change = record.Change{Method: &surge} // where Replace could never go on
		s.command(d)
	}
}

func (s *simulation) rollback(revision int) {
	meant := revision == 0
	if meant {
		r, err := s.told.LastGood()
		if revision = s.naive.lastGood(nil); r.Number != revision || (err == nil) != (revision > 0) {
			s.fail("the last good revision is said to be %d (%v), and is %d", r.Number, err, revision)
		}
		if revision == 0 {
			return
		}
		s.tally["rolled back to the last good revision"]++
	}
	r := Rollback{Revision: revision, Change: s.change(), Hosts: s.selected(s.naive.revisions[revision-1].InstanceGroup.Query), By: "alice@host", LastGood: meant}
	if !s.command(r) {
		surge := definition.Surge
		r.Change = record.Change{Method: &surge}
		s.command(r)
	}
}

// restart starts all tasks anew, or those of a host.
func (s *simulation) restart() {
	r := Restart{Change: s.change(), Hosts: s.selected(s.told.Query()), By: "alice@host"}
	if r.Change.Method = nil; len(r.Hosts) > 0 && s.chance(0.4) {
		r.Only = []string{pick(s, r.Hosts...)}
	}
	s.command(r)
}

// maintain cordons a host, drains it, or brings one back.
func (s *simulation) maintain() {
	if len(s.hosts) == 0 {
		return
	}
	names := []string{pick(s, s.hosts...).name}
	switch cordoned := s.told.Cordons(); {
	case len(cordoned) > 0 && s.chance(0.6):
		s.command(UncordonHosts{Hosts: []string{pick(s, cordoned...).Host}, By: "alice@host"})
	default:
		s.tally["cordons"]++
		s.command(CordonHosts{Hosts: names, Drain: s.chance(0.5), By: "alice@host", Reason: "a new disk"})
	}
}

func (s *simulation) change() (c record.Change) {
	if s.chance(0.1) {
		method := pick(s, definition.Replace, definition.Surge)
		c.Method = &method
	}
	switch {
	case s.chance(0.1):
		percent := pick(s, 0, 50, 75)
		c.MinHealthyPercent = &percent
	case s.chance(0.05):
		c.MaxUnavailable = s.hostsOrPercent()
	}
	switch {
	case s.chance(0.1):
		over := 1 + s.IntN(3)
		c.MaxOver = &over
	case s.chance(0.05):
		c.MaxSurge = s.hostsOrPercent()
	}
	return c
}

func (s *simulation) defined() *definition.Definition {
	s.numbers++
	d := &definition.Definition{
		Name: s.told.Name(), Type: definition.Daemon,
		Task: definition.TaskSpec{Manifest: "log-daemon.yaml", Vars: map[string]any{
			"image": fmt.Sprint("log-daemon:", s.numbers), "behaves": pick(s, good, good, good, slow, bad, uneven, sickening, "unable somewhere"),
		}},
		InstanceGroup: definition.InstanceGroup{Query: pick(s, "all", "all", "all", "prod", "gamma", "nowhere")},
		Deployment: definition.Configuration{
			Method: pick(s, definition.Replace, definition.Surge), MinHealthyPercent: pick(s, 0, 10, 34, 50, 75, 80, 90, 100), MaxOver: 1 + s.IntN(3),
			MinHealthyTime:   definition.Duration(pick(s, 0, 0, 10*time.Second, 50*time.Second)),
			Bake:             definition.Duration(pick(s, 0, 0, 5*time.Minute)),
			HealthyDeadline:  definition.Duration(pick(s, time.Minute, 5*time.Minute)),
			ProgressDeadline: definition.Duration(pick(s, 5*time.Minute, 10*time.Minute)),
			AutoRollback:     s.chance(0.3), Drift: pick(s, definition.RepairDrift, definition.RepairDrift, definition.ReportDrift),
		},
	}
	if !s.nature.deaths && d.Task.Vars["behaves"] == sickening {
		d.Task.Vars["behaves"] = good
	}
	d.Deployment.Steps = s.steps()
	if s.chance(0.3) {
		d.Deployment.OrderBy = pick(s, "zone", "zone", "stack")
	}
	if s.chance(0.3) {
		d.Deployment.MaxUnavailable = s.hostsOrPercent()
	}
	if s.chance(0.3) {
		d.Deployment.MaxSurge = s.hostsOrPercent()
	}
	if before := s.naive.revisions; len(before) > 0 && s.chance(0.3) { // only the hosts, or how it is deployed, or the task of an earlier one
		d.Task = before[max(0, len(before)-1-s.IntN(3))].Task
	}
	if s.chance(0.4) {
		d.Deployment.MaxFailed = pick(s, &budget.Budget{}, &budget.Budget{Count: 1}, &budget.Budget{Count: 2}, &budget.Budget{Percent: 30})
	}
	return d
}

// hostsOrPercent is how many hosts may be without a task, or have two: some at least.
func (s *simulation) hostsOrPercent() *budget.Budget {
	return pick(s, &budget.Budget{Count: 1}, &budget.Budget{Count: 3}, &budget.Budget{Percent: 1}, &budget.Budget{Percent: 25}, &budget.Budget{Percent: 60})
}

// troubles happen to hosts and tasks, and others later.
func (s *simulation) troubles() {
	if s.calm {
		return
	}
	s.after(s.between(0, 2*s.nature.restless), s.troubles)
	if len(s.hosts) == 0 {
		if s.chance(0.1) {
			s.join()
			s.moved()
		}
		return
	}
	m := pick(s, s.hosts...)
	switch s.IntN(12) {
	case 0:
		if len(s.hosts) < 12 {
			s.join()
			s.moved()
		}
	case 1:
		m.in = false
		s.moved()
	case 2, 3:
		m.in = true
		s.moved()
	case 4:
		if s.chance(0.5) {
			m.zone = pick(s, "z2", "z10", "")
		} else {
			m.group = pick(s, "prod", "gamma")
		}
		s.moved()
	case 5, 6:
		m.up = !m.up
		s.hint(m)
	case 7:
		m.up = true
	case 8:
		m.taken = !m.taken
		s.after(s.between(0, time.Minute), func() {
			m.taken = false
			if s.control != nil {
				s.control.news = true
			}
		})
	default:
		s.trouble(m)
	}
}

func (s *simulation) trouble(m *machine) {
	for _, revision := range sortedKeys(m.tasks) {
		switch now := m.tasks[revision]; {
		case s.chance(0.3) && now == sound:
			m.tasks[revision] = drifted
		case !s.nature.deaths || s.chance(0.5):
		case now == sick:
			m.tasks[revision] = sound
		case s.chance(0.3):
			delete(m.tasks, revision)
		case now.healthy():
			m.tasks[revision] = sick
		}
	}
	s.hint(m)
}

// hint tells the controller that something may have happened on a host; often it does not arrive.
func (s *simulation) hint(m *machine) {
	if c := s.control; c != nil && s.chance(0.4) {
		s.after(s.between(0, time.Second), func() { c.hinted(m.name) })
	}
}

func (s *simulation) join() {
	s.hosts = append(s.hosts, &machine{name: fmt.Sprint("h", len(s.hosts)+1), group: pick(s, "prod", "gamma"), zone: pick(s, "z2", "z10", ""), in: true, up: true, tasks: map[int]condition{}, left: map[int]condition{}})
}

// moved lets the controller see within a second that the inventory has changed.
func (s *simulation) moved() {
	if c := s.control; c != nil {
		s.after(s.between(0, time.Second), func() { c.find, c.news = true, true })
	}
}

func sortedKeys[V any](of map[int]V) (keys []int) {
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// takeOver deploys a revision with what another environment left on some of its hosts: tasks
// that are well, that differ, or that are gone by now.
func (s *simulation) takeOver(revision int) bool {
	hosts := s.selected(s.naive.revisions[revision-1].InstanceGroup.Query)
	same := slices.DeleteFunc(slices.Clone(hosts), func(string) bool { return s.chance(0.3) })
	if !s.command(AdoptFrom{From: "Other", Revision: revision, Hosts: hosts, Same: same, By: "alice@host"}) {
		return false
	}
	for _, name := range same {
		if now := pick(s, sound, sound, drifted, sick, ""); now != "" {
			s.machine(name).tasks[revision] = now
		}
		s.tally["taken over"]++
	}
	return true
}

func (n *naive) noteTakenOver(p record.Payload) {
	for _, name := range *p.Hosts {
		n.host(name).tasks[n.force.task] = &naiveTask{of: n.force.revision, status: report.TaskLost}
	}
}
