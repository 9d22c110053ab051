package runner_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
)

// BenchmarkPlan measures what the runner itself costs: resources that are as
// configured, of ten types that serve, in an engine that costs nothing.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("%d-resources", n), func(b *testing.B) {
			benchmarkPlan(b, n, func(i int) string {
				return fmt.Sprintf("  r%d: {type: thing%d, config: {value: %d, token: secret-%d}}\n", i, i%10, i, i)
			})
		})
	}
	b.Run("1000-deep", func(b *testing.B) {
		benchmarkPlan(b, 1_000, func(i int) string {
			if i == 0 {
				return "  r0: {type: thing0, config: {value: 0}}\n"
			}
			return fmt.Sprintf("  r%d: {type: thing%d, dependencies: {up: r%d}, config: {value: '{{ up.state.value + 1 }}'}}\n", i, i%10, i-1)
		})
	})
}

// BenchmarkApply measures what the runner adds to each call: a resource that is
// changed takes three, one of them an action.
func BenchmarkApply(b *testing.B) {
	for name, of := range map[string]func(*world) enginetest.FakeImage{
		"served":     func(w *world) enginetest.FakeImage { return w.serving(good) },
		"containers": func(w *world) enginetest.FakeImage { return image(w.thing) },
	} {
		b.Run(name, func(b *testing.B) {
			const n = 100
			w := newWorld(b)
			w.engine.Images["thing"] = of(w)
			cache := &memory{answers: map[string][]byte{}}
			round := 0
			for b.Loop() {
				b.StopTimer()
				w.forget()
				clear(w.things)
				round++
				r := w.runner(b, many(n, "thing"), func(o *options) {
					o.Work, o.Observer, o.Recorder = filepath.Join(w.workspace, fmt.Sprint(round)), nil, nil
					o.InitCache, o.Parallelism = cache, 1
				})
				b.StartTimer()
				_, err := r.Apply(b.Context())
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n*3), "µs/call")
		})
	}
}

func benchmarkPlan(b *testing.B, n int, resource func(int) string) {
	w := newWorld(b)
	for i := range 10 {
		w.engine.Images[fmt.Sprintf("thing%d", i)] = w.serving(good)
	}
	var text strings.Builder
	text.WriteString("resources:\n")
	for i := range n {
		text.WriteString(resource(i))
		w.things[fmt.Sprintf("r%d", i)] = i
	}
	round := 0
	for b.Loop() {
		b.StopTimer()
		w.forget()
		round++
		r := w.runner(b, text.String(), func(o *options) {
			o.Work, o.Observer = filepath.Join(w.workspace, fmt.Sprint(round)), nil
		})
		b.StartTimer()
		plan, err := r.Plan(b.Context())
		require.NoError(b, err)
		require.False(b, plan.Changes(), "not everything is as configured")
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/resource")
}
