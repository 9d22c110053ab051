package pipeline

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

func TestAPipelineIsDeletedWhenNothingOfItIsUnderWay(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.says(w.refused(Delete{ID: "late"}, DeploymentRunning), "pipeline ant-gateway cannot be deleted: v1 is in progress; wait for its end, or cancel it with the pipeline (--cancel)")
	w.do(Cancel{Revision: "v1"})
	w.do(Delete{ID: "deletion", By: "ann", Reason: "replaced"})
	last := w.log[len(w.log)-1]
	assert.True(t, last.Name == "pipeline-deleted" && last.Target == "pipeline/ant-gateway" && w.state.Deleted() == last.Seq,
		"the log ends with %+v, and the pipeline is deleted since %d", last, w.state.Deleted())
	assert.True(t, w.state.Definition() == nil && len(w.state.Registrations()) == 0, "it remembers what it was")
	for _, c := range []Command{
		Release{Revision: "2"}, ReceiveArtifact{Revision: "v1", Kind: "x86"}, Approve{Revision: "v1", Stage: "approve"},
		Cancel{Revision: "v1"}, Retry{Revision: "v1"}, SetMembers{}, Delete{ID: "again"},
	} {
		err := w.refused(c, UnknownPipeline)
		w.says(err, `pipeline "ant-gateway": it was deleted (event `)
		assert.ErrorIs(t, err, ErrUnknown)
	}
}

func TestADeletionMayCancelWhatIsUnderWay(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.release("v2")
	w.until("v1", onBeta, record.HostStarted)
	work := slices.Collect(w.state.Decide(noon, Can{}))[0] // is being done when the pipeline is deleted
	before := len(w.log)
	w.do(Delete{ID: "deletion", Cancel: true})
	var names []string
	for _, e := range w.log[before:] {
		names = append(names, e.Name+" "+e.Revision)
	}
	assert.Equal(t, []string{"pipeline-cancelled v1", "pipeline-cancelled v2", "pipeline-deleted "}, names, "recorded")
	w.mayDo()
	done, err := work.Completed(nil)
	require.NoError(t, err)
	w.append(done...) // it is recorded when it ends, and changes nothing
	assert.True(t, w.state.Definition() == nil && len(w.state.Registrations()) == 0, "the end of work brought the pipeline back")
}

// A pipeline that is defined after its deletion has nothing of the one before.
func TestADeletedPipelineIsMadeAnew(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Delete{ID: "deletion", Cancel: true})
	w.do(Define{Definition: gated(), ID: "anew"})
	w.do(SetMembers{Members: antHosts, ID: "hosts-anew"})
	assert.True(t, w.state.Deleted() == 0, "it is still deleted")
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Approve{Revision: "v1", Stage: "approve"})
	w.idle()
	r := w.state.Registrations()
	assert.True(t, len(r) == 1 && r[0].Status == deployment.Finished, "the revisions are %+v", r)
	// What a log says of a deletion that there was nothing for is no news.
	s := New("ant-gateway")
	s.Apply(w.log[len(w.log)-1])
	for _, e := range w.log {
		if e.Name == record.PipelineDeleted {
			s.Apply(e)
		}
	}
	assert.True(t, s.Deleted() == 0, "what never was is deleted")
}
