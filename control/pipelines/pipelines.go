package pipelines

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
)

// Pipelines are the pipelines of a log, folded from its events. It is safe for
// concurrent use.
type Pipelines struct {
	*reconcile.Fold[*pipeline.State]
}

// one is what a pipeline is called.
const one = "pipeline"

// ErrNoPipeline is wrapped where nothing has the name of a pipeline.
var ErrNoPipeline = errors.New("no such pipeline")

// New knows nothing until it is told to Follow. Every event of the log
// that it takes note of is told to the others, too, one at a time.
func New(log deploylog.Log, now func() time.Time, told ...func(deploylog.Event)) *Pipelines {
	return &Pipelines{reconcile.NewFold(reconcile.Kind[*pipeline.State]{
		One: one, Many: "pipelines", NameOf: PipelineOf, Begins: pipeline.EventDefined, Begin: pipeline.New, Exists: func(s *pipeline.State) bool { return s.Deleted() == 0 },
		Missing: ErrNoPipeline, Remedy: "deployster pipeline apply -f FILE",
	}, log, now, told)}
}

// PipelineOf is the pipeline of a target of any of its kinds.
func PipelineOf(t deploylog.Target) (string, bool) {
	switch t.Kind() {
	case "pipeline", "stage", "host-group", "host":
	default:
		return "", false
	}
	_, path, _ := strings.Cut(string(t), "/")
	name, _, _ := strings.Cut(path, "/")
	return name, name != ""
}

// Command proposes a command and appends what it comes to.
func (p *Pipelines) Command(ctx context.Context, name string, c pipeline.Command) ([]deploylog.Event, error) {
	_, create := c.(pipeline.Define)
	return p.Change(ctx, name, create, func(s *pipeline.State) ([]deploylog.Event, error) {
		return s.Propose(c, p.Now())
	})
}
