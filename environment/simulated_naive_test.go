package environment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

// naive is an environment as the seed sees it: what is on the hosts according to the log, from which all is found anew
// at each question. It shares nothing with the machine but what events say, and is what that is measured against.
type naive struct {
	revisions []*definition.Definition
	tasks     []int // of each revision the first since the creation that has the same task, which is how its tasks are known
	first     int   // since the creation
	force     *inForce
	hosts     map[string]*naiveHost
	unseen    time.Time // since when nobody was there, which the controller has not recorded; zero is none
	names     []string  // of the hosts, sorted
	known     bool
	cordons   map[string]bool // cordoned hosts, true of those that are drained
	zonedBy   string          // of which attribute the zones are known
	kept      bool            // hosts that are not selected, until somebody confirms that they leave
	active    int             // the last revision whose deployment has finished
	left      map[place]bool  // tasks that were left running when it was deleted
	goesBack  int             // the revision to which a rollback is to follow at once
	without   []string        // hosts without which it goes back
	good      []int           // revisions whose deployment has finished, in that order
	wasGood   []int           // before it was deleted
	more      bool            // the next event is of the same hold
	spares    []string        // hosts that a rollback is to keep at once
	bad       map[int]bool    // those that were reverted, and not deployed since
	past      map[int]bool    // those that were deployed and gave way to another; true until that has ended
}

type inForce struct {
	step                           int       // steps that are over
	stepAt                         time.Time // when the present one was done; zero while it is not
	stepLost                       bool      // it was done, and then not any more
	verify                         naiveVerify
	taken                          map[string]bool // hosts of which it took a task away
	seq                            int64
	only                           []string // hosts that are restarted; nil is all
	id                             string
	kind                           record.DeploymentKind
	revision                       int
	task                           int // of the revision
	configuration                  definition.Configuration
	reached, stuck, paused, passed bool
	tried                          bool      // a task of it was begun
	moved                          bool      // there was progress since it was stuck
	progress, resumed              time.Time // the last
	late                           map[place]bool
	counted                        map[string]bool // events that are progress for the first time only
	automatic, clean               bool
	bake                           bake
	tolerates                      int         // hosts that may be exceptions, of a rollback
	waits                          bool        // for somebody to confirm, and no deadline passes
	waitsFrom                      time.Time   // since when
	gaps                           []naiveSpan // that are told of, in which nobody was there
}

type naiveHost struct {
	check               failedCheck
	name                string
	wanted, lost, begun bool
	absent              bool      // kept, and not in the inventory
	spared              bool      // by a rollback, until somebody confirms that it leaves
	freed               time.Time // when it was uncordoned
	zone                string
	tasks               map[int]*naiveTask
}

type naiveTask struct {
	made         int64 // event with which it was started, the last time
	of           int   // revision that has it
	status       report.TaskStatus
	vain         bool   // it was tried in vain to terminate it
	failures     int    // in a row
	blamed       string // deployment of the last
	rests, since time.Time
	drifted      time.Time // the last time
	healthy      time.Time
	firstBy      string // deployment that started it, at first then
	first        time.Time
}

func newNaive() *naive {
	return &naive{hosts: map[string]*naiveHost{}, cordons: map[string]bool{}, bad: map[int]bool{}, past: map[int]bool{}, left: map[place]bool{}}
}

// lastGood is the revision to which people go back who name none; 0 is none, also while the environment is going back.
func (n *naive) lastGood(wanted func(revision int) bool) (last int) {
	if n.force != nil && n.force.kind == record.ByRollback && !n.force.reached {
		return 0
	}
	for _, revision := range n.good {
		if n.force != nil && revision < n.force.revision && !n.bad[revision] && (wanted == nil || wanted(revision)) {
			last = revision
		}
	}
	return last
}

func (t *naiveTask) up() bool {
	return t != nil && (t.status == report.TaskHealthy || t.status == report.TaskDrifted)
}

func (t *naiveTask) begun() bool {
	return t != nil && (t.status == report.TaskStarting || t.status == report.TaskTerminating && !t.vain)
}

func (h *naiveHost) ups() (n int) {
	for _, t := range h.tasks {
		if t.up() {
			n++
		}
	}
	return n
}

func (n *naive) host(name string) *naiveHost {
	if n.hosts[name] == nil {
		n.hosts[name] = &naiveHost{name: name, tasks: map[int]*naiveTask{}}
		i, _ := slices.BinarySearch(n.names, name)
		n.names = slices.Insert(n.names, i, name)
	}
	return n.hosts[name]
}

func (n *naive) there(such func(*naiveHost) bool) (all []*naiveHost) {
	for _, name := range n.names {
		if h := n.hosts[name]; !h.lost && such(h) {
			all = append(all, h)
		}
	}
	return all
}

func (n *naive) wanted() int { return len(n.there(func(h *naiveHost) bool { return h.wanted })) }
func (n *naive) up() int     { return len(n.there(func(h *naiveHost) bool { return h.ups() > 0 })) }

// serve is how many hosts that are to have a task have one that is up.
func (n *naive) serve() int {
	return len(n.there(func(h *naiveHost) bool { return h.wanted && h.ups() > 0 }))
}

// minimum is the least number of hosts that is not less than the percentage, or the least
// without which no more hosts than may be are without a task: one may always be by Replace.
func (n *naive) minimum() (least int) {
	if down := n.force.configuration.MaxUnavailable; down != nil {
		for least = n.wanted(); least > 0; least-- {
			gone := n.wanted() - least + 1
			within := gone <= down.Count || down.Count == 0 && float64(100*gone) <= down.Percent*float64(n.wanted())
			if !within && (gone > 1 || n.force.configuration.Method == definition.Surge) {
				break
			}
		}
		return least
	}
	for least*100 < n.wanted()*n.force.configuration.MinHealthyPercent {
		least++
	}
	return least
}

// mostDoubled is the least number of hosts that is not less than max_surge, and one at least.
func (n *naive) mostDoubled() (most int) {
	over := n.force.configuration.MaxSurge
	if over == nil {
		return n.force.configuration.MaxOver
	}
	if most = 1; over.Count > 0 {
		return over.Count
	}
	for float64(100*most) < over.Percent*float64(n.wanted()) {
		most++
	}
	return most
}

func (n *naive) doubled() int {
	return len(n.there(func(h *naiveHost) bool { return len(h.tasks) > 1 }))
}

func (n *naive) mine(h *naiveHost) *naiveTask {
	if !h.wanted {
		return nil
	}
	if t := h.tasks[n.force.task]; !n.outdated(h, t) {
		return t
	}
	return nil
}

// outdated reports whether a task is to be ended and started anew by a restart.
func (n *naive) outdated(h *naiveHost, t *naiveTask) bool {
	f := n.force
	return t != nil && f.kind == record.ByRestart && !f.reached && t.made < f.seq && (f.only == nil || slices.Contains(f.only, h.name))
}

func (n *naive) failed() []*naiveHost {
	return n.there(func(h *naiveHost) bool {
		t := n.mine(h)
		if h.absent || h.spared || n.cordoned(h) {
			return false
		}
		if do := n.next(h); do.kind == tasks.Check || do.kind == tasks.Terminate && n.force.kind != record.ByDelete && n.inVain(h, do) {
			return true
		}
		return t != nil && !t.up() && (t.blamed == n.force.id || n.force.late[place{h.name, n.force.task}])
	})
}

func (n *naive) halted() bool {
	return n.force.configuration.MaxFailed != nil && !n.force.reached && len(n.failed()) > n.tolerated()
}

// todo is what is to be done on a host next, at some time.
type todo struct {
	kind     tasks.Kind
	revision int
	class    hosts.Class
	from     time.Time
}

func (t todo) String() string { return fmt.Sprintf("%s %d", t.kind, t.revision) }

// next is found by the rules of the seed: old tasks leave first, those of no use before others, but of Surge one stays
// until the new one is healthy. Then the new one comes.
func (n *naive) next(h *naiveHost) todo {
	do := n.nextHere(h)
	if h.spared || h.absent && do.kind == tasks.Start && n.mine(h).up() {
		return todo{}
	}
	if h.absent && do.kind != "" {
		return todo{kind: hosts.AwaitProbe}
	}
	return do
}

func (n *naive) nextHere(h *naiveHost) todo {
	if n.cordoned(h) {
		return n.nextOfCordoned(h)
	}
	leave, awaits := n.leaving(h)
	switch {
	case len(leave) > 0:
		return n.checkedFirst(h, n.end(h, leave))
	case awaits:
		return todo{kind: hosts.AwaitProbe}
	}
	return n.bring(h)
}

// cordoned reports whether nothing is to be done on a host; the end of the environment does.
func (n *naive) cordoned(h *naiveHost) bool {
	_, cordoned := n.cordons[h.name]
	return cordoned && n.force.kind != record.ByDelete
}

// nextOfCordoned ends all tasks of a host that is drained, but those of which nobody knows
// what they are. On others it only sees whether the new task stays healthy.
func (n *naive) nextOfCordoned(h *naiveHost) todo {
	if !n.cordons[h.name] {
		if t := n.mine(h); t != nil && t.status == report.TaskLaunched {
			return todo{tasks.Confirm, n.force.task, hosts.Free, t.since.Add(time.Duration(n.force.configuration.MinHealthyTime))}
		}
		return todo{}
	}
	leave := sortedKeys(h.tasks)
	known := slices.DeleteFunc(slices.Clone(leave), func(r int) bool { return h.tasks[r].status == report.TaskLost })
	switch {
	case len(leave) == 0:
		return todo{}
	case len(known) == 0:
		return todo{kind: hosts.AwaitProbe}
	}
	do := n.end(h, known)
	switch up := h.tasks[do.revision].up() && h.ups() == 1; {
	case up && h.wanted:
		do.class = hosts.Evict
	case !up:
		do.class = hosts.Free
	}
	return do
}

func (n *naive) old(h *naiveHost) (old []int) {
	mine := n.mine(h)
	for _, r := range sortedKeys(h.tasks) {
		if mine == nil || r != n.force.task {
			old = append(old, r)
		}
	}
	return old
}

// leaving are the revisions whose tasks may be ended now, and whether others are
// waited for of which nobody knows what they are.
func (n *naive) leaving(h *naiveHost) (leave []int, awaits bool) {
	leave = n.old(h)
	if h.wanted && n.force.configuration.Method == definition.Surge && !n.mine(h).up() && len(leave) > 0 {
		best := slices.MaxFunc(leave, func(a, b int) int { return 2*(n.use(h.tasks[a])-n.use(h.tasks[b])) + sign(a-b) })
		if n.use(h.tasks[best]) > 0 {
			leave = slices.DeleteFunc(leave, func(r int) bool { return r == best })
		}
	}
	lost := func(r int) bool { return h.tasks[r].status == report.TaskLost && n.force.kind != record.ByDelete }
	awaits = slices.ContainsFunc(leave, lost)
	return slices.DeleteFunc(leave, lost), awaits
}

func (n *naive) end(h *naiveHost, leave []int) todo {
	r := slices.MinFunc(leave, func(a, b int) int { return 2*(n.use(h.tasks[a])/3-n.use(h.tasks[b])/3) + sign(a-b) })
	t := h.tasks[r]
	do := todo{tasks.Terminate, r, hosts.Free, time.Time{}}
	if t.status == report.TaskTerminating {
		do.from = t.rests
	}
	switch {
	case n.force.kind == record.ByDelete || t.status == report.TaskTerminating || h.ups() > 1:
	case t.up() && h.wanted:
		do.class = hosts.Replace
	case t.up():
		do.class = hosts.Drain
	case h.wanted && n.mine(h) == nil && !h.begun:
		do.class = hosts.First
	}
	return do
}

// bring brings the task of the revision in force, when no other has to leave before.
func (n *naive) bring(h *naiveHost) todo {
	mine, revision := n.mine(h), n.force.task
	switch {
	case mine != nil && mine.status == report.TaskLost:
		return todo{kind: hosts.AwaitProbe}
	case !h.wanted:
		return todo{}
	case mine == nil && len(n.old(h)) > 0:
		return todo{tasks.Start, revision, hosts.Surge, time.Time{}}
	case mine == nil && h.begun:
		return todo{tasks.Start, revision, hosts.Free, time.Time{}}
	case mine == nil:
		return todo{tasks.Start, revision, hosts.First, time.Time{}}
	case mine.status == report.TaskHealthy, mine.status == report.TaskDrifted && n.force.configuration.Drift == definition.ReportDrift:
		return todo{}
	case mine.status == report.TaskDrifted:
		return todo{tasks.Start, revision, hosts.Replace, mine.rests}
	case mine.status == report.TaskLaunched:
		return todo{tasks.Confirm, revision, hosts.Free, mine.since.Add(time.Duration(n.force.configuration.MinHealthyTime))}
	case mine.status == report.TaskTerminating:
		return todo{tasks.Terminate, revision, hosts.Free, mine.rests}
	default:
		return todo{tasks.Start, revision, hosts.Free, mine.rests}
	}
}

func (n *naive) use(t *naiveTask) int {
	switch {
	case t.up():
		return 3
	case t.status == report.TaskLost:
		return 2
	case t.status == report.TaskStarting || t.status == report.TaskLaunched:
		return 1
	}
	return 0
}

func sign(i int) int { return min(1, max(-1, i)) }

// unsettled reports whether a deployment has not finished because of a host. The repair of drift is no part of it.
func (n *naive) unsettled(h *naiveHost) bool {
	do := n.next(h)
	if n.cordoned(h) {
		return false
	}
	return do.kind != "" && (do.kind != tasks.Start || !n.mine(h).up())
}

// adopts reports whether a healthy task is that of the revision in force, and is not said to be.
func (n *naive) adopts(h *naiveHost) bool {
	mine := n.mine(h)
	return mine.up() && mine.of != n.force.revision
}

// due reports whether something is to be recorded.
func (n *naive) due(now time.Time, seen bool) string {
	f := n.force
	if n.known && seen && len(n.there(n.adopts)) > 0 {
		return "an adoption"
	}
	if seen && !n.unseen.IsZero() && !f.reached && !f.paused {
		return "an absence"
	}
	if n.ends(now, seen) {
		return "the end"
	}
	if !seen {
		return ""
	}
	for _, h := range n.there(func(*naiveHost) bool { return !f.paused }) {
		if at := n.lateAt(h); !at.IsZero() && !at.After(now) {
			return "lateness"
		}
	}
	if f.clean && !f.paused && !n.stuckAt().After(now) {
		return "giving up"
	}
	if n.breaksBake() {
		return "a failed bake"
	}
	if f.paused || f.reached {
		return ""
	}
	return n.dueOfProgress(now, seen)
}

// dueOfProgress is what is to be recorded of how far a deployment is that is under way.
func (n *naive) dueOfProgress(now time.Time, seen bool) string {
	if n.halted() {
		return map[bool]string{false: "being stuck"}[n.force.stuck]
	}
	if step := n.dueStep(now, seen); step != "" {
		return step
	}
	if at := n.stuckAt(); !at.IsZero() && !at.After(now) || n.untested() && !n.force.stuck {
		return "being stuck"
	}
	return ""
}

func (n *naive) stuckAt() time.Time {
	f := n.force
	if f.reached || f.paused || f.stuck || f.waits || n.awaitsHosts() || n.awaitsTest() {
		return time.Time{}
	}
	if n.stepped() && !f.stepAt.IsZero() { // no time runs out while it waits
		pause := f.configuration.Steps[f.step].Pause
		if pause == nil {
			return time.Time{}
		}
		return n.reach(latest(f.progress, n.reach(f.stepAt, *pause)), f.configuration.ProgressDeadline)
	}
	return n.reach(f.progress, f.configuration.ProgressDeadline)
}

// naiveSpan is a time from one moment to another.
type naiveSpan struct{ from, to time.Time }

// reach is when so much time has passed in which somebody was there.
func (n *naive) reach(at time.Time, left definition.Duration) time.Time {
	rest := time.Duration(left)
	for _, gap := range n.force.gaps {
		if !gap.to.After(at) {
			continue
		}
		if before := max(0, gap.from.Sub(at)); before < rest {
			rest -= before
			at = gap.to
		}
	}
	return at.Add(rest)
}

// awaited is how long somebody was there between two times, and a minute of each absence.
func (s *simulation) awaited(from, to time.Time) time.Duration {
	sum := to.Sub(from)
	for _, gap := range s.away {
		if gone := gap.to.Sub(latest(gap.from, from)); gone > time.Minute {
			sum -= gone - time.Minute
		}
	}
	return sum
}

func (n *naive) lateAt(h *naiveHost) time.Time {
	f, t := n.force, n.mine(h)
	if t == nil || h.absent || t.up() || n.cordoned(h) || t.firstBy != f.id || f.paused || f.reached || f.late[place{h.name, f.task}] {
		return time.Time{}
	}
	return n.reach(latest(latest(t.first, f.resumed), h.freed), f.configuration.HealthyDeadline)
}

// steps are those of a deployment, at times none.
func (s *simulation) steps() []definition.Wave {
	wait := func() *definition.Duration {
		d := definition.Duration(pick(s, 0, time.Minute, 10*time.Minute, 30*time.Minute))
		return pick(s, &d, &d, nil)
	}
	test := func() string { return pick(s, "", "", "good.yaml", "good.yaml", badTest) }
	step := func(b budget.Budget) definition.Wave { return definition.Wave{Hosts: b, Pause: wait(), Verify: test()} }
	all := definition.Wave{Hosts: budget.Budget{Percent: 100}, Verify: test()}
	return pick(s, nil, nil, nil,
		[]definition.Wave{step(budget.Budget{Count: 1}), all},
		[]definition.Wave{step(budget.Budget{Count: 1}), step(budget.Budget{Percent: 25}), step(budget.Budget{Percent: 60})},
		[]definition.Wave{step(budget.Budget{Percent: 30}), step(budget.Budget{Count: 2}), all},
	)
}

// promote lets a deployment go on that waits; it must be refused just when none does.
func (s *simulation) promote() {
	f := s.naive.force
	may := f != nil && s.told.Exists() && s.naive.stepped() && !f.stepAt.IsZero() && s.naive.stepIsDone() && !f.verify.open
	if done := s.command(Promote{By: "alice@host"}); done != may {
		s.fail("it is promoted: %t, and may be: %t", done, may)
	}
}

// stepped reports whether a step bounds the deployment.
func (n *naive) stepped() bool {
	f := n.force
	return !f.reached && f.kind != record.ByDelete && f.step < len(f.configuration.Steps)
}

// mostBegun is how many hosts may have the new task, or be about to: the least number that
// is no less than the percentages, for no step has fewer than those before it.
func (n *naive) mostBegun() (most int) {
	for _, step := range n.force.configuration.Steps[:n.force.step+1] {
		if step.Hosts.Count > most {
			most = step.Hosts.Count
		}
		for step.Hosts.Count == 0 && float64(100*most) < step.Hosts.Percent*float64(n.wanted()) {
			most++
		}
	}
	return most
}

func (n *naive) beginning(h *naiveHost) bool {
	t := n.mine(h)
	return h.wanted && (t.up() || t != nil && t.blamed == n.force.id || h.begun || n.force.taken[h.name] && h.ups() == 0)
}

func (n *naive) begun() []*naiveHost { return n.there(n.beginning) }

// bounded reports whether something counts for the step.
func (n *naive) bounded(h *naiveHost, do todo) bool { return n.stepped() && n.enters(h, do) }

// enters reports whether the deployment begins its work on a host with something.
func (n *naive) enters(h *naiveHost, do todo) bool {
	return h.wanted && !n.isCordoned(h) && !n.beginning(h) && (do.kind == tasks.Start || do.kind == tasks.Terminate && n.takes(h, h.tasks[do.revision]))
}

// takes reports whether a host is without any task, or any that is up, when one leaves.
func (n *naive) takes(h *naiveHost, t *naiveTask) bool {
	return t.status != report.TaskTerminating && (len(h.tasks) == 1 || h.ups() == 1 && t.up())
}

// losesStep wants a step to be done again when its hosts are not well any more.
func (n *naive) losesStep(e deploylog.Event) {
	if n.force != nil && n.stepped() && !n.force.stepAt.IsZero() && !n.stepIsDone() {
		n.force.stepAt, n.force.verify = time.Time{}, naiveVerify{}
		if !n.force.stepLost {
			n.force.stepLost, n.force.progress = true, e.CreatedAt
		}
	}
}

func (n *naive) mayBegin() int {
	if !n.stepped() {
		return 1 << 30
	}
	return n.mostBegun() - len(n.begun())
}

// stepIsDone reports whether enough hosts are begun, and are as they are to be, but for some failures; and others are left.
func (n *naive) stepIsDone() bool {
	if n.allWell() {
		return n.testsLeft() > 0 || n.force.verify.done
	}
	failed, may := 0, 0
	if b := n.force.configuration.MaxFailed; b != nil {
		may = min(b.Of(n.mostBegun()), n.mostBegun()-1)
	}
	for _, h := range n.begun() {
		if n.unsettled(h) {
			if failed++; !slices.Contains(n.failed(), h) {
				return false
			}
		}
	}
	others := n.there(func(h *naiveHost) bool { return h.wanted && !n.beginning(h) && !n.isCordoned(h) })
	return failed <= may && n.mayBegin() <= 0 && len(others) > 0 && n.runs()
}

func (n *naive) isCordoned(h *naiveHost) bool { _, is := n.cordons[h.name]; return is }

func (n *naive) dueStep(now time.Time, seen bool) string {
	f := n.force
	if !n.stepped() || !n.known || !seen || f.waits || !n.stepIsDone() {
		return ""
	}
	pause := f.configuration.Steps[f.step].Pause
	switch {
	case f.stepAt.IsZero():
		return "a step"
	case n.awaitsTest():
		return ""
	case n.allWell(), pause != nil && !now.Before(n.reach(f.stepAt, *pause)):
		return "a promotion"
	}
	return ""
}

func (n *naive) noteStep(s *simulation, e deploylog.Event, p record.Payload) {
	f := n.force
	want := map[bool]string{true: "a promotion", false: "a step"}[e.Name == record.EnvironmentPromoted]
	person := e.Name == record.EnvironmentPromoted && !p.Automatic
	if p.StepNumber != f.step+1 || !person && n.due(s.now, true) != want || person && (f.stepAt.IsZero() || !n.stepIsDone() || f.verify.open) {
		s.fail("%s of step %d, which it is not: %q is due", e.Name, p.StepNumber, n.due(s.now, true))
	}
	f.moved, f.stuck = true, f.stuck && n.halted()
	if e.Name == record.EnvironmentPromoted || !f.stepLost {
		f.progress = e.CreatedAt
	}
	if f.stepAt = e.CreatedAt; e.Name == record.EnvironmentPromoted {
		f.step, f.stepAt, f.stepLost, f.verify = f.step+1, time.Time{}, false, naiveVerify{}
	}
}

// noteTaken takes note that the deployment takes a task away that may be of use.
func (n *naive) noteTaken(e deploylog.Event, h *naiveHost, t *naiveTask) {
	if e.Name == record.TaskTerminating && e.Deployment == n.force.id && h.wanted && !n.isCordoned(h) && n.takes(h, t) {
		n.force.taken[h.name] = true
	}
}

// naiveVerify is how far the present step is verified.
type naiveVerify struct {
	try        int // the last
	open, done bool
	failures   int
	rests      time.Time
}

// badTest is a manifest that never succeeds.
const badTest = "bad.yaml"

func (c *controller) undertakeVerify(step tasks.Step) {
	if w := c.working[""]; w != nil {
		c.fail("step %d is verified, and so is step %d already", step.Number, w.step.Number)
	}
	v := c.state.Verification(step)
	if v.Manifest != c.naive.test() || v.Step != c.naive.force.step+1 || len(v.Hosts) == 0 {
		c.fail("it verifies %+v", v)
	}
	w := &work{step: step, of: c, begins: c.now}
	for _, other := range c.works { // what a dead process left is waited for
		if other.step.Kind == tasks.Verify && !other.lost && other.ends.After(w.begins) {
			w.begins = other.ends
		}
	}
	w.ends = w.begins.Add(c.lasts(w))
	c.works, c.working[""] = append(c.works, w), w
	c.at(w.ends, func() {
		c.over(w)
		if failing := !c.calm && c.chance(c.nature.failures); v.Manifest == badTest || failing {
			w.err = errors.New("there is no answer")
		}
		if now := c.control; now != nil && w.of == now {
			delete(now.working, "")
			now.ended, now.news = append(now.ended, w), true
		}
	})
	c.record("a beginning", step.Events)
}

// test is the manifest that verifies the present step.
func (n *naive) test() string {
	if !n.stepped() {
		return ""
	}
	return n.force.configuration.Steps[n.force.step].Verify
}

func (n *naive) awaitsTest() bool {
	return n.test() != "" && !n.force.stepAt.IsZero() && !n.force.verify.done
}

// untested reports whether it was tried three times, and failed each time.
func (n *naive) untested() bool {
	v := n.force.verify
	return n.awaitsTest() && !v.open && v.failures >= 3
}

func (n *naive) testsLeft() (left int) {
	if !n.stepped() {
		return 0
	}
	for i, step := range n.force.configuration.Steps {
		if step.Verify != "" && (i > n.force.step || i == n.force.step && !n.force.verify.done) {
			left++
		}
	}
	return left
}

// allWell reports whether all hosts are as they are to be, but for those that had their chance.
func (n *naive) allWell() bool {
	left := n.there(n.unsettled)
	if n.force.kind == record.ByDelete || !n.runs() || len(left) > 0 && (len(left) > n.tolerated() || len(left) >= n.wanted()) {
		return false
	}
	for _, h := range left {
		if !n.hopeless(h) {
			return false
		}
	}
	return true
}

func (n *naive) mayTest(now time.Time, can Can) bool {
	v := n.force.verify
	return n.awaitsTest() && n.known && can.Disrupt && !n.force.paused && !n.force.waits && !n.untested() && !v.rests.After(now) && n.stepIsDone() && (can.Verify == nil || can.Verify())
}

// noteTest takes note of a try to verify a step, and of its end.
func (n *naive) noteTest(s *simulation, e deploylog.Event, p record.Payload) {
	f := n.force
	if e.Name == record.StepVerifying {
		if f == nil || e.Deployment != f.id || p.StepNumber != f.step+1 || !n.mayTest(s.now, Can{Disrupt: true}) {
			s.fail("step %d is verified, and is not to be", p.StepNumber)
		}
		f.verify.try, f.verify.open, f.verify.rests = e.Attempt, true, time.Time{}
		return
	}
	if f == nil || e.Deployment != f.id || !n.awaitsTest() || p.StepNumber != f.step+1 || !f.verify.open || f.verify.try != e.Attempt {
		s.tally["failed its verification"]++
		return
	}
	f.verify.open = false
	if e.Name == record.StepVerified {
		f.verify.done, f.progress, f.moved = true, e.CreatedAt, true
		f.stuck = f.stuck && n.halted()
		return
	}
	f.verify.failures++
	f.verify.rests = e.CreatedAt.Add(time.Second << (f.verify.failures - 1))
	if n.untested() {
		s.tally["could not be verified"]++
	}
}

// zoneOrder is in which order hosts are to be replaced, by either attribute.
var zoneOrder = []string{"gamma", "prod", "z2", "z10", ""}

func (s *simulation) attribute(host, name string) string {
	m := s.machine(host)
	return map[string]string{"zone": m.zone, "stack": m.group}[name]
}

// noteZones takes note of which zones hosts are in, and wants them to be those.
func (n *naive) noteZones(s *simulation, p record.Payload) {
	if n.force == nil || p.OrderBy != n.force.configuration.OrderBy {
		s.fail("zones by %q are recorded", p.OrderBy)
	}
	if n.zonedBy != p.OrderBy {
		for _, h := range n.hosts {
			h.zone = ""
		}
	}
	n.zonedBy = p.OrderBy
	for zone, names := range p.Zones {
		for _, name := range names {
			if n.host(name).zone = zone; s.attribute(name, p.OrderBy) != zone {
				s.fail("%s is said to be in %q, and is in %q", name, zone, s.attribute(name, p.OrderBy))
			}
		}
	}
}

func (n *naive) knowsZones(s *simulation) {
	by := n.force.configuration.OrderBy
	if by == "" || n.force.kind == record.ByDelete {
		return
	}
	for _, h := range n.there(func(h *naiveHost) bool { return h.wanted && s.machine(h.name).in }) {
		if real := s.attribute(h.name, by); n.zonedBy != by || h.zone != real {
			s.fail("%s is known to be in %q by %q, and is in %q by %q", h.name, h.zone, n.zonedBy, real, by)
		}
	}
}

// keepsBack reports whether something must not be done on a host, for hosts that come before
// it are not done: they are not as they are to be, and no exceptions that are tolerated.
func (n *naive) keepsBack(h *naiveHost, do todo) bool {
	f := n.force
	by := f.configuration.OrderBy
	if by == "" || f.reached || n.beginning(h) || f.kind == record.ByDelete || do.class != hosts.Replace && do.class != hosts.Surge {
		return false
	}
	if n.zonedBy != by {
		return true
	}
	left := n.there(func(h *naiveHost) bool { return n.unsettled(h) && h.wanted && !h.absent })
	hopeless := len(n.there(n.hopeless))
	return slices.ContainsFunc(left, func(other *naiveHost) bool {
		before := slices.Index(zoneOrder, other.zone) < slices.Index(zoneOrder, h.zone)
		return before && (!n.hopeless(other) || hopeless > n.tolerated())
	})
}
