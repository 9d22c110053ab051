// Package clusters observes what the stages of pipelines run that are objects in clusters.
//
// The objects of a stage are watched as long as somebody uses the stage. What they say of
// themselves is read by package object; what a cluster does not tell is unknown. Nothing is
// changed anywhere.
package clusters

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// mostWhy is how much of a reason is recorded, in bytes.
const mostWhy = 300

// Watcher watches objects of clusters.
type Watcher interface {
	// Watch calls seen with what an object is, nil where there is none, and whenever that
	// changes; err is why it is not known. It ends with leave, after which a last call may come.
	Watch(o kubewatch.Object, seen func(live map[string]any, err error)) (leave func())
}

// Options describes Observed. All fields are required.
type Options struct {
	Watcher Watcher

	// Go begins a goroutine whose context ends with end, and Post calls a function in the one
	// goroutine that calls the methods of Observed.
	Go   func(job func(ctx context.Context) (then func())) (end func())
	Post func(func())

	Changed func(place string) // something was seen; called where Post calls
}

// Observed are the stages that are observed. All its methods are called by one goroutine.
type Observed struct {
	Options
	byPlace map[string]*stage
	board   *board // nil while no stage is observed
	end     func() // of the goroutine that looks at it
}

// Stage is a stage of objects.
type Stage struct {
	Place   string
	Objects []object.Object
	Settle  time.Duration // how long an object must be well, and not be written, before that counts

	// Source is where the objects are declared whose part is object.Path, and ValueIn the value that a
	// commit has there. Both are nil if there are none.
	Source  *definition.PullRequest
	ValueIn func(ctx context.Context, commit string) (string, error)
}

// same reports whether two stages are observed in the same way.
func (s *Stage) same(other *Stage) bool {
	return s.Settle == other.Settle && reflect.DeepEqual(s.Objects, other.Objects) && reflect.DeepEqual(s.source(), other.source())
}

// source is what counts of where the objects are declared.
func (s *Stage) source() any {
	if s.Source == nil {
		return nil
	}
	return []any{s.Source.Repository, s.Source.Values(), s.Source.User, s.Source.TokenFile, s.Source.TokenEnv}
}

// stage is one that is observed.
type stage struct {
	Stage
	seen     *promotion.Sighting // nil before all were seen
	watching *watching
	reading  func()   // ends the reading of commits; nil if none are read
	leave    []func() // end the watches
	told     told     // only the goroutine of the board uses it
}

// New observes nothing yet.
func New(o Options) *Observed { return &Observed{Options: o, byPlace: map[string]*stage{}} }

// Use has the objects of a stage observed from now on, and no others.
func (o *Observed) Use(of Stage) {
	if s := o.byPlace[of.Place]; s != nil {
		if s.same(&of) {
			return
		}
		o.Leave(of.Place)
	}
	if o.board == nil {
		b := newBoard()
		o.board, o.end = b, o.Go(func(ctx context.Context) func() {
			o.observe(ctx, b)
			return func() {}
		})
	}
	s, b := &stage{Stage: of}, o.board
	s.Objects = slices.Clone(of.Objects)
	o.byPlace[of.Place] = s
	s.watching = newWatching(&s.Stage, func() { b.changed(s) })
	if s.ValueIn != nil {
		s.reading = o.Go(func(ctx context.Context) func() {
			s.watching.read(ctx)
			return func() {}
		})
	}
	for i := range s.Objects {
		of := &s.Objects[i]
		group, version := of.GroupVersion()
		s.leave = append(s.leave, o.Watcher.Watch(kubewatch.Object{Cluster: of.Cluster, Group: group, Version: version, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}, func(live map[string]any, err error) {
			r := of.Read(live)
			if err != nil {
				r = object.Unseen(err)
			}
			s.watching.says(i, r)
		}))
	}
	b.add(s)
}

// Leave ends the observation of a stage.
func (o *Observed) Leave(place string) {
	s := o.byPlace[place]
	if s == nil {
		return
	}
	delete(o.byPlace, place)
	o.board.remove(s)
	if s.reading != nil {
		s.reading()
	}
	if len(o.byPlace) == 0 {
		o.end()
		o.board = nil
	}
}

// Seen is what the objects of a stage run; ok is false where that was not seen yet.
func (o *Observed) Seen(place string) (seen promotion.Sighting, ok bool) {
	s := o.byPlace[place]
	if s == nil || s.seen == nil {
		return seen, false
	}
	return *s.seen, true
}

// observe tells what the stages of a board run until ctx ends.
func (o *Observed) observe(ctx context.Context, b *board) {
	defer b.close()
	var due reconcile.DelayQueue[*stage]
	for {
		now := time.Now()
		all := b.take()
		for s, is := due.Take(now); is; s, is = due.Take(now) {
			all = append(all, s)
		}
		told := map[*stage]*promotion.Sighting{}
		for _, s := range all {
			if !b.has(s) {
				due.Set(s, time.Time{})
				continue
			}
			readings, again := s.watching.at(now)
			if seen, all := sighting(s.Objects, readings); all {
				tell, at := s.told.next(seen, now)
				if again = sooner(again, at); tell {
					told[s] = &seen
				}
			}
			due.Set(s, again)
		}
		if len(told) > 0 {
			o.Post(func() {
				for s, seen := range told {
					s.seen = seen
					o.Changed(s.Place)
				}
			})
		}
		var over <-chan time.Time
		if next := due.Next(); !next.IsZero() {
			over = time.After(next.Sub(now))
		}
		select {
		case <-ctx.Done():
			return
		case <-b.news:
		case <-over:
		}
	}
}

// sighting is what the objects of a stage run together; all is false where one was not seen yet.
func sighting(objects []object.Object, readings []*object.Reading) (seen promotion.Sighting, all bool) {
	common := ""
	for i := range objects {
		r := readings[i]
		if r == nil {
			return seen, false
		}
		if i == 0 {
			common = r.Revision
		}
		if r.Revision != common || !r.Healthy {
			common = ""
		}
		seen.Hosts = append(seen.Hosts, promotion.HostSighting{
			Host: objects[i].String(), Revision: r.Revision, Unhealthy: r.Revision != "" && !r.Healthy, Changing: r.Revision != "" && !r.Healthy && r.Changing, Suspended: r.Suspended, Declared: r.Declared, Fewer: r.Fewer, Unknown: r.Unknown, Why: short(r.Why),
		})
	}
	if common != "" {
		seen.Value = common
	}
	return seen, true
}

// short is the beginning of a text, in one line.
func short(text string) string {
	text = strings.Join(strings.Fields(phrase.Plain(strings.ToValidUTF8(text, ""))), " ")
	return phrase.Cut(text, mostWhy)
}
