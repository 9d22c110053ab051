// Package promotions is the tenant of the reconcile loop that promotes revisions from
// environment to environment, by what these are observed to run. Promotions folds and
// commands; a Controller observes the environments that pipelines use, and deploys those to
// which a revision is to come.
package promotions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// Promotions are the pipelines of a log that promote by observed state, folded from its
// events. It is safe for concurrent use.
type Promotions struct {
	*reconcile.Fold[*promotion.State]
}

// ErrNoPipeline is wrapped where nothing has the name of a pipeline.
var ErrNoPipeline = errors.New("no such pipeline")

// New knows nothing until it Follows.
func New(log deploylog.Log, now func() time.Time) *Promotions {
	return &Promotions{reconcile.NewFold(reconcile.Kind[*promotion.State]{
		One: "promotion", Many: "promotions", NameOf: promotion.NameOf, Begins: promotion.PipelineDefined, Begin: promotion.New, Exists: (*promotion.State).Exists,
		Missing: ErrNoPipeline, Remedy: "deployster pipeline apply -f FILE",
	}, log, now, nil)}
}

// SnapshotVersion is that of the events that a snapshot holds, which are all.
const SnapshotVersion = 1

// NewReader is New for who looks once: it begins with a snapshot of the log where there is
// one, and keeps one there where it had to read much. All events of these pipelines are needed
// and held, which are few among those of their environments.
func NewReader(log deploylog.Log, now func() time.Time) *Promotions {
	p := New(log, now)
	p.KeepSnapshots(reconcile.Needs[*promotion.State]{
		Version: SnapshotVersion,
		Of:      func(_ *promotion.State, e deploylog.Event) (deploylog.Event, bool) { return e, true },
	})
	return p
}

// Command proposes a command, by what e says that environments run, and appends what it comes to.
func (p *Promotions) Command(ctx context.Context, e *environments.Environments, name string, c promotion.Command) ([]deploylog.Event, error) {
	if events, sent, err := p.Send(ctx, name, c, 0); sent {
		return events, err
	}
	if err := e.Follow(ctx, 0); err != nil {
		return nil, err
	}
	_, create := c.(promotion.Define)
	return p.Change(ctx, name, create, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(c, Observe(e, s, nil), p.Now())
	})
}

// Has reports whether a log has a pipeline of the name that promotes by observed state, or
// any for "".
func Has(ctx context.Context, log deploylog.Log, name string, until int64) (bool, error) {
	exists := map[deploylog.Target]bool{}
	filter := deploylog.Filter{Target: "pipeline/", Until: until}
	if name != "" {
		filter.Target = promotion.Target(name)
	}
	for _, event := range []string{promotion.PipelineDefined, promotion.PipelineDeleted} {
		filter.Name = event
		last := map[deploylog.Target]int64{}
		for e, err := range log.Read(ctx, filter) {
			if err != nil {
				return false, fmt.Errorf("looking for pipelines that promote by observed state: %w", err)
			}
			last[e.Target] = e.Seq
		}
		if event == promotion.PipelineDefined {
			for t := range last {
				exists[t] = true
			}
			if len(exists) == 0 {
				return false, nil
			}
			continue
		}
		for t, deleted := range last {
			filter := deploylog.Filter{Target: t, Name: promotion.PipelineDefined, After: deleted, Until: until, Last: 1}
			exists[t] = false
			for _, err := range log.Read(ctx, filter) {
				exists[t] = err == nil
			}
		}
	}
	for _, is := range exists {
		if is {
			return true, nil
		}
	}
	return false, nil
}

// Observe observes the environments of all pipelines as they are in the log, which e has
// followed. keeps reports whether somebody keeps an environment, and so sees what becomes
// of it; nil is taken for granted.
func Observe(e *environments.Environments, s *promotion.State, keeps func(environment string) bool) promotion.Observed {
	all := promotion.Observed{}
	d := s.Definition()
	for _, name := range slices.Compact(s.Environments()) {
		all[name] = observeNow(e, name, d.Promotion.Variable)
		if keeps != nil && all[name].Health != promotion.Unknown && !keeps(name) {
			all[name] = unkept(all[name])
		}
	}
	s.AddSightings(all)
	return all
}

func observeNow(e *environments.Environments, name, variable string) (seen promotion.Observation) {
	err := e.Ask(name, func(s *environment.State) error {
		seen = observe(s, variable)
		return nil
	})
	if err != nil {
		return promotion.Observation{Health: promotion.Unknown, Why: "there is no such environment"}
	}
	return seen
}

// unkept is what is known of an environment that nobody keeps: what became of its tasks since
// somebody did is not.
func unkept(seen promotion.Observation) promotion.Observation {
	seen.Health, seen.Moving = promotion.Unknown, false
	seen.Why = "no controller keeps it and sees its tasks: deployster pipeline run, or deployster env run"
	return seen
}
