package control

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Attendance runs a Controller for just those environments that somebody waits
// for at the moment.
type Attendance struct {
	options ControllerOptions

	mu      sync.Mutex
	waiting map[string]int // by environment
	changed chan struct{}
}

// NewAttendance prepares controllers with these options, whose Environments it
// chooses itself.
func NewAttendance(o ControllerOptions) *Attendance {
	return &Attendance{options: o, waiting: map[string]int{}, changed: make(chan struct{}, 1)}
}

// Attend has an environment controlled until leave is called.
func (a *Attendance) Attend(name string) (leave func()) {
	a.count(name, 1)
	return sync.OnceFunc(func() { a.count(name, -1) })
}

func (a *Attendance) count(name string, by int) {
	a.mu.Lock()
	before := a.waiting[name]
	if a.waiting[name] += by; a.waiting[name] == 0 {
		delete(a.waiting, name)
	}
	a.mu.Unlock()
	if before == 0 || before+by == 0 {
		select {
		case a.changed <- struct{}{}:
		default: // it is known already
		}
	}
}

func (a *Attendance) present() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.waiting))
}

// Run controls what is attended until the context or the Stop of the options
// ends it. It fails when a controller does.
func (a *Attendance) Run(ctx context.Context) error {
	for {
		names, ended := a.present(), make(chan error, 1)
		o := a.options
		stop := make(chan struct{})
		if o.Environments, o.Stop = names, stop; len(names) > 0 {
			go func() { ended <- NewController(o).Run(ctx) }()
		}
		var over bool
		select {
		case err := <-ended:
			return err
		case <-a.changed:
		case <-a.options.Stop:
			over = true
		case <-ctx.Done():
			over = true
		}
		close(stop)
		if len(names) > 0 {
			if err := <-ended; err != nil {
				return err
			}
		}
		if over {
			return nil
		}
	}
}
