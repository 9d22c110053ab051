package promotion_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

var bySingle = definition.Promotion{Policy: definition.Single, Variable: "version", RetryAfter: dur(time.Minute)}

// A promotion whose environment is deleted meanwhile has failed, and keeps nobody from deleting
// the pipeline.
func TestAPromotionToWhatIsDeletedFails(t *testing.T) {
	w := newWorld(t, 2, bySingle)
	w.runs("a", "2")
	w.runs("b", "1")
	for _, s := range w.decide() {
		w.done(s, nil)
	}
	w.see("b", promotion.Observation{Health: promotion.Unknown, Why: "it was deleted", Deleted: true, Event: w.tick()})
	w.decide()
	last := w.log[len(w.log)-1]
	require.Equal(t, promotion.StageFailed, last.Name, "the last event is %+v", last)
	assert.Equal(t, "environment env/b was deleted", promotion.PayloadOf(last).Cause, "the last event is %+v", last)
	if _, err := w.state.Propose(promotion.Delete{ID: "delete"}, w.seen, w.now); err != nil {
		t.Error(err)
	}
}

// Who renames a stage that is held is told that the hold would end with that.
func TestADefinitionDoesNotDropAHold(t *testing.T) {
	w := newWorld(t, 2, bySingle)
	w.command(promotion.HoldStage{Stage: "b", ID: "hold"})
	renamed := *w.state.Definition()
	renamed.Stages = slices.Clone(renamed.Stages)
	renamed.Stages[1].Name = "prod"
	_, err := w.state.Propose(promotion.Define{Definition: &renamed, ID: "rename"}, w.seen, w.now)
	var refused *refusal.Error
	require.ErrorAs(t, err, &refused, "it is refused with")
	assert.Equal(t, promotion.DropsHold, refused.Code, "it is refused with")
	w.command(promotion.ReleaseHold{Stage: "b", ID: "release"})
	w.command(promotion.Define{Definition: &renamed, ID: "rename"})
}
