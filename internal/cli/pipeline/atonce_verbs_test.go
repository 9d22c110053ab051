package pipeline

import (
	"errors"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/deployment"
)

func TestOfTwoWhoEndARevisionAtOnceOneDoes(t *testing.T) {
	withTwo(t, func(w atOnce) {
		w.mustDefine(w.one, "a.yaml")
		w.must(w.release(w.one))
		w.follow(w.other)
		results := make([]error, 2)
		var both sync.WaitGroup
		for i, by := range []struct {
			who  *query.Pipelines
			does pipeline.Command
		}{{w.one, pipeline.Skip{Revision: "1", By: "ann"}}, {w.other, pipeline.Cancel{Revision: "1", By: "bob"}}} {
			both.Go(func() { _, results[i] = by.who.Command(w.Context(), "gateway", by.does) })
		}
		both.Wait()
		var refused *refusal.Error
		if (results[0] == nil) == (results[1] == nil) || !errors.As(errors.Join(results...), &refused) || refused.Code != pipeline.NotRunning {
			t.Errorf("they are told %v and %v", results[0], results[1])
		}
		w.follow(w.one)
		r, err := w.one.Release("gateway", "1")
		w.must(err)
		if skipped := results[0] == nil; skipped != (r.Status == deployment.PassedOver) || skipped != (r.EndedBy == "ann") {
			t.Errorf("it is %s by %s", r.Status, r.EndedBy)
		}
	})
}
