package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// ahead is a launcher that waits for its request. To start one is a tenth of a
// container's life, and nothing of it depends on the container; so it is done
// while the one before runs.
type ahead struct {
	mutex    sync.Mutex
	next     *container // nil if there is none
	starting sync.WaitGroup
	started  bool // one is, or is being started
	closed   bool
}

// take returns a launcher that was started ahead, or a new one where that does not see what the
// mounts are of: what is mounted in its namespace may be older than they are.
func (e *Engine) take(mounts []engine.Mount) (*container, error) {
	e.ahead.mutex.Lock()
	c := e.ahead.next
	if c != nil {
		e.ahead.next, e.ahead.started = nil, false
	}
	e.ahead.mutex.Unlock()
	if c == nil {
		return e.prepare()
	}
	select {
	case <-c.ended: // somebody killed it
		c.close()
		return e.prepare()
	default:
	}
	if c.sees(mounts) {
		return c, nil
	}
	c.close()
	return e.prepare()
}

// sees reports whether the launcher finds what was found of mounts, as far as that can be asked.
func (l *launcher) sees(mounts []engine.Mount) bool {
	for _, m := range mounts {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", l.process.Pid, m.Found.Path))
		if m.Found != (engine.Found{}) && (errors.Is(err, fs.ErrNotExist) || err == nil && !m.Found.Is(info)) {
			return false
		}
	}
	return true
}

// startAhead has a launcher started for the next run, unless there is one. One
// that cannot be started is not missed: the next run reports that.
func (e *Engine) startAhead() {
	a := &e.ahead
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.started || a.closed {
		return
	}
	a.started = true
	a.starting.Go(func() {
		var c *container
		err := crash.Do("starting a launcher", func() (err error) {
			c, err = e.prepare()
			return err
		})
		a.mutex.Lock()
		defer a.mutex.Unlock()
		if err != nil {
			a.started = false
			return
		}
		a.next = c
	})
}

// close ends the launcher, and starts no more.
func (a *ahead) close() {
	a.mutex.Lock()
	a.closed = true
	a.mutex.Unlock()
	a.starting.Wait()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.next != nil {
		a.next.close()
		a.next = nil
	}
}
