package environment

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/budget"
)

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
