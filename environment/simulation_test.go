package environment

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/ringtest"
)

var seed = flag.Uint64("seed", 0, "run only the simulation of this seed, and tell its story")

// Whole rollouts among hosts that come and go, tasks that die, engines that fail,
// controllers that crash and people who change their minds. What is promised is
// looked at whenever something happens.
func TestSimulatedRollouts(t *testing.T) {
	if *seed != 0 {
		s, err := simulate(*seed)
		t.Logf("%+v\n%s%v", s.nature, s.story(), s.tally)
		require.NoError(t, err)
		return
	}
	const shards = 8
	each := ringtest.Cases(60, 260)
	var mu sync.Mutex
	total := map[string]int{}
	t.Run("in", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for i := range each {
					n := uint64(1 + shard*each + i)
					s, err := simulate(n)
					assert.NoError(t, err, "The story is told by go test ./environment -run TestSimulatedRollouts -seed %d", n)
					mu.Lock()
					for what, n := range s.tally {
						total[what] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%8d %s", total[what], what)
	}
	if n := total["rollouts"]; n < 4*shards*each {
		t.Errorf("%d rollouts are too few", n)
	}
	for _, what := range []string{"at rest", "automatic", record.BakeFailed, "failed in a bake", "cleaned", record.TaskAdopted, record.TaskCheckFailed, record.TaskChecked, "cordons", "crashes", record.HostsUncordoned, record.StepReached, record.StepVerified, record.StepVerifyFailed, "could not be verified", "failed its verification", record.EnvironmentPromoted, "doubled", "exceptions", "exceptions of a rollback", "exists again", "kept, and not in the inventory", "kept by a rollback", "no room", "not rolled back onto the hosts of others", "rolled back without the hosts of others", "a repair that is confirmed", "restarted before its step", "repaired while a step waits", "repaired while too many have failed", "restarted", "rolled back to the last good revision", "stuck", "taken over", record.EnvironmentDeleted, record.TaskDrifted, record.TaskDeadlinePassed, record.TaskRecovered} {
		if total[what] == 0 {
			t.Errorf("of %q there is nothing, so nothing is known", what)
		}
	}
}
