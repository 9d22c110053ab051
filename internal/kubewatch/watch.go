package kubewatch

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
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

// all returns who views an object.
func (w *watch) all() []*viewer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.viewers))
}

// of returns who views the object of a name.
func (w *watch) of(name string) (all []*viewer) {
	for _, v := range w.all() {
		if v.name == name {
			all = append(all, v)
		}
	}
	return all
}

// errAsked is that somebody came to view something, which ends what was followed.
var errAsked = errors.New("somebody else asks")

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
		if begun {
			lost, answered = 0, true
		}
		if errors.Is(err, errAsked) {
			continue
		}
		if !begun {
			lost++
		}
		if short++; time.Since(began) > mostPause {
			short = 0
		}
		if errors.Is(err, errQuiet) { // that it is gone shows at once, or that it tells nobody that nothing happens
			lost, err = tolerated, nil
		}
		_, refused := errors.AsType[*Error](err)
		if err != nil && (refused || !answered || lost > tolerated || errors.Is(err, errNoAnswer)) {
			w.tell(err)
			answered = false
		}
		w.rest(ctx, w.options.pause(short), err)
	}
}

// pause is one after some failures in a row. Those of many watches do not end at once.
func (o Options) pause(failures int) time.Duration {
	most := min(o.Retry<<min(failures, doublings), mostPause)
	return most - rand.N(most/2+1) //nolint:gosec // nobody gains from knowing it
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
			for _, v := range w.all() {
				if !v.told {
					v.told = true
					v.seen(nil, err)
				}
			}
		}
	}
}

func (w *watch) tell(err error) {
	for _, v := range w.all() {
		v.told = true
		v.seen(nil, err)
	}
}

// follow looks at all objects, and follows what becomes of them until they are to be looked at anew:
// too much has happened, or err, which is errAsked when somebody came. What was seen is told when it can be followed, and
// begun reports whether that was so.
func (w *watch) follow(ctx context.Context) (begun bool, err error) {
	select { // who came until now is told by what follows
	case <-w.again:
	default:
	}
	c, err := w.cluster.open(w.options)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil && !errors.Is(err, errAsked) {
			w.cluster.forget(c)
		}
	}()
	r, err := c.resource(ctx, w.watchKey)
	if err != nil {
		return false, err
	}
	found := map[string]map[string]any{}
	wanted := map[string]bool{}
	viewers := w.all()
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
				found = nil
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
			return begun, errAsked
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
		if now, _, err := reach(w.cluster.name, w.options.Find); err != nil || now != c.reached {
			return begun, nil // it is reached in another way by now
		}
	}
}
