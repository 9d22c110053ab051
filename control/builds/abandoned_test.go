package builds_test

import (
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
)

// Whoever kills dispatchers, and the containers with them, fails no job by that.
func TestKilledDispatchersAreNotTheFaultOfAJob(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs(""))
		for range 6 {
			d := w.start()
			wait(50 * time.Second)
			w.mu.Lock()
			clear(w.containers)
			w.mu.Unlock()
			d.die()
		}
		d := w.start()
		wait(3 * time.Minute)
		w.wantState(id, transition.Complete)
		d.end()
	})
}
