package pipeline

import (
	"errors"
	"reflect"
	"testing"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func TestAPipelineIsDeletedWhenNothingOfItIsUnderWay(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.says(w.refused(Delete{ID: "late"}, DeploymentRunning), "pipeline ant-gateway cannot be deleted: v1 is in progress; wait for its end, or cancel it with the pipeline (--cancel)")
	w.do(Cancel{Revision: "v1"})
	w.do(Delete{ID: "deletion", By: "ann", Reason: "replaced"})
	if last := w.log[len(w.log)-1]; last.Name != "pipeline-deleted" || last.Target != "pipeline/ant-gateway" || w.state.Deleted() != last.Seq {
		t.Errorf("the log ends with %+v, and the pipeline is deleted since %d", last, w.state.Deleted())
	}
	if w.state.Definition() != nil || len(w.state.Registrations()) != 0 {
		t.Error("it remembers what it was")
	}
	for _, c := range []Command{
		Release{Revision: "2"}, ReceiveArtifact{Revision: "v1", Kind: "x86"}, Approve{Revision: "v1", Stage: "approve"},
		Cancel{Revision: "v1"}, Retry{Revision: "v1"}, SetMembers{}, Delete{ID: "again"},
	} {
		err := w.refused(c, UnknownPipeline)
		w.says(err, `pipeline "ant-gateway": it was deleted (event `)
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("%v is not %v", err, ErrUnknown)
		}
	}
}

func TestADeletionMayCancelWhatIsUnderWay(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.release("v2")
	var work step.Step // that is being done when the pipeline is deleted
	for work.Target == "" {
		for s := range w.state.Decide(noon, Can{}) {
			if s.Work() {
				work = s
			}
			break
		}
		if work.Target == "" {
			w.step()
		}
	}
	before := len(w.log)
	w.do(Delete{ID: "deletion", Cancel: true})
	var names []string
	for _, e := range w.log[before:] {
		names = append(names, e.Name+" "+e.Revision)
	}
	if want := []string{"pipeline-cancelled v1", "pipeline-cancelled v2", "pipeline-deleted "}; !reflect.DeepEqual(names, want) {
		t.Errorf("recorded is %v, want %v", names, want)
	}
	for s := range w.state.Decide(noon, Can{}) {
		t.Errorf("%s of %s may still be done", s.Event, s.Target)
	}
	if w.state.due(work) {
		t.Error("what was begun is still due")
	}
	done, err := work.Completed(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.append(done...) // it is recorded when it ends, and changes nothing
	if w.state.Definition() != nil || len(w.state.Registrations()) != 0 {
		t.Error("the end of work brought the pipeline back")
	}
}

// A pipeline that is defined after its deletion has nothing of the one before.
func TestADeletedPipelineIsMadeAnew(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Delete{ID: "deletion", Cancel: true})
	w.do(Define{Definition: gated(), ID: "anew"})
	w.do(SetMembers{Members: antHosts, ID: "hosts-anew"})
	if w.state.Deleted() != 0 {
		t.Error("it is still deleted")
	}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Approve{Revision: "v1", Stage: "approve"})
	w.idle()
	if r := w.state.Registrations(); len(r) != 1 || r[0].Status != deployment.Finished {
		t.Errorf("the revisions are %+v", r)
	}
	// What a log says of a deletion that there was nothing for is no news.
	s := New("ant-gateway")
	s.Apply(w.log[len(w.log)-1])
	for _, e := range w.log {
		if e.Name == record.PipelineDeleted {
			s.Apply(e)
		}
	}
	if s.Deleted() != 0 {
		t.Error("what never was is deleted")
	}
}
