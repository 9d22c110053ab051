package environments

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
)

// Probes are spread over their period, and some of them are begun together.
func TestSlotsOfTasksAreSpread(t *testing.T) {
	for every, want := range map[time.Duration]int{30 * time.Second: 300, time.Second: 10, 30 * time.Millisecond: 1} {
		p := newProbes(every, 1, nil)
		now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
		times := map[time.Time]bool{}
		for i := range 5000 {
			k := &target{name: deploylog.Target(fmt.Sprintf("environment/fleet/1/h%d", i))}
			at := p.slot(k, now)
			if !at.After(now) || at.After(now.Add(every)) || !p.slot(k, at).Equal(at.Add(every)) {
				t.Fatalf("every %s: after %s is %s, and then %s", every, now, at, p.slot(k, at))
			}
			times[at] = true
		}
		assert.Len(t, times, want, "every %s: at", every)
	}
}
