package enginetest

import (
	"crypto/rand"
	"strconv"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

// limited is a probe that may have no more than 64 MB and does as args say once
// the engine has seen that it runs, as an engine need not notice what happens in
// the same moment.
func (s *suite) limited(t *testing.T, args ...string) (b *background, labels map[string]string) {
	t.Helper()
	spec := s.spec(append([]string{"after"}, args...)...)
	spec.Memory = 64 << 20
	spec.Labels["limited"] = rand.Text()
	b = s.start(t, spec)
	b.awaitOutput(t)
	waittest.Until(t, func() bool {
		found := s.list(t, spec.Labels)
		return len(found) == 1 && found[0].Running
	}, "the container counts as running")
	b.send("x")
	return b, spec.Labels
}

func (s *suite) inLimits(t *testing.T, args ...string) result {
	t.Helper()
	b, _ := s.limited(t, args...)
	_ = b.stdin.Close()
	<-b.done
	return b.result
}

func (s *suite) testMemory(t *testing.T) {
	if r := s.inLimits(t, "allocate", "1000000"); r.err != nil || r.exit != (engine.Exit{}) {
		t.Errorf("1 MB: exit %+v, error %v", r.exit, r.err)
	}
	if r := s.inLimits(t, "allocate", "200000000"); r.err != nil || r.exit != (engine.Exit{Code: 137, OOMKilled: true}) {
		t.Errorf("200 MB: exit %+v, error %v; want 137 for lack of memory", r.exit, r.err)
	}
}

func (s *suite) testMemoryOfChild(t *testing.T) {
	if r := s.inLimits(t, "child", "allocate", "1000000"); r.err != nil || r.exit != (engine.Exit{}) {
		t.Errorf("1 MB: exit %+v, error %v", r.exit, r.err)
	}
	// The program outlives its child until the engine knows how that ended.
	b, labels := s.limited(t, "child", "allocate", "200000000")
	if s.images.Lacked != nil {
		waittest.Until(t, func() bool { return s.images.Lacked(t, labels) }, "the engine knows that memory is lacking")
	}
	_ = b.stdin.Close()
	<-b.done
	if r := b.result; r.err != nil || r.exit != (engine.Exit{OOMKilled: true}) {
		t.Errorf("200 MB: exit %+v, error %v; want code 0 and lack of memory", r.exit, r.err)
	}
}

func (s *suite) testPids(t *testing.T) {
	const wanted = 100
	fork := s.spec("fork", strconv.Itoa(wanted))
	if got := s.succeed(t, fork, nil); got != strconv.Itoa(wanted) {
		t.Errorf("without a limit of its own %s processes are made, want %d", got, wanted)
	}
	fork.Pids = 50
	made, err := strconv.Atoi(s.succeed(t, fork, nil))
	if err != nil || made == 0 || made >= int(fork.Pids) {
		t.Errorf("%d processes are made (%v), want fewer than %d", made, err, fork.Pids)
	}
}
