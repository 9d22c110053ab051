package kubewatch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// viewer is told of one object.
type viewer struct {
	name string
	seen func(live map[string]any, err error)
	told bool // the error that there is; only its watch uses that
}

// watch watches the objects of a kind in a namespace for those who view some.
type watch struct {
	watchKey
	cluster *cluster
	options Options
	end     func()
	again   chan struct{} // somebody views an object who knows nothing of it yet

	mu      sync.Mutex
	viewers map[*viewer]bool
}

func (w *watch) add(v *viewer) {
	w.mu.Lock()
	w.viewers[v] = true
	w.mu.Unlock()
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// remove returns how many there are still.
func (w *watch) remove(v *viewer) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.viewers, v)
	return len(w.viewers)
}

// of returns who views an object, "" for any.
func (w *watch) of(name string) (all []*viewer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for v := range w.viewers {
		if name == "" || v.name == name {
			all = append(all, v)
		}
	}
	return all
}

// The pauses of a watch.
const (
	mostPause = 30 * time.Second
	doublings = 5
	tolerated = 1 // failures in a row of a cluster that answered before, which may only have been restarted
)

// run watches until ctx ends.
func (w *watch) run(ctx context.Context) {
	lost, short, answered := 0, 0, false
	for ctx.Err() == nil {
		began := time.Now()
		begun, err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if lost++; begun {
			lost, answered = 0, true
		}
		if short++; time.Since(began) > mostPause {
			short = 0
		}
		_, refused := errors.AsType[*Error](err)
		if err != nil && (refused || !answered || lost > tolerated) {
			w.tell(err)
			answered = false
		}
		if err == nil && len(w.again) > 0 {
			continue
		}
		w.rest(ctx, min(w.options.Retry<<min(short, doublings), mostPause), err)
	}
}

// rest waits for a pause. Who comes to view something is told what is known of that.
func (w *watch) rest(ctx context.Context, pause time.Duration, err error) {
	over := time.NewTimer(pause)
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return
		case <-ctx.Done():
			return
		case <-w.again:
			if err == nil {
				return
			}
			for _, v := range w.of("") {
				if !v.told {
					v.told = true
					v.seen(nil, err)
				}
			}
		}
	}
}

func (w *watch) tell(err error) {
	for _, v := range w.of("") {
		v.told = true
		v.seen(nil, err)
	}
}

// follow looks at all objects, and follows what becomes of them until they are to be looked at anew:
// somebody came, too much has happened, or err. What was seen is told when it can be followed, and
// begun reports whether that was so.
func (w *watch) follow(ctx context.Context) (begun bool, err error) {
	select { // who came until now is told by what follows
	case <-w.again:
	default:
	}
	c, err := w.cluster.open(w.options.Find)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			w.cluster.forget(c)
		}
	}()
	r, err := c.resource(ctx, w.watchKey)
	if err != nil {
		return false, err
	}
	found := map[string]map[string]any{}
	wanted := map[string]bool{}
	viewers := w.of("")
	for _, v := range viewers {
		wanted[v.name] = true
	}
	version, err := c.list(ctx, r, func(name string) bool { return wanted[name] }, func(name string, live map[string]any) { found[name] = live })
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer stop()
	asked := make(chan struct{})
	listening.Go(func() { // who comes to view something ends what is under way
		select {
		case <-w.again:
			close(asked)
			stop()
		case <-ctx.Done():
		}
	})
	follower := follower{
		wants: func(name string) bool { return len(w.of(name)) > 0 },
		begun: func() {
			if !begun {
				begun = true
				for _, v := range viewers {
					v.told = true
					v.seen(found[v.name], nil)
				}
			}
		},
		changed: func(name string, live map[string]any) {
			for _, v := range w.of(name) {
				v.seen(live, nil)
			}
		},
	}
	for {
		began := time.Now()
		version, err = c.watch(ctx, r, version, follower)
		select {
		case <-asked:
			return begun, nil
		default:
		}
		switch {
		case errors.Is(err, errExpired):
			return begun, nil
		case err != nil:
			return begun, err
		case time.Since(began) < w.options.Retry: // a server that ends each watch at once is not asked without end
			return begun, nil
		}
		if now, err := w.options.Find(w.cluster.name); err != nil || now != c.access {
			return begun, nil // it is reached in another way by now
		}
	}
}
