package build_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build/record"
)

// A group without jobs, in a log that somebody else wrote, needs no worker to end.
func TestAGroupWithoutJobsIsNotIdle(t *testing.T) {
	w := newWorld(t)
	target := record.Group("none-1")
	w.append([]deploylogEvent{
		event(target, record.GroupTriggered, record.Triggered{Name: "none"}),
		event(target, record.GroupCreated, record.Created{}),
		event(target, record.GroupQueued, struct{}{}),
	})
	assert.False(t, w.state.Idle(nil), "it is idle, though the group may start")
	w.decide()
	w.is("none-1", "Complete:")
	assert.True(t, w.state.Idle(nil), "it is not idle when it has ended")
}
