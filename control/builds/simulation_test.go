package builds_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/inventory"
)

// Random groups are built while workers come, go, lose jobs and are slow, artifacts are used
// again or get lost, dispatchers are killed, stopped and stand by, and people cancel and
// retry. The oracle reads the log.
func TestSimulatedBuilds(t *testing.T) {
	drawn := map[string]int{}
	for seed := range ringtest.Cases(40, 300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				s := &simulation{world: w, r: rand.New(rand.NewPCG(uint64(seed), 13))}
				w.shelf = &shelf{uneven: s.chance(50), there: map[string]bool{}, drawn: drawn}
				s.run()
			})
		})
	}
	for _, what := range []string{"reused", "mistaken", "spoiled"} {
		assert.NotEqual(t, 0, drawn[what], "no job was %s", what)
	}
}

// simulation is a world in which things happen at random.
type simulation struct {
	*world
	r           *rand.Rand
	dispatchers []*dispatcher
	groups      []string
}

// chance is true so many times in a hundred.
func (s *simulation) chance(percent int) bool { return s.r.IntN(100) < percent }

func (s *simulation) run() {
	hash := func(t build.Task) *rand.Rand { // independent of the order
		return rand.New(rand.NewPCG(uint64(t.Job)<<20+uint64(t.Attempt), uint64(len(t.Group))))
	}
	unreliable := s.chance(50)
	s.takes = func(t build.Task) time.Duration {
		if r := hash(t); r.IntN(20) > 0 {
			return time.Duration(r.IntN(5000)) * time.Millisecond
		}
		return time.Minute
	}
	s.ends = func(t build.Task) build.Result {
		switch n := hash(t).IntN(100); {
		case !unreliable, n >= 10:
			return s.shelf.make(t)
		case n < 2:
			return failed("it does not compile")
		default:
			return lost("it was killed by the system")
		}
	}
	s.hook = func(_ context.Context, t build.Task) *build.Result {
		if unreliable && hash(t).IntN(200) == 0 {
			panic("at random")
		}
		return nil
	}
	s.fleet()
	for range 120 {
		s.step()
		wait(time.Duration(s.r.IntN(3000)) * time.Millisecond)
	}
	s.settle()
	check(s.world)
}

// step is something that happens.
func (s *simulation) step() {
	switch s.r.IntN(11) {
	case 0, 1:
		if len(s.groups) < 6 {
			s.groups = append(s.groups, s.submit("g", s.jobs(), func(b *build.Submit) { b.FailFast, b.NoReuse = s.chance(20), s.chance(50) }))
		}
	case 2:
		if len(s.dispatchers) < 3 {
			s.dispatchers = append(s.dispatchers, s.start())
		}
	case 3:
		if n := len(s.dispatchers); n > 0 {
			i := s.r.IntN(n)
			d := s.dispatchers[i]
			s.dispatchers = append(s.dispatchers[:i], s.dispatchers[i+1:]...)
			if s.chance(70) {
				d.die()
			} else {
				close(d.stop)
				wait(2 * time.Minute)
				d.kill()
			}
		}
	case 4:
		s.fleet()
	case 5:
		var down error
		if s.chance(50) {
			down = errDown
		}
		s.engine([]string{"a", "b", "c"}[s.r.IntN(3)], down)
	case 6:
		if n := len(s.groups); n > 0 && s.chance(40) {
			_, _ = s.builds.Command(context.Background(), build.Cancel{Group: s.groups[s.r.IntN(n)]})
		}
	case 7:
		if n := len(s.groups); n > 0 {
			_, _ = s.builds.Command(context.Background(), build.Retry{Group: s.groups[s.r.IntN(n)], FailedOnly: s.chance(50)})
		}
	case 8:
		s.set(func() { s.shelf.lose(s.r.IntN(1 << 20)) })
	}
}

// fleet changes which workers there are.
func (s *simulation) fleet() {
	var hosts []inventory.Host
	for _, name := range []string{"a", "b", "c"} {
		if s.chance(70) {
			hosts = append(hosts, host(name, 4)) // of whom the slots change only when nothing runs there
		}
	}
	var err error
	if s.chance(10) {
		err = fmt.Errorf("line %d: no", s.r.IntN(9))
	}
	s.inventory(err, hosts...)
}

// jobs are some that use, and wait for, those before them.
func (s *simulation) jobs() (all []record.JobSpec) {
	for i := range 1 + s.r.IntN(30) {
		j := record.JobSpec{Package: fmt.Sprintf("p%d", i+1), Inputs: fmt.Sprintf("sha256:%064d", i%7)}
		for n := 1; n <= i; n++ {
			switch {
			case s.chance(15):
				j.Uses = append(j.Uses, record.Use{Package: fmt.Sprintf("p%d", n), Job: n, Run: s.chance(50)})
			case s.chance(3):
				j.Waits = append(j.Waits, n)
			}
		}
		all = append(all, j)
	}
	return all
}

// settle has everything end: all workers answer, and one dispatcher stays.
func (s *simulation) settle() {
	s.inventory(nil, host("a", 4), host("b", 4), host("c", 4))
	for _, name := range []string{"a", "b", "c"} {
		s.engine(name, nil)
	}
	ended := func() bool {
		return !slices.ContainsFunc(s.groups, func(id string) bool { return !s.state(id).Ended() })
	}
	d := s.start()
	for range 10 { // beside the others
		wait(time.Second)
	}
	for _, other := range s.dispatchers {
		other.die()
	}
	for n := 0; n < 60 && !ended(); n++ {
		wait(time.Minute)
	}
	d.end()
}
