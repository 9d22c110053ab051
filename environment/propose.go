package environment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// Propose returns the events that carry out a command, or a *refusal.Error.
func (s *State) Propose(c Command, now time.Time) ([]deploylog.Event, error) {
	if create, ok := c.(Create); ok {
		return s.create(create)
	}
	if again, ok := c.(Delete); ok && s.deleted {
		return nil, s.checkDeletedAgain(again)
	}
	if again, ok := c.(ofOrphans); ok && len(s.revisions) > 0 {
		return again.propose(s, now)
	}
	if !s.Exists() {
		return nil, refusal.New(UnknownEnvironment, "%w environment %q", ErrUnknown, s.name)
	}
	if err := s.checkInventory(c); err != nil {
		return nil, err
	}
	switch c := c.(type) {
	case Update:
		return s.change(c)
	case Deploy:
		return s.deploy(c, now)
	case Rollback:
		return s.rollback(c, now)
	case Restart:
		return s.restart(c, now)
	case Pause:
		return s.proposePause(c)
	case Resume:
		return s.proposeResume(c)
	case Delete:
		return s.delete(c, now)
	case SetHosts:
		return s.setHosts(c), nil
	case ConfirmHosts:
		return s.confirm(c)
	default:
		return s.proposeUpkeep(c, now)
	}
}

// proposeUpkeep is of the commands that concern a deployment under way, single hosts, and what
// other environments left.
func (s *State) proposeUpkeep(c Command, now time.Time) ([]deploylog.Event, error) {
	switch c := c.(type) {
	case Ask:
		return s.ask(c, now)
	case Accept:
		return s.accept(c, now)
	case Decline:
		return s.decline(c, now)
	case AdoptFrom:
		return s.adoptFrom(c, now)
	case Promote:
		return s.promote(c)
	case CordonHosts:
		return s.cordonHosts(c)
	case UncordonHosts:
		return s.uncordonHosts(c)
	default:
		return nil, refusal.New(UnknownCommand, "environments have no command %T", c)
	}
}

func (s *State) create(c Create) ([]deploylog.Event, error) {
	if s.Exists() {
		return nil, refusal.New(EnvironmentExists, "environment %s already exists (revision %d, event %d): change it with deployster env update --base %d",
			s.name, len(s.revisions), s.revisions[len(s.revisions)-1].Seq, len(s.revisions))
	}
	return s.revise(record.EnvironmentCreated, record.Payload{Definition: c.Definition, Inventory: c.Inventory, Bound: c.Bound, By: c.By}), nil
}

// revise makes the next revision. Its deployment id is derived from its number
// and unique, so of two that are made at the same time the log takes one.
func (s *State) revise(event string, p record.Payload) []deploylog.Event {
	number := strconv.Itoa(len(s.revisions) + 1)
	return []deploylog.Event{{
		Deployment: s.name + ":" + number, Target: s.target, Revision: number, Name: event, Attempt: 1, Data: p.Data(),
	}}
}

// onlyAllows reports whether a definition differs from the newest one in what it allows alone. That may be needed to
// delete an environment, whose tasks are bound when they are terminated, too.
func (s *State) onlyAllows(d *definition.Definition) bool {
	before, after := *s.revisions[len(s.revisions)-1].Definition, *d
	before.Allow, after.Allow = nil, nil
	return len(definition.Diff(&before, &after)) == 0
}

// change is update of an environment that is not being deleted.
func (s *State) change(c Update) ([]deploylog.Event, error) {
	if f := s.active; f != nil && f.Kind == record.ByDelete && !s.onlyAllows(c.Definition) {
		return nil, refusal.New(BeingDeleted, "environment %s is being deleted since event %d", s.name, f.Seq)
	}
	return s.update(c)
}

func (s *State) update(c Update) ([]deploylog.Event, error) {
	base, err := s.Revision(c.Base)
	if err != nil {
		return nil, err
	}
	if c.Base != len(s.revisions) {
		var since []string
		for _, r := range s.revisions[c.Base:] {
			since = append(since, r.Describe(s.revisions[max(r.Base, 1)-1].Definition))
		}
		return nil, refusal.New(StaleBase, "%w: revision %d of environment %s is not the newest. Since then:\n%s\nReview the changes (deployster env diff %s %d %d), and update from --base %d",
			ErrStale, c.Base, s.name, strings.Join(since, "\n"), s.name, c.Base, len(s.revisions), len(s.revisions))
	}
	bound := cmp.Or(c.Inventory, s.inventory)
	if len(definition.Diff(base.Definition, c.Definition)) == 0 && bound == s.inventory {
		return nil, refusal.New(NothingChanged, "revision %d of environment %s already has this definition, with the same files and variables: nothing was changed; deploy that one: deployster env deploy %s --revision %d",
			c.Base, s.name, s.name, c.Base)
	}
	return s.revise(record.EnvironmentUpdated, record.Payload{Definition: c.Definition, Base: c.Base, Task: s.taskIn(c.Definition), Inventory: bound, Bound: c.Bound, By: c.By}), nil
}

func (s *State) deploy(c Deploy, now time.Time) ([]deploylog.Event, error) {
	if err := s.checkRevision(c.Revision); err != nil {
		return nil, err
	}
	newest, is := s.lastFinished, "is active"
	if f := s.active; f != nil && !s.finished && (f.Revision > newest || f.Kind == record.ByRollback) {
		newest, is = f.Revision, "is being deployed"
	}
	if c.Revision < newest {
		return nil, refusal.New(OlderRevision, "revision %d is older than revision %d, which %s: to go back, deployster env rollback %s --revision %d", c.Revision, newest, is, s.name, c.Revision)
	}
	d := deploymentRequest{kind: record.ByDeploy, revision: c.Revision, change: c.Change, hosts: &c.Hosts, by: c.By, reason: c.Reason, step: c.Step}
	return s.startChecked(d, now)
}

func (s *State) rollback(c Rollback, now time.Time) ([]deploylog.Event, error) {
	if c.LastGood {
		if good, err := s.LastGood(); err != nil {
			return nil, err
		} else if good.Number != c.Revision {
			return nil, refusal.New(OtherLastGood, "the last good revision of environment %s is %d, and not %d any more: look at deployster env history %s, and roll back again or say --revision",
				s.name, good.Number, c.Revision, s.name)
		}
	}
	if err := s.checkRevision(c.Revision); err != nil {
		return nil, err
	}
	f := s.active
	deployed := slices.ContainsFunc(s.deployments, func(d report.Deployment) bool { return d.Revision == c.Revision && d.Kind != record.ByDelete })
	switch {
	case f == nil:
		return nil, refusal.New(NothingDeployed, "nothing of environment %s is deployed: there is nothing to roll back", s.name)
	case c.Revision > f.Revision:
		return nil, refusal.New(NewerRevision, "revision %d is newer than revision %d, which is deployed: deployster env deploy %s --revision %d", c.Revision, f.Revision, s.name, c.Revision)
	case c.Revision == f.Revision && f.Kind != record.ByDelete:
		return nil, refusal.New(AlreadyDeployed, "revision %d is already deployed: roll back to an earlier one", c.Revision)
	case !deployed:
		return nil, refusal.New(NeverDeployed, "revision %d was never deployed, so it cannot be rolled back to: base a new revision on it", c.Revision)
	}
	d := deploymentRequest{kind: record.ByRollback, revision: c.Revision, change: c.Change, hosts: &c.Hosts, by: c.By, reason: c.Reason}
	return s.startChecked(d, now)
}

// checkRevision refuses revisions that do not exist, or that belong to an
// environment of this name that was deleted.
func (s *State) checkRevision(revision int) error {
	r, err := s.Revision(revision)
	if err == nil && revision < s.firstRevision {
		err = refusal.New(RevisionDeleted, "%w revision %d of environment %s any more: it was made (event %d) before the environment was deleted; the first since then is %d",
			ErrUnknown, revision, s.name, r.Seq, s.firstRevision)
	}
	return err
}

// deploymentRequest is a deployment that is to be started.
type deploymentRequest struct {
	kind       record.DeploymentKind
	revision   int
	only       []string // hosts that are restarted; none is all
	change     record.Change
	hosts      *[]string // nil is unknown
	automatic  bool
	by, reason string
	step       string
	clean      bool
	adopt      bool
	taken      []string // see Clean
}

// startChecked refuses a deployment that could never proceed.
func (s *State) startChecked(d deploymentRequest, now time.Time) ([]deploylog.Event, error) {
	if f := s.active; f != nil && f.Kind == record.ByDelete {
		return nil, refusal.New(BeingDeleted, "environment %s is being deleted since event %d", s.name, f.Seq)
	}
	if err := d.change.Check(); err != nil {
		return nil, refusal.New(InvalidChange, "%w", err)
	}
	config := d.change.Apply(s.revisions[d.revision-1].Definition.Deployment)
	hosts := s.lasting(d)
	n, down := len(hosts), s.cordonedDown(d, hosts)
	if config.Method != definition.Replace || n == 0 || config.Minimum(n) < n-len(down) || !s.blockedByHealthy(d, hosts) {
		return s.startEvents(d, now), nil
	}
	setting, because, uncordon := strings.Replace(config.MinimumSetting(), " ", " of ", 1), "", ""
	if len(down) > 0 {
		const named = 5
		because = fmt.Sprintf(" but for those that are cordoned and have no healthy task (%s)", phrase.First(down, named))
		uncordon = fmt.Sprintf(", deployster env uncordon %s HOST", s.name)
	}
	verb, surge := "deployed", ", or --method Surge,"
	if d.kind == record.ByRestart {
		verb, surge = "restarted", ""
	}
	return nil, refusal.New(NoDisruptionAllowed, "revision %d cannot be %s like that: Replace stops a task before it starts another, and with a %s none of %s may be without one%s; %s%s%s would let it proceed",
		d.revision, verb, setting, phrase.Count(n, "host"), because, config.FlagFor(n, len(down)+1), uncordon, surge)
}

// lasting are the hosts that a deployment begins with: those selected, or those that the
// environment has where too many of them would leave at once, for it keeps them then.
func (s *State) lasting(d deploymentRequest) (hosts []string) {
	if s.returns(d) || s.refuses(s.revisions[d.revision-1].Definition.InstanceGroup, *d.hosts, false).reason == "" {
		return *d.hosts
	}
	for _, h := range s.hosts {
		if h.Desired && !h.Lost {
			hosts = append(hosts, h.Name)
		}
	}
	return hosts
}

// returns reports whether a deployment goes back to the hosts of another query.
func (s *State) returns(d deploymentRequest) bool {
	group := s.revisions[d.revision-1].Definition.InstanceGroup
	return d.kind == record.ByRollback && group.Query != s.Query() && len(*d.hosts) > 0
}

// blockedByHealthy reports whether one of the hosts that should have a task has a healthy
// one of another revision.
func (s *State) blockedByHealthy(d deploymentRequest, hosts []string) bool {
	for _, name := range hosts {
		h := s.byName[name]
		if h == nil && s.replacesLeft(d, name) {
			return true
		}
		if h == nil || h.Lost || h.Cordon != nil {
			continue
		}
		if current := h.Find(s.taskOf(d.revision)); h.AvailableTasks() > 0 && (current == nil || !current.Available() || d.restarts(name)) {
			return true
		}
	}
	return false
}

// startEvents ends the active deployment, if it has not finished, and starts another.
func (s *State) startEvents(d deploymentRequest, now time.Time) (events []deploylog.Event) {
	p := record.Payload{Version: record.CountsTakenBack, Kind: d.kind, Change: d.change, Automatic: d.automatic, By: d.by, Reason: d.reason, Step: d.step, Hosts: d.hosts, Only: d.only, Clean: d.clean, Adopt: d.adopt, Taken: d.taken}
	var held hold
	var kept, rest []string // rest are hosts that do not fit into the first event
	if d.hosts != nil {
		group := s.revisions[d.revision-1].Definition.InstanceGroup
		back := s.returns(d)
		held = s.refuses(group, *d.hosts, back)
		sorted := append([]string{}, *d.hosts...)
		slices.Sort(sorted)
		switch p.Hosts = &sorted; {
		case len(record.Parts(sorted)) > 1 && held.reason != "":
			p.Hosts = nil // SetHosts records them
			if back {
				held = hold{}
			}
		case len(record.Parts(sorted)) > 1:
			p.Hosts, rest = nil, sorted
		case held.reason != "" && back:
			kept = held.hosts
		case held.reason != "":
			p.Hosts = nil // it keeps those that it has
		}
	}
	if d.kind == record.ByRollback {
		p.Tolerates = s.total.exceptions
		for _, r := range s.revisions[d.revision:] {
			if r.Number == s.active.Revision || r.replaced && !r.undeployed {
				p.Reverts = append(p.Reverts, r.Number)
			}
		}
	}
	id := s.newID(d, now)
	if f := s.active; f != nil && !s.finished {
		cause := "superseded by " + id
		if d.kind == record.ByRollback && f.Revision > d.revision {
			cause = "rolled back by " + id
		}
		events = append(events, s.event(record.EnvironmentFailed, record.Payload{Error: cause, By: d.by, Reason: d.reason}))
	}
	start := deploylog.Event{Deployment: id, Target: s.target, Revision: strconv.Itoa(d.revision), Name: record.EnvironmentStarted, Attempt: 1, Data: p.Data()}
	if events = append(events, start); held.reason != "" {
		start.Name = record.HostsHeld
		events = append(events, s.holdEvents(start, held, nil, kept)...)
	}
	return append(events, s.startedOn(start, rest)...)
}

// startedOn are the events by which a deployment has hosts that do not fit into the event that
// starts it; none where they do.
func (s *State) startedOn(start deploylog.Event, names []string) (events []deploylog.Event) {
	if len(names) == 0 {
		return nil
	}
	has := map[string]bool{}
	for _, name := range names {
		has[name] = true
	}
	var left []string
	for _, h := range s.hosts {
		if h.Desired && !has[h.Name] {
			left = append(left, h.Name)
		}
	}
	var payloads []record.Payload
	for _, part := range record.Parts(left) {
		payloads = append(payloads, record.Payload{Left: part})
	}
	for _, part := range record.Parts(names) {
		payloads = append(payloads, record.Payload{Joined: part})
	}
	for i, p := range payloads {
		e := start
		p.More = i < len(payloads)-1
		e.Name, e.Attempt, e.Data = record.HostsChanged, i+1, p.Data()
		events = append(events, e)
	}
	return events
}

// newID is NAME:REVISION@TIMESTAMP, in hundredths of seconds, as in the seed.
func (s *State) newID(d deploymentRequest, now time.Time) string {
	for now = now.UTC(); ; now = now.Add(10 * time.Millisecond) {
		id := fmt.Sprintf("%s:%d@%s%02d", s.name, d.revision, now.Format("20060102150405"), now.Nanosecond()/int(10*time.Millisecond))
		if !slices.ContainsFunc(s.deployments, func(known report.Deployment) bool { return known.ID == id }) {
			return id
		}
	}
}

func (s *State) proposePause(c Pause) ([]deploylog.Event, error) {
	switch {
	case s.active == nil:
		return nil, refusal.New(NothingDeployed, "nothing of environment %s is deployed: there is nothing to pause", s.name)
	case s.pause != nil:
		return nil, refusal.New(AlreadyPaused, "environment %s is already paused, by %s (event %d)", s.name, s.pause.By, s.pause.Seq)
	}
	return []deploylog.Event{s.event(record.EnvironmentPaused, record.Payload{By: c.By, Reason: c.Reason})}, nil
}

func (s *State) proposeResume(c Resume) ([]deploylog.Event, error) {
	if s.pause == nil {
		return nil, refusal.New(NotPaused, "environment %s is not paused", s.name)
	}
	return []deploylog.Event{s.event(record.EnvironmentResumed, record.Payload{By: c.By, Reason: c.Reason})}, nil
}

// delete ends the environment. Who deletes what is being deleted gets that without any
// event, also without asking for its tasks to be terminated: they are not to be left
// running, unmanaged, by who repeats a command. Where they cannot be terminated, it is
// said that they are to be left.
func (s *State) delete(c Delete, now time.Time) ([]deploylog.Event, error) {
	if f := s.active; f != nil && f.Kind == record.ByDelete && !c.LeaveTasks {
		return nil, nil
	}
	if s.active != nil && c.TerminateTasks {
		return s.startEvents(deploymentRequest{kind: record.ByDelete, revision: len(s.revisions), by: c.By, reason: c.Reason}, now), nil
	}
	p := record.Payload{By: c.By, Reason: c.Reason}
	if s.active != nil {
		return []deploylog.Event{s.event(record.EnvironmentDeleted, p)}, nil
	}
	return []deploylog.Event{{
		Deployment: fmt.Sprintf("%s:%d", s.name, len(s.revisions)), Target: s.target, Revision: strconv.Itoa(len(s.revisions)), Name: record.EnvironmentDeleted, Attempt: 1, Data: p.Data(),
	}}, nil
}

// checkDeletedAgain refuses to delete an environment again where more is wanted than was
// done: the tasks that it left running cannot be terminated by it any more.
func (s *State) checkDeletedAgain(c Delete) error {
	if c.TerminateTasks && s.tasksLeft {
		return refusal.New(TasksUnmanaged, "environment %s was deleted without its tasks: they are left running, unmanaged: deployster env clean %s terminates them", s.name, s.name)
	}
	return nil
}

func (s *State) setHosts(c SetHosts) []deploylog.Event {
	if s.active == nil {
		return nil
	}
	events := s.zoneEvents(c)
	if held := s.holdsFor(c.Selected); held.reason != "" {
		return append(events, s.heldEvents(c, held)...)
	}
	return append(events, s.changeHosts(c, nil)...)
}

// changeHosts are the events of what is selected now; kept are hosts that do not leave
// yet all the same.
func (s *State) changeHosts(c SetHosts, kept []string) []deploylog.Event {
	if s.active.Kind == record.ByDelete {
		c.Selected = nil
	}
	selected := map[string]bool{}
	var joined, left, lost []string
	for _, name := range c.Selected {
		selected[name] = true
		if h := s.byName[name]; h == nil || !h.Desired || h.Lost {
			joined = append(joined, name)
		}
	}
	for _, h := range s.hosts {
		known := c.Known == nil || c.Known(h.Name)
		switch {
		case selected[h.Name] || slices.Contains(kept, h.Name):
		case len(h.Tasks) > 0 && !known && (h.Desired || !h.Lost):
			lost = append(lost, h.Name)
		case h.Desired || h.Lost && known:
			left = append(left, h.Name)
		}
	}
	return s.hostsChanged(joined, left, lost)
}

// hostsChanged are the events of hosts that came and went, in parts that fit into
// the log. There is one of no hosts when they become known, or are back.
func (s *State) hostsChanged(joined, left, lost []string) []deploylog.Event {
	var payloads []record.Payload
	for _, part := range record.Parts(joined) {
		payloads = append(payloads, record.Payload{Joined: part})
	}
	for _, part := range record.Parts(left) {
		payloads = append(payloads, record.Payload{Left: part})
	}
	for _, part := range record.Parts(lost) {
		payloads = append(payloads, record.Payload{Lost: part})
	}
	if len(payloads) == 0 && (!s.hostsKnown || s.kept != nil) {
		payloads = append(payloads, record.Payload{})
	}
	var events []deploylog.Event
	for i, p := range payloads {
		p.More = i < len(payloads)-1
		e := s.event(record.HostsChanged, p)
		e.Attempt += i
		events = append(events, e)
	}
	return events
}
