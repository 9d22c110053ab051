package cli_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/tasks"
)

// What Docker starts again runs whenever one looks, and still is seen to have ended.
func TestATaskThatEndsByItselfIsSeenToHave(t *testing.T) {
	w := newWebs(t)
	w.write(w.health(1), "")
	one := w.task(1, "antworker001", strings.Replace(web, `restart: "no"`, `restart: always`, 1), map[string]any{"image": w.image, "socket": strings.TrimPrefix(w.engine.Address(), "unix://")})
	w.start(one)
	seen := func(restarts int) tasks.ProbeResult {
		t.Helper()
		for {
			o := w.worker.Observe(t.Context(), one)
			if o.Restarts == nil || *o.Restarts > restarts {
				t.Fatalf("it is %+v, want %d restarts", o, restarts)
			}
			if o.Health == tasks.Healthy && *o.Restarts == restarts {
				return o
			}
		}
	}
	for restarts := range 3 {
		o := seen(restarts)
		assert.Equal(t, (restarts > 0), strings.Contains(o.Restarted, "web ended by itself"), "after %d restarts it says %q", restarts, o.Restarted)
		got, err := w.docker.ContainerInspect(t.Context(), one.Name(), client.ContainerInspectOptions{})
		if err == nil && restarts < 2 { // by hand it would have been somebody's wish
			err = syscall.Kill(got.Container.State.Pid, syscall.SIGKILL)
		}
		require.NoError(t, err)
	}
	w.terminate(one)
}
