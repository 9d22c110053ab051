package environments_test

import (
	"fmt"
	"testing"
	"time"
)

func TestTheHostsOfManyEnvironmentsAreSelectedWithoutAPause(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 2500 {
			d := daemon(fmt.Sprintf("env%d", i))
			w.create(d)
			w.deploy(d.Name, 1)
		}
		w.untilIdle()
		began := time.Now()
		w.untilIdle()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s to find that nothing has changed", took)
		}
	})
}
