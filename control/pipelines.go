package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
)

// Pipelines are the pipelines of a log, folded from its events. It is safe for
// concurrent use.
type Pipelines struct {
	log deploylog.Log
	now func() time.Time

	mu     sync.Mutex
	states map[string]*pipeline.State
	head   int64
	told   []func(deploylog.Event)
}

// NewPipelines knows nothing until it is told to Follow. Every event of the log
// that it takes note of is told to the others, too, one at a time.
func NewPipelines(log deploylog.Log, now func() time.Time, told ...func(deploylog.Event)) *Pipelines {
	return &Pipelines{log: log, now: now, states: map[string]*pipeline.State{}, told: told}
}

// ErrNoPipeline is wrapped where nothing has the name of a pipeline.
var ErrNoPipeline = errors.New("no such pipeline")

// Follow takes note of what was appended since the last time, up to an event;
// 0 is all. It is the only way in which a Pipelines changes.
func (p *Pipelines) Follow(ctx context.Context, until int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.follow(ctx, until)
}

func (p *Pipelines) follow(ctx context.Context, until int64) error {
	for e, err := range p.log.Read(ctx, deploylog.Filter{After: p.head, Until: until}) {
		if err != nil {
			return fmt.Errorf("reading the pipelines' events: %w", err)
		}
		p.note(e)
	}
	return nil
}

func (p *Pipelines) note(e deploylog.Event) {
	p.head = e.Seq
	p.apply(e)
	for _, tell := range p.told {
		tell(e)
	}
}

func (p *Pipelines) apply(e deploylog.Event) {
	name, ok := PipelineOf(e.Target)
	if !ok {
		return
	}
	s := p.states[name]
	if s == nil {
		if e.Name != pipeline.EventDefined {
			return
		}
		s = pipeline.New(name)
		p.states[name] = s
	}
	s.Apply(e)
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

// Head is the last event that was taken note of.
func (p *Pipelines) Head() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head
}

// Names are the pipelines that were ever defined, sorted.
func (p *Pipelines) Names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.states))
}

// Ask calls ask with the state of a pipeline, which it must not keep.
func (p *Pipelines) Ask(name string, ask func(*pipeline.State) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.states[name]
	if s == nil {
		return p.unknown(name)
	}
	return ask(s)
}

func (p *Pipelines) unknown(name string) error {
	if len(p.states) == 0 {
		return fmt.Errorf("%w: %q; there is none yet: deployster pipeline apply -f FILE", ErrNoPipeline, name)
	}
	return fmt.Errorf("%w: %q; there are %s", ErrNoPipeline, name, strings.Join(slices.Sorted(maps.Keys(p.states)), ", "))
}

// gate is the lock under which pipelines change, whoever changes them: what is
// decided under it from the newest events still holds when it is appended.
const gate = "pipelines"

// Change appends what change makes of the newest state of a pipeline, and
// returns it. Nothing else happens to any pipeline meanwhile, so change must
// neither wait for people nor call back. create lets it begin a pipeline that
// there is not yet.
func (p *Pipelines) Change(ctx context.Context, name string, create bool, change func(*pipeline.State) ([]deploylog.Event, error)) ([]deploylog.Event, error) {
	unlock, err := p.log.Lock(ctx, gate)
	if err != nil {
		return nil, fmt.Errorf("locking the pipelines: %w", err)
	}
	defer unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.follow(ctx, 0); err != nil {
		return nil, err
	}
	s := p.states[name]
	if s == nil {
		if !create {
			return nil, p.unknown(name)
		}
		s = pipeline.New(name)
	}
	events, err := change(s)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	return p.append(ctx, events)
}

// append appends, and takes note of it. It need not be read back, but for what
// others appended in between.
func (p *Pipelines) append(ctx context.Context, events []deploylog.Event) ([]deploylog.Event, error) {
	written, err := p.log.Append(ctx, events...)
	if err != nil {
		return nil, fmt.Errorf("deployment log: %s of %s: %w", events[0].Name, events[0].Target, err)
	}
	if before := written[0].Seq - 1; before > p.head {
		if err := p.follow(ctx, before); err != nil {
			return written, err
		}
	}
	for _, e := range written {
		p.note(e)
	}
	return written, nil
}

// Command proposes a command and appends what it comes to.
func (p *Pipelines) Command(ctx context.Context, name string, c pipeline.Command) ([]deploylog.Event, error) {
	_, create := c.(pipeline.Define)
	return p.Change(ctx, name, create, func(s *pipeline.State) ([]deploylog.Event, error) {
		return s.Propose(c, p.now())
	})
}
