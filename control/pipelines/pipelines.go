// Package pipelines is the tenant of the reconcile loop that carries revisions through
// pipelines. Pipelines folds and commands. A Scheduler does what may be done: it has the
// work of steps done by a Worker, whose beginning it records first.
package pipelines

import (
	"context"
	"errors"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Pipelines are the pipelines of a log, folded from its events. It is safe for
// concurrent use.
type Pipelines struct {
	*reconcile.Fold[*pipeline.State]
}

// ErrNoPipeline is wrapped where nothing has the name of a pipeline.
var ErrNoPipeline = errors.New("no such pipeline")

// New knows nothing until it Follows. The subscribers receive every event of the log
// that it folds, one at a time. Without any it begins with a snapshot of the log where there
// is one, and keeps one there where it had to read much.
func New(log deploylog.Log, now func() time.Time, subscribers ...func(deploylog.Event)) *Pipelines {
	p := &Pipelines{reconcile.NewFold(reconcile.Kind[*pipeline.State]{
		One: "pipeline", Many: "pipelines", NameOf: record.NameOf, Begins: record.PipelineDefined, Begin: pipeline.New, Exists: func(s *pipeline.State) bool { return s.Deleted() == 0 },
		Missing: ErrNoPipeline, Remedy: "deployster pipeline apply -f FILE",
	}, log, now, subscribers)}
	if len(subscribers) == 0 {
		p.KeepSnapshots(Snapshots(0))
	}
	return p
}

// Snapshots says what of a log is kept for who needs the states of pipelines alone, such as
// schedulers, anew after so many events; 0 is some thousands. Who also needs what else the log
// tells of pipelines has a snapshot of its own.
func Snapshots(after int) reconcile.Needs[*pipeline.State] {
	return reconcile.Needs[*pipeline.State]{Of: (*pipeline.State).Needed, Name: "schedulers", Version: pipeline.NeededVersion, After: after}
}

// Upstream finds a pipeline of which others take revisions, for who is called by Ask, Change,
// Hold or Locked.
func (p *Pipelines) Upstream(name string) (upstream.Pipeline, error) {
	s, err := p.Find(name)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Command proposes a command and appends what it comes to.
func (p *Pipelines) Command(ctx context.Context, name string, c pipeline.Command) ([]deploylog.Event, error) {
	if events, sent, err := p.Send(ctx, name, c, 0); sent {
		return events, err
	}
	_, create := c.(pipeline.Define)
	return p.Change(ctx, name, create, func(s *pipeline.State) ([]deploylog.Event, error) {
		return s.Propose(c, p.Now())
	})
}
