package pane

import (
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// Ticks calls a function for every tick until it is ended.
type Ticks struct{ stop, done chan struct{} }

// NewTicks begins to call a function for every tick.
func NewTicks(tick <-chan time.Time, call func()) Ticks {
	t := Ticks{stop: make(chan struct{}), done: make(chan struct{})}
	go t.run(tick, call)
	return t
}

// End ends the calls; it must be called once. One may be under way until Wait returns.
func (t Ticks) End() { close(t.stop) }

// Wait returns when the last call has.
func (t Ticks) Wait() { <-t.done }

func (t Ticks) run(tick <-chan time.Time, call func()) {
	defer close(t.done)
	defer crash.End(engine.StateDir, "showing what is going on")
	for {
		select {
		case <-tick:
			call()
		case <-t.stop:
			return
		}
	}
}
