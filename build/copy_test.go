package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A copy stays what it was, whatever becomes of the state.
func TestACopyStaysAsItWas(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec(), spec(), spec(1), spec(2, 3)))
	w.decide()
	w.end(always(lost), "base-1", 1)
	w.end(built, "base-1", 2)
	before := stateOf(t, w.state)
	c := w.state.Copy()
	w.must(group("base", spec(), spec(1)))
	w.now = w.now.Add(time.Minute)
	for w.decide(); len(w.doing) > 0; w.decide() {
		w.end(built, w.doing[0].Group, w.doing[0].Job)
	}
	w.must(group("other", spec()))
	require.NotEqual(t, before, stateOf(t, w.state), "nothing has changed")
	if after, err := c.Encode(); err != nil || string(after) != before {
		t.Errorf("the copy has changed: %v", err)
	}
}
