package enginetest

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

// hold begins a run of a held program, and returns once its container is there.
func (s *suite) hold(t *testing.T, spec engine.Spec, name string) (b *background, release func()) {
	t.Helper()
	held := make(chan struct{})
	spec.Hold = held
	spec.Labels = maps.Clone(spec.Labels)
	spec.Labels["held"] = name
	b = s.start(t, spec)
	waittest.Until(t, func() bool { return len(s.held(t, name)) == 1 }, "the held container is there")
	return b, func() { close(held) }
}

func (s *suite) held(t *testing.T, name string) []engine.Container {
	t.Helper()
	return s.list(t, map[string]string{label: s.mark, "held": name})
}

// send gives the program something to read, whenever it does.
func (b *background) send(text string) {
	go func() { _, _ = io.WriteString(b.stdin, text) }()
}

// marking is a spec whose program leaves a file.
func (s *suite) marking(t *testing.T) (spec engine.Spec, ran func() bool) {
	t.Helper()
	source, directory := s.writable(t)
	spec = s.spec("write", "/mnt/mark", "ran")
	spec.Mounts = []engine.Mount{{Source: source, Target: "/mnt"}}
	return spec, func() bool {
		_, err := os.Stat(filepath.Join(directory, "mark"))
		return err == nil
	}
}

func (s *suite) testHold(t *testing.T) {
	spec, ran := s.marking(t)
	b, release := s.hold(t, spec, "until released")
	b.send("input")
	s.succeed(t, s.spec("cat"), strings.NewReader("another that comes and goes"))
	if ran() {
		t.Error("it runs before it was released")
	}
	release()
	<-b.done
	if b.result.err != nil || b.result.exit.Code != 0 || !ran() {
		t.Errorf("exit %+v, error %v, ran: %v", b.result.exit, b.result.err, ran())
	}
	if left := s.held(t, "until released"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// Nothing of stdin is lost, and it still flows after the start.
	b, release = s.hold(t, s.spec("read-exit", "5"), "until its input comes")
	release()
	b.send("x")
	<-b.done
	if b.result.err != nil || b.result.exit.Code != 5 {
		t.Errorf("exit %+v, error %v; want code 5", b.result.exit, b.result.err)
	}
	sent := strings.Repeat("0123456789abcde\n", 1<<16)
	over := s.spec("cat")
	over.Hold = closed()
	if got := s.succeed(t, over, strings.NewReader(sent)); got != sent {
		t.Errorf("sent %d bytes, received %d others", len(sent), len(got))
	}
}

func (s *suite) testHoldCancelled(t *testing.T) {
	spec, ran := s.marking(t)
	b, release := s.hold(t, spec, "until cancelled")
	b.cancel()
	<-b.done
	release()
	if !errors.Is(b.result.err, context.Canceled) {
		t.Errorf("exit %+v, error %v; want context.Canceled", b.result.exit, b.result.err)
	}
	if left := s.held(t, "until cancelled"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if ran() {
		t.Error("it ran, though it was never released")
	}
}

// However slow the machine, a program that hangs is not stopped before its time is
// over, and one that is held is not stopped at all.
func (s *suite) testHoldTimeout(t *testing.T) {
	spec := s.spec("hang")
	spec.Timeout = time.Second
	b, release := s.hold(t, spec, "longer than its timeout")

	hanging := spec
	hanging.Hold = closed()
	if r := s.try(t, hanging, strings.NewReader("x")); !errors.Is(r.err, engine.ErrTimeout) {
		t.Errorf("after its release: exit %+v, error %v; want ErrTimeout", r.exit, r.err)
	}

	// So it has been held for longer than its timeout.
	released := time.Now()
	release()
	<-b.done
	if took := time.Since(released); !errors.Is(b.result.err, engine.ErrTimeout) || took < spec.Timeout {
		t.Errorf("exit %+v, error %v %s after its release; want ErrTimeout no sooner than after %s", b.result.exit, b.result.err, took, spec.Timeout)
	}
}

func (s *suite) testHoldOver(t *testing.T) {
	spec := s.spec("exit", "3")
	spec.Hold = closed()
	if r := s.try(t, spec, strings.NewReader("x")); r.err != nil || r.exit.Code != 3 {
		t.Errorf("exit %+v, error %v; want code 3", r.exit, r.err)
	}
	spec.Entrypoint = "/no/such/program"
	if r := s.try(t, spec, strings.NewReader("x")); r.err == nil ||
		!strings.Contains(r.err.Error(), "/no/such/program") || !strings.Contains(r.err.Error(), s.images.Probe) {
		t.Errorf("exit %+v, error %v; want one that names program and image", r.exit, r.err)
	}
}

func (s *suite) testHoldRemoved(t *testing.T) {
	spec, ran := s.marking(t)
	b, release := s.hold(t, spec, "until removed")
	if s.images.HeldRuns { // Docker may lose the end of what is removed while it starts
		waittest.Until(t, func() bool {
			found := s.held(t, "until removed")
			return len(found) == 1 && found[0].Running
		}, "the held container runs")
	}
	if err := s.engine.Remove(waittest.Context(t), s.held(t, "until removed")[0].ID); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	release()
	<-b.done
	if b.result.err == nil && b.result.exit.Code == 0 || ran() {
		t.Errorf("exit %+v, error %v, ran: %v", b.result.exit, b.result.err, ran())
	}
}

// closed is a hold that is over.
func closed() <-chan struct{} {
	over := make(chan struct{})
	close(over)
	return over
}
