package environments_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/environment"
)

// attended has environments controlled while somebody waits for them.
type attended struct {
	*environments.Attendance
	stop  chan struct{}
	ended chan error
}

func (w *world) attendance() *attended {
	a := &attended{stop: make(chan struct{}), ended: make(chan error, 1)}
	o := w.options
	o.Stop = a.stop
	a.Attendance = environments.NewAttendance(o)
	go func() { a.ended <- a.Run(context.Background()) }()
	synctest.Wait()
	return a
}

func (a *attended) end(t testing.TB) {
	t.Helper()
	close(a.stop)
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
}

func TestWhoIsWaitedForIsControlledAtOnceWhateverGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.working = func(t environment.Task) error {
			if t.Environment == "slow" {
				<-time.After(20 * time.Minute)
			}
			return nil
		}
		for name, host := range map[string]string{"slow": "a", "web": "b", "alone": "c"} {
			w.create(daemon(name), host)
			w.deploy(name, 1)
		}
		a := w.attendance()
		defer a.Attend("slow")()
		wait(time.Minute)
		defer a.Attend("web")()
		wait(2 * time.Second)
		w.wantRunning("b web:1")
		wait(30 * time.Minute)
		w.wantRunning("a slow:1", "b web:1")
		a.end(w)
	})
}

func TestWhoIsNotWaitedForAnyMoreIsLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		for name, host := range map[string]string{"web": "a", "db": "b"} {
			w.create(daemon(name), host)
			w.deploy(name, 1)
		}
		a := w.attendance()
		leaveWeb, leaveDB := a.Attend("web"), a.Attend("db")
		wait(time.Minute)
		w.wantRunning("a web:1", "b db:1")
		leaveWeb()
		wait(time.Second)
		looks := w.looksAt("a web:1")
		w.becomes("a", "web:1", environment.Unhealthy)
		w.becomes("b", "db:1", environment.Unhealthy)
		w.inventory("web", "a", "c")
		wait(10 * time.Minute)
		w.wantRunning("a web:1", "b db:1")
		if n := w.looksAt("a web:1"); n != looks {
			t.Errorf("it is looked at %d times", n-looks)
		}
		w.wantRows("db", "1 Active 1 1")

		leaveDB()
		wait(time.Second)
		if environments.WorksOn(w.log, "db") || len(w.heard("notice")) > 0 {
			t.Errorf("somebody is at work, for nobody; told %q", w.told)
		}
		defer a.Attend("web")()
		wait(2 * time.Second)
		w.wantRunning("a web:1", "b db:1", "c web:1")
		if w.count(environment.EventTaskDied) != 2 {
			t.Errorf("%d tasks died", w.count(environment.EventTaskDied))
		}
		a.end(w)
	})
}
