package promotions

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// What an environment runs is found out once, and again when it has changed: not so often where
// that takes long. What nobody keeps, and what cannot be read, is unknown.
func TestWhatIsObservedIsKeptUntilItChanges(t *testing.T) {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	open := reconciletest.InMemory(t)
	log := open()
	fails := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	persons := environments.New(log, clock)
	does := func(c environment.Command) {
		t.Helper()
		_, err := persons.Command(t.Context(), "dev", c)
		fails(err)
	}
	d := &envdefinition.Definition{Name: "dev", Type: envdefinition.Daemon, InstanceGroup: envdefinition.InstanceGroup{Query: "all"}, Task: envdefinition.TaskSpec{Manifest: "m", Vars: map[string]any{"version": "1"}}}
	does(environment.Create{Definition: d})

	c := NewController(Options{Options: reconcile.Options{Log: open(), Now: clock, Parallelism: 1}})
	_, err := c.promotions.Change(t.Context(), "shop", true, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(promotion.Define{ID: "define", Definition: &definition.Definition{
			Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"},
			Stages: []definition.Stage{{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod"}},
		}}, promotion.Observed{}, now)
	})
	fails(err)
	c.use("shop", []string{"dev", "prod"})
	of := observed{"dev", "version"}
	var again time.Time
	seen := func() promotion.Observation {
		t.Helper()
		fails(c.followed.Follow(t.Context(), 0))
		var all promotion.Observed
		all, again = c.observe(c.promotions.States["shop"])
		return all["dev"]
	}

	if o := seen(); o.Health != promotion.Unknown || !strings.Contains(o.Why, "no controller keeps it") {
		t.Errorf("what nobody keeps is %+v", o)
	}
	leave, err := log.TryLock("environment/dev")
	fails(err)
	defer leave()
	first := c.seen[of].at
	now = now.Add(time.Hour)
	if o := seen(); o.Why != "nothing is deployed" || !c.seen[of].at.Equal(first) || !again.IsZero() {
		t.Errorf("what has not changed is looked at again at %s: %+v", c.seen[of].at, o)
	}

	does(environment.Deploy{Revision: 1, Hosts: []string{"h1"}})
	require.Equal(t, "1", seen().Revision)
	assert.WithinDuration(t, now, c.seen[of].at, 0, "it has changed, and is observed")

	slow := c.seen[of]
	slow.took = 20 * time.Millisecond
	c.seen[of] = slow
	does(environment.Pause{})
	now = now.Add(100 * time.Millisecond)
	require.True(t, seen().Moving, "what takes long is observed again at once, or at %s", again)
	assert.WithinDuration(t, slow.at.Add(400*time.Millisecond), again, 0, "what takes long is observed again at once, or at")
	now = again
	if o := seen(); o.Moving || !c.seen[of].at.Equal(now) || !again.IsZero() {
		t.Errorf("nor is it later: %+v", o)
	}

	c.broken = errors.New("input/output error")
	if o := seen(); o.Health != promotion.Unknown || !strings.Contains(o.Why, "input/output error") {
		t.Errorf("what cannot be read is %+v", o)
	}
}

// A revision that is there since a moment that has not come yet, for the clock was set back, is
// there since that was seen.
func TestWhenAClockIsSetBackIsKept(t *testing.T) {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	c := NewController(Options{Options: reconcile.Options{Log: reconciletest.InMemory(t)(), Now: func() time.Time { return now }, Parallelism: 1}})
	_, err := c.promotions.Change(t.Context(), "shop", true, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(promotion.Define{ID: "define", Definition: &definition.Definition{
			Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"},
			Stages: []definition.Stage{{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod"}},
		}}, promotion.Observed{}, now)
	})
	require.NoError(t, err)
	of := observed{"dev", "version"}
	c.seen[of] = observation{Observation: promotion.Observation{Health: promotion.Whole, Event: 1, Since: now.Add(time.Hour)}, watched: true, at: now}
	for range 3 {
		all, _ := c.observe(c.promotions.States["shop"])
		assert.WithinDuration(t, time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), all["dev"].Ahead, 0, "it was first seen")
		now = now.Add(20 * time.Minute)
	}
}
