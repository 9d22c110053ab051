package builds_test

import (
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
)

// Whoever interrupts a dispatcher lets it finish what runs, unless that is not wanted any more.
func TestACancelIsHeardWhileADispatcherEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return 3 * time.Hour }
		id := w.submit("base", jobs(""))
		d := w.start()
		wait(5 * time.Second)
		close(d.stop)
		wait(5 * time.Second)
		w.do(build.Cancel{Group: id})
		wait(time.Minute)
		if got := w.state(id); got != transition.Canceled {
			t.Errorf("a minute after the cancel the group is %v: %s", got, w.story(id))
		}
		if err := <-d.ended; err != nil {
			t.Error(err)
		}
		d.kill()
	})
}
