package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

// World is what the worlds of all controllers have: a log, and an observer, which it is itself.
type World struct {
	testing.TB
	Open       logtest.Store // the log, as another process does
	DeployLog  deploylog.Log
	OnRecorded func(deploylog.Event) // may be nil

	mu       sync.Mutex
	notified []string
}

// NewWorld returns the world of a log.
func NewWorld(t testing.TB, store logtest.Store) *World {
	return &World{TB: t, Open: store, DeployLog: store()}
}

// Recorded implements reconcile.Observer.
func (w *World) Recorded(e deploylog.Event) {
	w.Notify("%s %s", e.Name, e.Target)
	if w.OnRecorded != nil {
		w.OnRecorded(e)
	}
}

// Notice implements reconcile.Observer.
func (w *World) Notice(text string) { w.Notify("notice: %s", text) }

// Notify notes what the observer is told.
func (w *World) Notify(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notified = append(w.notified, fmt.Sprintf(format, values...))
}

// Forget drops what the observer was told.
func (w *World) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notified = nil
}

// Notices returns what the observer was told that has a text in it: "notice: TEXT" or "EVENT TARGET".
func (w *World) Notices(text string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.notified {
		if strings.Contains(t, text) {
			all = append(all, t)
		}
	}
	return all
}

// Events returns the log.
func (w *World) Events() (all []deploylog.Event) {
	for e, err := range w.DeployLog.Read(context.Background(), deploylog.Filter{}) {
		require.NoError(w, err)
		all = append(all, e)
	}
	return all
}

// Process is a controller at work.
type Process struct {
	Stop  chan struct{} // close it to drain the controller
	Ended chan error
	Kill  context.CancelCauseFunc
	t     testing.TB
}

// Start has a controller run in a bubble of synctest until it does nothing more by itself.
func Start(t testing.TB, run func(ctx context.Context, drain <-chan struct{}) error) *Process {
	ctx, kill := context.WithCancelCause(context.Background())
	p := &Process{Stop: make(chan struct{}), Ended: make(chan error, 1), Kill: kill, t: t}
	go func() { p.Ended <- run(ctx, p.Stop) }()
	synctest.Wait()
	return p
}

// End drains the controller, and waits until it has ended well.
func (p *Process) End() {
	close(p.Stop)
	assert.NoError(p.t, <-p.Ended)
	p.Kill(nil)
}

var errKilled = errors.New("killed")

// Die kills the controller, and waits until it has ended by that.
func (p *Process) Die() {
	p.Kill(errKilled)
	assert.ErrorIs(p.t, <-p.Ended, errKilled)
}

// Names are those that something has had, one after the other.
type Names struct {
	mu  sync.Mutex
	all []named
}

type named struct {
	name  string
	since time.Time
}

// grace is how long a controller may take to see that something is called differently: it looks each second.
const grace = 2 * time.Second

// Call gives it another name from now on.
func (n *Names) Call(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, named{name, time.Now()})
}

// Now returns its present name.
func (n *Names) Now() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[len(n.all)-1].name
}

// At returns the names that it had at a time, or within two seconds before.
func (n *Names) At(at time.Time) (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, c := range n.all {
		if !c.since.After(at) && (i+1 == len(n.all) || !n.all[i+1].since.Before(at.Add(-grace))) {
			names = append(names, c.name)
		}
	}
	return names
}

// Fit reports whether whoever has the inventory of these names may do something at a time that is
// bound to the inventory of others. It may where that is bound to none, "".
func (n *Names) Fit(bound *Names, at time.Time) bool {
	names := n.At(at)
	return slices.ContainsFunc(bound.At(at), func(b string) bool { return b == "" || slices.Contains(names, b) })
}
