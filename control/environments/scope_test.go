package environments_test

import (
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

func TestWhoIsWaitedForIsControlledAtOnceWhateverGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.working = func(t tasks.Task) error {
			if t.Environment == "slow" {
				<-time.After(20 * time.Minute)
			}
			return nil
		}
		w.deployEach(map[string]string{"slow": "a", "web": "b", "alone": "c"})
		scope := reconcile.Only()
		r := w.within(scope)
		defer scope.Add("slow")()
		wait(time.Minute)
		defer scope.Add("web")()
		wait(2 * time.Second)
		w.wantRunning("b web:1")
		wait(30 * time.Minute)
		w.wantRunning("a slow:1", "b web:1")
		r.end()
	})
}

func TestWhoIsNotWaitedForAnyMoreIsLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"web": "a", "db": "b"})
		scope := reconcile.Only()
		r := w.within(scope)
		leaveWeb, leaveDB := scope.Add("web"), scope.Add("db")
		wait(time.Minute)
		w.wantRunning("a web:1", "b db:1")
		leaveWeb()
		wait(time.Second)
		probes := w.probesOf("a web:1")
		w.becomes("a", "web:1", tasks.Unhealthy)
		w.becomes("b", "db:1", tasks.Unhealthy)
		w.inventory("web", "a", "c")
		wait(10 * time.Minute)
		w.wantRunning("a web:1", "b db:1")
		if n := w.probesOf("a web:1"); n != probes {
			t.Errorf("it is probed %d times", n-probes)
		}
		w.wantRows("db", "1 Active 1 1")

		leaveDB()
		wait(time.Second)
		if w.environments.Controlled("db") || len(w.notices("notice")) > 0 {
			t.Errorf("somebody is at work, for nobody; notified %q", w.notified)
		}
		defer scope.Add("web")()
		wait(2 * time.Second)
		w.wantRunning("a web:1", "b db:1", "c web:1")
		if w.count(record.TaskDied) != 2 {
			t.Errorf("%d tasks died", w.count(record.TaskDied))
		}
		r.end()
	})
}
