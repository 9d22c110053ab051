// Package targets observes what the hosts of stages run that are manifests on hosts.
//
// A host runs a revision when all resources of the manifest are VALID there with the variable
// of the pipeline as that revision. So it is asked about each revision that it may run, or, where
// the manifest says what of its state the revision is, about the one that is read there. What
// was seen is kept, and looked at anew when something happens on an engine, when other revisions
// are asked about, and from time to time. Nothing is observed that nobody uses.
//
// It trusts the types of the resources to answer what is so, and nothing else: a host that cannot
// be asked, or that answers VALID for two revisions, is unknown.
package targets

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Stage is what is observed.
type Stage struct {
	Pipeline, Name string
	Place          string // what it is known as, see definition.Stage
	Targets        definition.Targets
	Variable       string                // whose value is the revision
	Candidates     []promotion.Candidate // that its hosts may run
}

// Question is whether the manifest of a stage is VALID on a host, or that it is to become that.
type Question struct {
	Task            tasks.Task
	Pipeline, Stage string
	Read            string // the resource whose state is wanted, too; "" is none
}

// Engines are where the hosts are.
type Engines interface {
	// ObserveTarget asks the resources of a manifest for their states, and changes nothing. It
	// returns in a bounded time, also where a host or a type does not answer: then the result is
	// tasks.Unknown. state is that of the resource that is to be read, nil where there is none.
	ObserveTarget(ctx context.Context, q Question) (found tasks.ProbeResult, state map[string]any)

	// Watch calls changed when something happens on a host, until it ends by itself, such as
	// when the host does not answer any more.
	Watch(ctx context.Context, host string, changed func())
}

// Options describes Observed. All fields are required.
type Options struct {
	Engines     Engines
	Selected    func(query string) ([]string, error) // hosts, at present
	Parallelism int                                  // hosts of a stage that are asked at once
	Now         func() time.Time

	// Go begins a goroutine whose context ends with end, and Post calls a function in the one
	// goroutine that calls the methods of Observed.
	Go   func(job func(ctx context.Context) (then func())) (end func())
	Post func(func())

	Changed func(place string) // something was seen; called where Post calls
}

// Observed are the stages that are observed. All its methods are called by one goroutine.
type Observed struct {
	Options
	byPlace map[string]*target
}

// target is a stage that is observed.
type target struct {
	stage Stage
	seen  *promotion.Sighting
	of    Stage // which seen answers
	next  chan Stage
	end   func()
}

// New observes nothing yet.
func New(o Options) *Observed { return &Observed{o, map[string]*target{}} }

// Use has a stage observed from now on, or what it is now where it was another one.
func (o *Observed) Use(s Stage) {
	s.Candidates = slices.Clone(s.Candidates)
	slices.SortFunc(s.Candidates, func(a, b promotion.Candidate) int {
		if a.Former != b.Former {
			if a.Former {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Revision, b.Revision)
	})
	t := o.byPlace[s.Place]
	if t != nil && reflect.DeepEqual(t.stage, s) {
		return
	}
	if t == nil {
		t = &target{next: make(chan Stage, 1)}
		o.byPlace[s.Place] = t
		t.end = o.Go(func(ctx context.Context) func() {
			o.observe(ctx, t)
			return func() {}
		})
	}
	t.stage = s
	t.look()
}

// Again has a stage looked at at once, though nothing is known to have happened there.
func (o *Observed) Again(place string) {
	if t := o.byPlace[place]; t != nil {
		t.look()
	}
}

func (t *target) look() {
	select { // one that was not begun yet is not wanted any more
	case <-t.next:
	default:
	}
	t.next <- t.stage
}

// Leave ends the observation of a stage.
func (o *Observed) Leave(place string) {
	if t := o.byPlace[place]; t != nil {
		t.end()
		delete(o.byPlace, place)
	}
}

// Seen is what the hosts of a stage were seen to run; ok is false where that is not known yet of
// the stage as it is now.
func (o *Observed) Seen(place string) (seen promotion.Sighting, ok bool) {
	t := o.byPlace[place]
	if t == nil || t.seen == nil || !reflect.DeepEqual(t.of, t.stage) {
		return seen, false
	}
	return *t.seen, true
}

// leastPause is how long a stage is left alone at least after it was looked at, whatever happens
// on its hosts.
const leastPause = time.Second

// observe looks at a stage whenever there is a reason to, until ctx ends.
func (o *Observed) observe(ctx context.Context, t *target) {
	w := watches{engines: o.Engines, byHost: map[string]*watch{}, changed: make(chan struct{}, 1)}
	defer w.end()
	var s Stage
	select {
	case s = <-t.next:
	case <-ctx.Done():
		return
	}
	var silent map[string]bool
	for {
		began := o.Now()
		var seen promotion.Sighting
		seen, silent = o.look(ctx, s, silent)
		if ctx.Err() != nil {
			return
		}
		of := s
		o.Post(func() {
			t.seen, t.of = &seen, of
			o.Changed(of.Place)
		})
		w.follow(ctx, hostsOf(seen))
		pause := max(leastPause, o.Now().Sub(began))
		next, ok := o.wait(ctx, t, s, &w, pause)
		if !ok {
			return
		}
		s = next
	}
}

// wait waits until a stage is to be looked at again; ok is false where it is not any more.
func (o *Observed) wait(ctx context.Context, t *target, s Stage, w *watches, pause time.Duration) (next Stage, ok bool) {
	every := time.NewTimer(max(time.Duration(s.Targets.CheckEvery), pause))
	defer every.Stop()
	soon := time.NewTimer(pause)
	defer soon.Stop()
	rested, changed := false, false
	for !rested || !changed {
		select {
		case next = <-t.next:
			return next, true
		case <-every.C:
			return s, true
		case <-soon.C:
			rested = true
		case <-w.changed:
			changed = true
		case <-ctx.Done():
			return s, false
		}
	}
	return s, true
}

func hostsOf(seen promotion.Sighting) []string {
	all := make([]string, len(seen.Hosts))
	for i, h := range seen.Hosts {
		all[i] = h.Host
	}
	return all
}
