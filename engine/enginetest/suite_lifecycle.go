package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

func (s *suite) testTimeout(t *testing.T) {
	spec := s.spec("hang")
	spec.Timeout = time.Second
	spec.Labels["ends"] = "by timeout"
	r := s.try(t, spec, nil)
	if !errors.Is(r.err, engine.ErrTimeout) {
		t.Errorf("exit %+v, error %v; want ErrTimeout", r.exit, r.err)
	}
	if left := s.list(t, map[string]string{label: s.mark, "ends": "by timeout"}); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	patient := s.spec("exit", "0")
	patient.Timeout = waittest.Limit
	s.succeed(t, patient, nil)
}

func (s *suite) testCancel(t *testing.T) {
	b := s.running(t, map[string]string{"ends": "by cancel"})
	b.cancel()
	<-b.done
	if !errors.Is(b.result.err, context.Canceled) {
		t.Errorf("exit %+v, error %v; want context.Canceled", b.result.exit, b.result.err)
	}
	if left := s.list(t, map[string]string{label: s.mark, "ends": "by cancel"}); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func (s *suite) testCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(waittest.Context(t))
	cancel()
	if exit, err := s.engine.Run(ctx, s.spec("exit", "0"), engine.IO{}); !errors.Is(err, context.Canceled) {
		t.Errorf("exit %+v, error %v; want context.Canceled", exit, err)
	}
}

func (s *suite) testContainers(t *testing.T) {
	began := time.Now()
	b := s.running(t, map[string]string{"a": "1", "b": "two words"})
	found := s.list(t, map[string]string{label: s.mark, "a": "1", "b": ""})
	if len(found) != 1 {
		t.Fatalf("found %v, want one container", found)
	}
	container := found[0]
	if !container.Started || !container.Running || container.ID == "" || container.Labels["b"] != "two words" {
		t.Errorf("incomplete: %+v", container)
	}
	if age := container.Created.Sub(began); age < -time.Minute || age > waittest.Limit {
		t.Errorf("created at %s, the test began at %s", container.Created, began)
	}
	for _, other := range []map[string]string{
		{label: s.mark, "a": "2"},
		{label: s.mark, "a": "1", "c": ""},
		{label: "another", "a": "1"},
	} {
		if found := s.list(t, other); len(found) > 0 {
			t.Errorf("labels %v find %v", other, found)
		}
	}

	if err := s.engine.Remove(waittest.Context(t), container.ID); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	<-b.done
	if b.result.err == nil && b.result.exit.Code == 0 {
		t.Error("a run whose container was removed under it counts as a success")
	}
	if found := s.list(t, map[string]string{label: s.mark, "a": "1"}); len(found) > 0 {
		t.Errorf("still there after its removal: %v", found)
	}
}

func (s *suite) testLeftBehind(t *testing.T) {
	if s.images.Leave == nil {
		t.Log("the engine's containers die with the process: nothing can be left behind")
		return
	}
	id, end := s.images.Leave(t, map[string]string{label: s.mark, "left": "behind"})
	t.Cleanup(func() {
		if err := s.engine.Remove(context.WithoutCancel(t.Context()), id); err != nil {
			t.Errorf("Remove: %v", err)
		}
	})
	labels := map[string]string{label: s.mark, "left": "behind"}
	if found := s.list(t, labels); len(found) != 1 || found[0].ID != id || !found[0].Started || !found[0].Running {
		t.Fatalf("found %+v, want container %s running", found, id)
	}

	short, cancel := context.WithCancel(waittest.Context(t))
	cancel()
	if exit, err := s.engine.Wait(short, id); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: exit %+v, error %v", exit, err)
	}

	waited := make(chan result, 1)
	go func() {
		exit, err := s.engine.Wait(waittest.Context(t), id)
		waited <- result{exit: exit, err: err}
	}()
	end()
	if r := <-waited; r.err != nil || r.exit.Code != 7 {
		t.Errorf("Wait: exit %+v, error %v; want code 7", r.exit, r.err)
	}
	if exit, err := s.engine.Wait(waittest.Context(t), id); err != nil || exit.Code != 7 {
		t.Errorf("Wait after the end: exit %+v, error %v; want code 7", exit, err)
	}
	if found := s.list(t, labels); len(found) != 1 || !found[0].Started || found[0].Running {
		t.Errorf("found %+v, want one that has run", found)
	}
	for range 2 { // the second time it is not there any more
		if err := s.engine.Remove(waittest.Context(t), id); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	if found := s.list(t, labels); len(found) > 0 {
		t.Errorf("found %+v after the removal", found)
	}
}

func (s *suite) testUnknownContainer(t *testing.T) {
	const unknown = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if exit, err := s.engine.Wait(waittest.Context(t), unknown); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("Wait: exit %+v, error %v; want ErrNoContainer", exit, err)
	}
	if err := s.engine.Remove(waittest.Context(t), unknown); err != nil {
		t.Errorf("Remove: %v", err)
	}
}
