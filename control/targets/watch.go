package targets

import (
	"context"
	"slices"
	"sync"
)

// watches are those of the hosts of a stage.
type watches struct {
	engines Engines
	byHost  map[string]*watch
	running sync.WaitGroup
	changed chan struct{} // has one when something happened
}

type watch struct {
	end   context.CancelFunc
	ended chan struct{}
}

// follow has these hosts watched and no others. A watch that has ended begins again.
func (w *watches) follow(ctx context.Context, hosts []string) {
	for host, one := range w.byHost {
		over := false
		select {
		case <-one.ended:
			over = true
		default:
		}
		if over || !slices.Contains(hosts, host) {
			one.end()
			delete(w.byHost, host)
		}
	}
	for _, host := range hosts {
		if w.byHost[host] != nil {
			continue
		}
		watching, end := context.WithCancel(ctx)
		one := &watch{end, make(chan struct{})}
		w.byHost[host] = one
		w.running.Go(func() {
			defer close(one.ended)
			w.engines.Watch(watching, host, w.happened)
		})
	}
}

// happened notes that something happened.
func (w *watches) happened() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watches) end() {
	for _, one := range w.byHost {
		one.end()
	}
	w.running.Wait()
}
