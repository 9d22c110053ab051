package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/engine"
)

// EngineUsed is the engine that a run used, as its run-started records it: later
// runs ask that engine what the run left, whichever they use themselves. Fields are
// only ever added. What an old log does not hold is empty.
type EngineUsed struct {
	Kind    string     `json:"kind"`              // "docker", "oci"
	Address string     `json:"address,omitempty"` // where it was reached
	ID      string     `json:"id,omitempty"`      // tells it apart from others that may answer at the address
	Context string     `json:"context,omitempty"` // of Docker: the name of the context that led to the address
	TLS     *EngineTLS `json:"tls,omitempty"`     // of a host that has its own
	Local   bool       `json:"local,omitempty"`   // its containers are processes of the machine on which the run was
	UID     string     `json:"uid,omitempty"`     // of the run
	Machine string     `json:"machine,omitempty"` // on which the run was
	Boot    string     `json:"boot,omitempty"`    // of that machine: another one each time that it is started

	Host string `json:"-"` // name of the machine, from the details of the run
	User string `json:"-"`
}

// EngineTLS is the files by which an engine is trusted, and by which it knows who
// asks.
type EngineTLS struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// String names the engine for people.
func (u EngineUsed) String() string {
	switch {
	case u.Kind == "":
		return "an engine that the log does not name"
	case u.Address == "":
		return u.Kind
	default:
		return u.Kind + " at " + u.Address
	}
}

// Engines finds the engines that runs use.
type Engines interface {
	// Used describes the engine of this run.
	Used(ctx context.Context) EngineUsed

	// Open opens the engine that a dead run used, which may be that of this run;
	// done is called when it is no longer needed. Without containers, none of the
	// run can exist any more. It fails where that engine cannot be asked, and
	// says why and what would help.
	Open(ctx context.Context, used EngineUsed) (containers Containers, done func(), err error)
}

// noContainers is an engine without containers.
type noContainers struct{}

func (noContainers) Containers(context.Context, map[string]string) ([]engine.Container, error) {
	return nil, nil
}

func (noContainers) Wait(_ context.Context, id string) (engine.Exit, error) {
	return engine.Exit{}, fmt.Errorf("wait for container %s: %w", id, engine.ErrNoContainer)
}

func (noContainers) Remove(context.Context, string) error { return nil }

// openedEngine is the engine of dead runs, or why it cannot be asked. Its lock is
// held while it is opened, which can take long; others can be opened at that time.
type openedEngine struct {
	used EngineUsed

	mu         sync.Mutex
	over       bool // it was opened, or cannot be
	containers Containers
	done       func()
	err        error
}

// open opens the engine if nobody has.
func (o *openedEngine) open(ctx context.Context, engines Engines) (Containers, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return o.containers, o.err
	}
	containers, done, err := engines.Open(ctx, o.used)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && containers == nil {
		containers = noContainers{}
	}
	o.over, o.containers, o.done, o.err = true, containers, done, err
	return containers, err
}

// engineUsed returns the engine that a run used. Each is opened once; where it can
// not be asked, it has an error, and where that was said not to matter, it has
// no containers.
func (r *Run) engineUsed(ctx context.Context, h *history) (Containers, error) {
	if r.o.Engines == nil {
		return r.o.Engine, nil
	}
	containers, err := r.engineOf(h.used).open(ctx, r.o.Engines)
	if err != nil && h.abandoned && ctx.Err() == nil {
		return noContainers{}, nil
	}
	return containers, err
}

// engineOf returns what is known of an engine that a run used.
func (r *Run) engineOf(used EngineUsed) *openedEngine {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := used.key()
	o := r.opened[key]
	if o == nil {
		o = &openedEngine{used: used}
		if r.opened == nil {
			r.opened = map[string]*openedEngine{}
		}
		r.opened[key] = o
	}
	return o
}

// key tells engines apart, and also runs of which one could ask it and the other
// could not.
func (u EngineUsed) key() string {
	tls := EngineTLS{}
	if u.TLS != nil {
		tls = *u.TLS
	}
	return strings.Join([]string{u.Kind, u.Address, u.ID, u.Context, tls.CA, tls.Cert, tls.Key, u.UID, u.Machine, u.Boot, u.Host, u.User}, "\x00")
}

// otherEngines are the engines that were opened, without that of this run.
func (r *Run) otherEngines() (all []Containers) {
	r.mu.Lock()
	engines := slices.Collect(maps.Values(r.opened))
	r.mu.Unlock()
	for _, o := range engines {
		o.mu.Lock()
		if o.over && o.err == nil && o.containers != r.o.Engine {
			all = append(all, o.containers)
		}
		o.mu.Unlock()
	}
	return all
}

// closeEngines closes the engines of dead runs.
func (r *Run) closeEngines() {
	r.mu.Lock()
	engines := r.opened
	r.opened = nil
	r.mu.Unlock()
	for _, o := range engines {
		o.mu.Lock()
		if o.done != nil {
			o.done()
		}
		o.mu.Unlock()
	}
}

// HeldError is why a resource is not touched: an action that a dead run left may
// still be at work on it, and nobody can say whether it is.
type HeldError struct {
	Run   Unfinished
	Cause error // why the engine cannot be asked
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("held: %s, %s, which may still be at work, and that engine cannot be asked: %s\n"+
		"Let it answer and try again. Where you know that nothing of that run is at work any more, say --abandon %s",
		e.Run.begun(), e.Run.unseen(), firstLine(e.Cause), e.Run.Run)
}

func (e *HeldError) Unwrap() error { return e.Cause }

// String says how it stands with the run.
func (u Unfinished) String() string {
	switch {
	case u.Alive:
		return u.begun() + ", is at work on " + u.Used.String()
	case len(u.Acting) == 0:
		return u.begun() + ", exited without output"
	case u.Abandoned:
		return u.begun() + ", " + u.unseen() + ", and was abandoned"
	default:
		return u.begun() + ", " + u.unseen()
	}
}

// begun names the run, and says when and by whom it was begun, as far as that is
// known.
func (u Unfinished) begun() string {
	by := ""
	switch {
	case u.Used.Host != "":
		by = " by " + cmp.Or(u.Used.User, "somebody") + " on " + u.Used.Host
	case u.Used.User != "":
		by = " by " + u.Used.User
	}
	return fmt.Sprintf("run %s, begun %s%s", u.Run, u.Since.UTC().Format("2006-01-02 15:04:05 MST"), by)
}

// unseen names what has no end.
func (u Unfinished) unseen() string {
	names := make([]string, len(u.Acting))
	for i, a := range u.Acting {
		names[i] = fmt.Sprintf("action %q of %s", a.Action, a.Resource)
	}
	return fmt.Sprintf("did not see the end of %s on %s", strings.Join(names, ", "), u.Used)
}

// firstLine is an error without what comes in further lines.
func firstLine(err error) string {
	if err == nil {
		err = errors.New("it does not answer")
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ".")
}
