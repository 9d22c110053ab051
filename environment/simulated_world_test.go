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
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
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
	since   time.Time // the controller is there
	left    int       // that people will do
	calm    bool      // nothing goes wrong any more
	numbers int       // that were given to things
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
		s.naive.wasInTime(s, s.since)
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
