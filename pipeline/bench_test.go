package pipeline

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

var fiveSteps = []string{"host-artifact-replicated", "host-deployed", "host-started-up", "host-tested", "host-announced"}

// wide is a pipeline that deploys to so many hosts at once, and its log so far.
func wide(hosts int) (*State, *int64) {
	s, seq := New("p"), new(int64)
	members := make([]string, hosts)
	for i := range members {
		members[i] = fmt.Sprintf("worker%06d", i)
	}
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("prod", nil, "all", fiveSteps...)}}
	carry(s, seq, Define{Definition: d, ID: "d0"})
	carry(s, seq, SetMembers{Members: map[string][]string{"all": members}, ID: "d1"})
	return s, seq
}

func carry(s *State, seq *int64, c Command) {
	events, err := s.Propose(c, noon)
	if err != nil {
		panic(err)
	}
	applyAll(s, seq, events)
}

func applyAll(s *State, seq *int64, events []deploylog.Event) {
	for _, e := range events {
		*seq++
		e.Seq = *seq
		s.Apply(e)
	}
}

// finish does all that can be done, as a scheduler does who has so many hands; each is told what was done.
func finish(s *State, seq *int64, hands int, each func([]deploylog.Event)) (steps int) {
	taken := make([]step.Step, 0, hands)
	for {
		taken = taken[:0]
		for step := range s.Decide(noon, Can{}) {
			if taken = append(taken, step); len(taken) == hands {
				break
			}
		}
		if len(taken) == 0 {
			return steps
		}
		for _, step := range taken {
			events, err := step.Completed(nil)
			if err != nil {
				panic(err)
			}
			applyAll(s, seq, events)
			each(events)
		}
		steps += len(taken)
	}
}

// The cost of a step must not depend on how many hosts there are, nor on how many of them have finished.
func BenchmarkSteps(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000, 100_000} {
		for _, hands := range []int{1, 64} {
			b.Run(fmt.Sprintf("hosts=%d/hands=%d", hosts, hands), func(b *testing.B) {
				s, seq := wide(hosts)
				steps := 0
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					carry(s, seq, Release{Revision: fmt.Sprint("r", i), ID: fmt.Sprint("id-", i)})
					steps += finish(s, seq, hands, func([]deploylog.Event) {})
				}
				b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
			})
		}
	}
}

// All hosts but one wait for that one; the cost of a host must not depend on how many there are.
func BenchmarkExplainFlight(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			s, seq := wide(hosts)
			d := cloneDefinition(s.definition)
			d.Stages[0].Deploy.HostGroups[0].MaxInFlight = &budget.Budget{Count: 1}
			carry(s, seq, Define{Definition: d, ID: "d2"})
			carry(s, seq, Release{Revision: "r", ID: "id"})
			for range 4 {
				for step := range s.Decide(noon, Can{}) {
					events, err := step.Completed(nil)
					if err != nil {
						b.Fatal(err)
					}
					applyAll(s, seq, events)
					break
				}
			}
			for b.Loop() {
				if n := len(s.Explain(s.target)); n < hosts {
					b.Fatalf("%d reasons of %d hosts", n, hosts)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*hosts), "ns/host")
		})
	}
}

// A long history is read to know what is going on now, of which little is kept.
func BenchmarkFold(b *testing.B) {
	s, seq := wide(1_000)
	var log []deploylog.Event
	for r := 0; *seq < 1_000_000; r++ {
		carry(s, seq, Release{Revision: fmt.Sprint("r", r), ID: fmt.Sprint("id-", r)})
		finish(s, seq, 1_000, func(events []deploylog.Event) { log = append(log, events...) })
	}
	defined, members := s.definition, s.members
	b.ResetTimer()
	kept := New("p")
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept = New("p")
		n := int64(0)
		carry(kept, &n, Define{Definition: defined, ID: "d0"})
		carry(kept, &n, SetMembers{Members: members, ID: "d1"})
		b.StartTimer()
		id := ""
		for i := range log {
			if log[i].Deployment != id { // its registration is not among the steps
				id = log[i].Deployment
				kept.Apply(deploylog.Event{Deployment: id, Target: "pipeline/p", Revision: log[i].Revision, Name: record.PipelineStarted, Attempt: 1})
			}
			log[i].Seq = int64(i + 1)
			kept.Apply(log[i])
		}
		for range kept.Decide(noon, Can{}) {
			b.Fatal("a finished pipeline has something to do")
		}
	}
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(len(log))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB-kept")
	runtime.KeepAlive(kept)
}
