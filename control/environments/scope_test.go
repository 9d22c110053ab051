package environments_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
)

// attended has environments controlled while somebody waits for them.
type attended struct {
	*reconcile.Scope
	stop  chan struct{}
	ended chan error
}

func (w *world) attendance() *attended {
	a := &attended{Scope: reconcile.Only(), stop: make(chan struct{}), ended: make(chan error, 1)}
	o := w.options
	o.Drain, o.Scope = a.stop, a.Scope
	go func() { a.ended <- environments.NewController(o).Run(context.Background()) }()
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
		defer a.Add("slow")()
		wait(time.Minute)
		defer a.Add("web")()
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
		leaveWeb, leaveDB := a.Add("web"), a.Add("db")
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
		if environments.Controlled(w.log, "db") || len(w.heard("notice")) > 0 {
			t.Errorf("somebody is at work, for nobody; told %q", w.told)
		}
		defer a.Add("web")()
		wait(2 * time.Second)
		w.wantRunning("a web:1", "b db:1", "c web:1")
		if w.count(environment.EventTaskDied) != 2 {
			t.Errorf("%d tasks died", w.count(environment.EventTaskDied))
		}
		a.end(w)
	})
}
