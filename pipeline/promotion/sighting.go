package promotion

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// What a stage on hosts, or of objects in clusters, runs is in no events of others: whoever is at
// work on the pipeline looks at these, and records what is seen whenever that is something else. So
// all decide by the same, also who cannot reach the hosts or the clusters.

// Sighting is what the hosts of a stage, or its objects, were seen to run.
type Sighting struct {
	Hosts   []HostSighting `json:"hosts"`
	Asked   []string       `json:"asked,omitempty"`   // revisions that they were asked about; empty is whatever they run
	Value   any            `json:"value,omitempty"`   // the revision that all run, as its variable has it
	Why     string         `json:"error,omitempty"`   // nothing is known of them: why
	Version int            `json:"version,omitempty"` // of what is recorded, see seesArrivals
}

// seesArrivals is the version from which on a sighting says which revisions are only declared, and a part
// of a stage that runs another revision ends approvals. Older logs keep what was decided by them.
const seesArrivals = 1

// HostSighting is what one host, or one object, was seen to run.
type HostSighting struct {
	Host      string  `json:"host"`                // or the object, see object.Object
	Revision  string  `json:"revision,omitempty"`  // as which all resources of the manifest are VALID, or which the object has; "" is none
	Unhealthy bool    `json:"unhealthy,omitempty"` // an object has the revision, and is not well
	Changing  bool    `json:"changing,omitempty"`  // all that keeps an object from being well is that its controller has yet to look, or scales it
	Suspended bool    `json:"suspended,omitempty"` // the controller of an object leaves it as it is
	Declared  bool    `json:"declared,omitempty"`  // of a suspended object: it is to run the revision once somebody resumes it, or keeps another one until then
	Fewer     *string `json:"-"`                   // why a suspended workload is not well as what it ran before, "" if it is; nil of what is no workload
	Unknown   bool    `json:"unknown,omitempty"`   // it was not seen, or could be either of two revisions
	Why       string  `json:"error,omitempty"`     // it runs no revision, or is unhealthy or unknown
}

// sighted is what is known of the hosts of a stage.
type sighted struct {
	Sighting
	event   int64
	members []string  // hosts, as of the last time that those that were selected counted
	whole   string    // revision that all of them ran, the last time that they ran one
	value   any       // that
	came    int64     // event with which they came to run it
	arrived int64     // the same, or the last with which all ran it again after one of them had run another one
	strayed bool      // one of them has run another one since then
	former  Candidate // what all of them ran before that
	since   time.Time // that they have run it without a break
	broken  bool      // there was a break since then
	joined  []string  // hosts that have run it since then
	unknown time.Time // since when it is not known what they run; zero where it is
	known   []known   // the last that is known of each object
}

// known is what an object ran the last time that this was known.
type known struct {
	HostSighting
	proven bool // it has run that revision well
}

// mostHostsNamed is how many hosts a reason names.
const mostHostsNamed = 3

// applySighting folds in what was seen.
func (s *State) applySighting(stage string, e deploylog.Event, p Payload) {
	if p.Observed == nil {
		return
	}
	k := s.sighted[stage]
	if k == nil {
		k = &sighted{}
		s.sighted[stage] = k
	}
	k.Sighting, k.event = *p.Observed, e.Seq
	i := s.definition.Index(stage)
	objects := i >= 0 && len(s.definition.Stages[i].Objects) > 0
	if objects {
		k.remember()
	}
	if k.Why == "" {
		k.members = k.hosts()
	}
	now := k.observation()
	k.strayed = k.strayed || k.Version >= seesArrivals && slices.ContainsFunc(k.Hosts, k.strays)
	switch {
	case now.Health != Unknown:
		k.unknown = time.Time{}
	case k.unknown.IsZero():
		k.unknown = e.CreatedAt
	}
	if now.Health != Whole {
		k.broken = k.broken || !objects || now.Health == Partly && !k.changing()
		return
	}
	if k.broken || k.whole != now.Revision || slices.ContainsFunc(k.members, func(host string) bool { return !slices.Contains(k.joined, host) }) {
		k.since = e.CreatedAt
	}
	if k.whole != now.Revision {
		k.former = Candidate{Revision: k.whole, Value: k.value}
		k.whole, k.came, k.strayed = now.Revision, e.Seq, true
	}
	if k.strayed { // what was approved, rejected and verified is of another time
		k.arrived, k.strayed = e.Seq, false
	}
	k.joined, k.value, k.broken = k.members, integral(k.Value), false
}

// strays reports whether a host that ran the revision with all others runs another one. A host that has
// joined since brings what its image has.
func (k *sighted) strays(h HostSighting) bool {
	return !h.Unknown && h.Revision != "" && h.Revision != k.whole && slices.Contains(k.joined, h.Host)
}

// changing reports whether nothing says that the revision which all ran has ceased to be well: what
// cannot be looked at, and what its controller has yet to look at or scales, ran it before.
func (k *sighted) changing() bool {
	return len(k.Hosts) > 0 && !slices.ContainsFunc(k.Hosts, func(h HostSighting) bool {
		return !h.Unknown && (h.Revision != k.whole || h.Unhealthy && !h.Changing)
	})
}

// integral is a value as it was before it was written as JSON.
func integral(value any) any {
	const exact = 1 << 53
	if f, is := value.(float64); is && f == math.Trunc(f) && math.Abs(f) < exact {
		return int64(f)
	}
	return value
}

func (k *sighted) hosts() []string {
	all := make([]string, len(k.Hosts))
	for i, h := range k.Hosts {
		all[i] = h.Host
	}
	return all
}

// observation is what the stage runs by what was seen. One that has no host is unknown, as is
// one of which a host is.
func (k *sighted) observation() Observation {
	o := Observation{Health: Unknown, Revision: k.whole, Value: k.value, Came: k.came, Arrived: k.arrived, Since: k.since, Event: k.event, Why: k.Why, Unknown: k.unknown, Asked: k.Asked}
	var unknown, wrong []string
	for _, h := range k.Hosts {
		if h.Suspended {
			o.Suspended = append(o.Suspended, h.Host)
		}
		switch {
		case h.Unknown:
			unknown = append(unknown, h.Host+": "+h.Why)
		case h.Revision == "":
			wrong = append(wrong, h.Host+" runs no revision: "+h.Why)
		default:
			if !slices.Contains(o.Runs, h.Revision) {
				o.Runs = append(o.Runs, h.Revision)
			}
			if h.Unhealthy {
				wrong = append(wrong, h.Host+" is not well: "+h.Why)
			}
		}
	}
	if len(o.Runs) > 1 {
		for _, h := range k.Hosts {
			if h.Revision != "" && !h.Unknown && !h.Unhealthy {
				wrong = append(wrong, h.Host+" runs revision "+h.Revision)
			}
		}
	}
	switch {
	case k.Why != "":
	case len(k.Hosts) == 0:
		o.Why = "no host is selected"
	case len(unknown) > 0:
		o.Why = phrase.First(unknown, mostHostsNamed)
	case len(wrong) > 0:
		o.Health, o.Why = Partly, phrase.First(wrong, mostHostsNamed)
	default:
		o.Health, o.Revision, o.Value = Whole, o.Runs[0], integral(k.Value)
	}
	return o
}

// hostsSeen are the hosts of a stage, or its objects, as they were seen.
func (s *State) hostsSeen(stage string) []HostSighting {
	if k := s.sighted[stage]; k != nil {
		return slices.Clone(k.Hosts)
	}
	return nil
}

// AddSightings adds what was recorded of the stages that are no environments to what is observed.
func (s *State) AddSightings(to Observed) {
	if s.definition == nil {
		return
	}
	for _, stage := range s.definition.Stages {
		if k := s.sighted[stage.Name]; k != nil && stage.Sighted() {
			to[stage.Environment] = k.observation()
		}
	}
}

// Sighted returns the event that records what was seen of the hosts or objects of a stage: none where that
// is what is known already. Where too many hosts have gone at once it is recorded that nothing is
// known of them.
func (s *State) Sighted(stage string, seen Sighting) []deploylog.Event {
	i := -1
	if s.definition != nil {
		i = s.definition.Index(stage)
	}
	if i < 0 || !s.definition.Stages[i].Sighted() {
		return nil
	}
	k := s.sighted[stage]
	if k != nil && s.definition.Stages[i].Targets != nil && seen.Why == "" && len(seen.Hosts) > 0 {
		next := sighted{Sighting: seen}
		seen.Why = s.definition.Stages[i].Targets.Losing(k.members, next.hosts())
	}
	seen = cmp.Or(k, &sighted{}).suspended(seen)
	seen.Version = seesArrivals
	if k != nil && sameSighting(k.Sighting, seen) {
		return nil
	}
	return []deploylog.Event{{
		Deployment: fmt.Sprintf("%s/%s/observed@%d", s.name, stage, s.head), Target: StageTarget(s.name, stage), Name: HostsObserved, Attempt: 1,
		Data: Payload{Observed: &seen}.Data(),
	}}
}

// remember keeps what each object runs. One of which that is not known now runs what it ran before.
func (k *sighted) remember() {
	if k.Why != "" || len(k.Hosts) == 0 {
		return
	}
	all := make([]known, 0, len(k.Hosts))
	for i, h := range k.Hosts {
		before := k.last(i, h.Host)
		switch {
		case h.Unknown && before != nil:
			all = append(all, *before)
		case !h.Unknown && h.Revision != "":
			proves := !h.Unhealthy && (!h.Suspended || !h.Declared && k.Version >= seesArrivals)
			all = append(all, known{h, proves || before != nil && before.proven && before.Revision == h.Revision})
		}
	}
	k.known = all
}

// last is what an object ran the last time that this was known; nil if it runs nothing, or that never was.
// It is likely at an index.
func (k *sighted) last(likely int, object string) *known {
	if likely < len(k.known) && k.known[likely].Host == object {
		return &k.known[likely]
	}
	i := slices.IndexFunc(k.known, func(h known) bool { return h.Host == object })
	if i < 0 {
		return nil
	}
	return &k.known[i]
}

// suspended returns a sighting in which suspended objects run what they ran before, if the revision
// is only declared. If nobody has seen them run it, they are not well.
func (k *sighted) suspended(seen Sighting) Sighting {
	hosts := slices.Clone(seen.Hosts)
	kept := false
	for i, now := range hosts {
		if !now.Suspended || !now.Declared || now.Unknown {
			continue
		}
		switch before := k.last(i, now.Host); {
		case before != nil && before.Revision != now.Revision:
			hosts[i], kept = before.suspended(now), true
		case !now.Unhealthy && (before == nil || !before.proven):
			hosts[i].Unhealthy, kept = true, true
			hosts[i].Why = "it is suspended, and nobody has seen it run " + now.Revision + ", which is declared; resume it"
		}
	}
	if !kept {
		return seen
	}
	seen.Hosts, seen.Value = hosts, hosts[0].Revision
	if slices.ContainsFunc(hosts, func(h HostSighting) bool { return h.Unknown || h.Unhealthy || h.Revision != hosts[0].Revision }) {
		seen.Value = nil
	}
	return seen
}

// suspended is the sighting of an object that is to run another revision once somebody resumes it. A
// workload is as well as the Pods that it has. Others say nothing of what they run meanwhile.
func (k *known) suspended(now HostSighting) HostSighting {
	now.Why = "it is suspended, and is to run " + now.Revision + " when somebody resumes it"
	now.Revision, now.Unhealthy, now.Changing = k.Revision, k.Unhealthy, k.Changing
	if now.Fewer != nil {
		now.Unhealthy, now.Changing = !k.proven || *now.Fewer != "", false
		now.Why += after(*now.Fewer, ": ")
	}
	return now
}

// sameSighting reports whether a sighting says nothing that the one before it does not. Numbers in
// reasons, such as for how long something did not answer, make no difference, or each look would
// be recorded. One of another version said less of suspended objects.
func sameSighting(a, b Sighting) bool {
	return sameWords(a.Why, b.Why) && coversAll(a.Asked, b.Asked) && slices.EqualFunc(a.Hosts, b.Hosts, func(one, other HostSighting) bool {
		return one.same(other) && (!one.Suspended || a.Version == b.Version)
	})
}

// same reports whether a host was seen as it was before, but for numbers in the reason.
func (h HostSighting) same(as HostSighting) bool {
	words := sameWords(h.Why, as.Why)
	h.Why, h.Fewer = as.Why, as.Fewer
	return words && h == as
}

// coversAll reports whether who was asked about some revisions was asked about others, too.
func coversAll(asked, others []string) bool {
	return len(asked) == 0 || !slices.ContainsFunc(others, func(revision string) bool { return !slices.Contains(asked, revision) })
}

func sameWords(a, b string) bool { return a == b || withoutDigits(a) == withoutDigits(b) }

func withoutDigits(text string) string {
	letters := []rune{}
	for _, r := range text {
		if !unicode.IsDigit(r) {
			letters = append(letters, r)
		}
	}
	return string(letters)
}

// Candidate is a revision that a host may run.
type Candidate struct {
	Revision string
	Value    any  // as its variable has it, where that is known; or else nil
	Former   bool // only a host that runs none of the others is asked about it
}

// Candidates are the revisions that the hosts of a stage may run, which are looked for: the one
// that is to come there, those that were brought there, and what they ran last. Nobody can look
// for others.
func (s *State) Candidates(stage int, o Observed) (all []Candidate) {
	const most = 4 // each is looked for on each host
	add := func(revision string, value any) {
		known := slices.ContainsFunc(all, func(c Candidate) bool { return c.Revision == revision })
		if revision != "" && !known && len(all) < most {
			all = append(all, Candidate{Revision: revision, Value: value})
		}
	}
	own := o.of(s.definition.Stages[stage].Environment)
	if stage > 0 {
		first, before := o.of(s.definition.Stages[0].Environment), o.of(s.definition.Stages[stage-1].Environment)
		if run := s.Current(); run != nil && s.definition.Promotion.Policy == definition.Single {
			value := first.Value
			if first.Revision != run.Revision {
				value = nil
			}
			add(run.Revision, value)
		}
		add(before.Revision, before.Value)
	}
	add(own.Revision, own.Value)
	name := s.definition.Stages[stage].Name
	if p := s.last[name]; p != nil {
		add(p.Revision, nil)
	}
	for _, p := range slices.Backward(s.promotions) {
		if p.Stage == name && p.Status == Finished {
			add(p.Revision, nil)
			break
		}
	}
	if k := s.sighted[name]; k != nil {
		before := len(all)
		if add(k.former.Revision, k.former.Value); len(all) > before {
			all[before].Former = true
		}
	}
	return all
}
