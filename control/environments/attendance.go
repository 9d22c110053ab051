package environments

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/internal/crash"
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
		if names := a.present(); len(names) > 0 {
			if over, err := a.control(ctx, names); over || err != nil {
				return err
			}
			continue
		}
		select {
		case <-a.changed:
		case <-a.options.Stop:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// control runs a controller until nobody is there. Over tells that nobody is to be
// waited for any more.
func (a *Attendance) control(ctx context.Context, names []string) (over bool, err error) {
	o := a.options
	stop, others := make(chan struct{}), make(chan []string, 1)
	o.Environments, o.Stop = names, stop
	c := NewController(o)
	c.others = others
	ended := make(chan error, 1)
	go func() {
		ended <- crash.Do("controlling environments", func() error { return c.Run(ctx) })
	}()
	for len(names) > 0 && !over { // no names would be all
		select {
		case err := <-ended:
			return true, err
		case <-a.changed:
			if names = a.present(); len(names) == 0 {
				break
			}
			select {
			case <-others: // not taken note of yet
			default:
			}
			others <- names
		case <-a.options.Stop:
			over = true
		case <-ctx.Done():
			over = true
		}
	}
	close(stop)
	return over, <-ended
}
