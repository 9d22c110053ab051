package environment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// wide is an environment of so many hosts, with all that was begun on them and has not ended.
type wide struct {
	state *State
	names []string
	seq   int64
	now   time.Time
	busy  map[string]bool
	work  []tasks.Step
}

// newWide is one whose first revision is active. A quarter of its hosts may be without a task at once.
func newWide(hosts int) *wide {
	w := &wide{state: New("p"), now: time.Date(2017, 9, 6, 11, 47, 23, 0, time.UTC), busy: map[string]bool{}}
	for i := range hosts {
		w.names = append(w.names, fmt.Sprintf("worker%06d", i))
	}
	w.do(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 75 })})
	w.do(Deploy{Revision: 1, Hosts: w.names})
	w.rollout(max(1, hosts), true)
	return w
}

func (w *wide) do(c Command) {
	events, err := w.state.Propose(c, w.now)
	if err != nil {
		panic(err)
	}
	w.append(events)
}

func (w *wide) append(events []deploylog.Event) {
	for _, e := range events {
		w.seq++
		e.Seq, e.CreatedAt = w.seq, w.now
		w.state.Apply(e)
	}
}

func (w *wide) update() {
	base := len(w.state.revisions)
	d := *w.state.revisions[base-1].Definition
	d.Task.Vars = map[string]any{"image": fmt.Sprint("log-daemon:", base+1)}
	w.do(Update{Base: base, Definition: &d})
	w.now = w.now.Add(time.Second)
	w.do(Deploy{Revision: base + 1, Hosts: w.names})
}

// begin begins what may be done with so many hands. It asks no further when all are
// busy: who does is told of every host that waits.
func (w *wide) begin(hands int) (begun bool) {
	var steps []tasks.Step
	if len(w.work) >= hands {
		return false
	}
	can := Can{Disrupt: true, Work: func(host string) bool { return len(w.work)+len(steps) < hands && !w.busy[host] }}
	for step := range w.state.Decide(w.now, can) {
		steps = append(steps, step)
		if len(w.work)+len(steps) >= hands {
			break
		}
	}
	for _, step := range steps {
		w.append(step.Events)
		if step.Kind != tasks.Record {
			w.busy[step.Host] = true
			w.work = append(w.work, step)
		}
	}
	return len(steps) > 0
}

// rollout goes on until the deployment has finished, with a decision after the end
// of each step. It returns how many steps have ended.
func (w *wide) rollout(hands int, all bool) (ended int) {
	for !w.state.finished {
		if !all || len(w.work) == 0 {
			for w.begin(hands) {
				continue
			}
		}
		for len(w.work) > 0 {
			step := w.work[0]
			w.work = w.work[1:]
			delete(w.busy, step.Host)
			w.append(w.state.Completed(step, tasks.ProbeResult{Health: tasks.Healthy}, nil))
			if ended++; !all {
				break
			}
		}
	}
	return ended
}

// side runs a benchmark of so many hosts, and tells how its cost compares to that of the fewest.
func side(b *testing.B, unit string, run func(b *testing.B, hosts int) (each float64)) {
	first := 0.0
	for _, hosts := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			each := run(b, hosts)
			if first == 0 {
				first = each
			}
			b.ReportMetric(each, "ns/"+unit)
			b.ReportMetric(each/first, "x-of-100-hosts")
		})
	}
}

// Everything is open: no host has a task yet.
func BenchmarkFullDecision(b *testing.B) {
	side(b, "host", func(b *testing.B, hosts int) float64 {
		w := newWide(0)
		for i := range hosts {
			w.names = append(w.names, fmt.Sprintf("worker%06d", i))
		}
		w.do(Deploy{Revision: 1, Hosts: w.names})
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for range w.state.Decide(w.now, Can{Disrupt: true}) {
				n++
			}
			require.Equal(b, hosts, n, "steps may be done")
		}
		return float64(b.Elapsed().Nanoseconds()) / float64(b.N*hosts)
	})
}

// A deployment is applied to hosts that all have a task, and decided about.
func BenchmarkDeployment(b *testing.B) {
	side(b, "host", func(b *testing.B, hosts int) float64 {
		w := newWide(hosts)
		b.ReportAllocs()
		for b.Loop() {
			w.update()
			n := 0
			for range w.state.Decide(w.now, Can{Disrupt: true}) {
				n++
			}
			require.Equal(b, hosts/4, n, "steps may be done")
		}
		return float64(b.Elapsed().Nanoseconds()) / float64(b.N*hosts)
	})
}

// Whole rollouts: the end of each step is applied, and what is new decided. That must not cost more the more hosts
// there are, but only the more hands are busy, whose hosts are passed over.
func BenchmarkChangedHost(b *testing.B) {
	for _, hands := range []int{16, 1_000} {
		b.Run(fmt.Sprintf("hands=%d", hands), func(b *testing.B) {
			side(b, "step", func(b *testing.B, hosts int) float64 {
				w := newWide(hosts)
				ended := 0
				b.ReportAllocs()
				for b.Loop() {
					w.update()
					ended += w.rollout(hands, false)
				}
				return float64(b.Elapsed().Nanoseconds()) / float64(ended)
			})
		})
	}
}
