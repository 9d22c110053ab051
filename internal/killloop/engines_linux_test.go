package killloop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// The same on two Docker Engines, of which one is killed now and then, too, and comes again
// after a while: what it built is built on the other, or again.
func TestBuildsOnTwoDockerEnginesSurviveKills(t *testing.T) {
	rounds(t, max(*kills, 1), func(w *world, kills int) {
		d := newDistribution(w, "--inventory", "inventory.yaml")
		inventory := "hosts:\n"
		var engines []*dockerdtest.Engine
		for i := range 2 {
			e := dockerdtest.New(t)
			engines = append(engines, e)
			inventory += fmt.Sprintf("- {name: worker%d, endpoint: %q, slots: 2}\n", i, e.Address())
			d.onDocker(e, func(e *docker.Engine) error { return d.load(e) })
		}
		w.write("inventory.yaml", inventory)
		lost, made := -1, 0
		back := func() {
			if lost >= 0 {
				engines[lost].Start()
				lost = -1
			}
		}
		d.between = func() {
			if made++; made%5 == 3 { // seldom: to start one takes as long as some kills
				lost = w.IntN(len(engines))
				w.say("worker%d is killed", lost)
				engines[lost].Kill()
				return
			}
			back()
		}
		d.survive(kills, 6*time.Second)
		back()
		for _, e := range engines {
			d.onDocker(e, func(on *docker.Engine) error {
				left, err := on.Containers(context.Background(), map[string]string{invoke.LabelKind: jobs.KindJob})
				assert.True(t, len(left) <= 0, "left on %s: %+v", e.Address(), left)
				return err
			})
		}
	})
}

func (d *distribution) onDocker(e *dockerdtest.Engine, do func(*docker.Engine) error) {
	on, err := docker.Open(context.Background(), docker.Options{Host: e.Address()})
	if err == nil {
		err = errors.Join(do(on), on.Close())
	}
	require.NoError(d, err)
}
