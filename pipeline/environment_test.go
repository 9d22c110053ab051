package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// A stage that deploys to an environment is work like that of a manifest, with
// an event of its own.
func TestAStageDeploysToAnEnvironment(t *testing.T) {
	at := time.Now()
	s := New("gateway")
	seq := int64(0)
	do := func(c Command) {
		t.Helper()
		events, err := s.Propose(c, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			seq++
			e.Seq = seq
			s.Apply(e)
		}
	}
	do(Define{Definition: &definition.Definition{Name: "gateway", Stages: []definition.Stage{{Name: "prod", After: []string{}, Environment: "gateway/prod"}}}, ID: "d"})
	do(Release{Revision: "42", ID: "r"})
	work := step.Step{}
	for range 10 {
		steps := slices.Collect(s.Decide(at, Can{}))
		if len(steps) == 0 || work.Event != "" && work.Event == steps[0].Event {
			break
		}
		if step := steps[0]; step.Work() {
			work = step
			if !s.due(step) || step.Environment != "gateway/prod" || step.Event != record.StageDeployed {
				t.Errorf("the work is %+v", step)
			}
		}
		events, err := steps[0].Completed(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			seq++
			e.Seq = seq
			s.Apply(e)
		}
	}
	if r := s.Registrations()[0]; work.Event == "" || r.Status != deployment.Finished {
		t.Errorf("the revision is %+v, after %+v", r, work)
	}
	if s.due(work) {
		t.Error("it is to be done again")
	}
}
