package jobs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// "make test" tells all stories on the engine without a daemon. Those of which processes are killed
// are told on Docker, whose containers go on then.
func TestJobsInContainers(t *testing.T) {
	for name, at := range realEngines(t) {
		t.Run(name, func(t *testing.T) {
			if e := opened(t, at); at.OCI || ringtest.All() {
				tell(t, func(t *testing.T) *world { return newWorld(t, e) }, true)
			}
			for name, s := range killed() {
				if !at.OCI || s.cancel || s.removed || ringtest.All() {
					t.Run(name, func(t *testing.T) { s.tell(t, at) })
				}
			}
		})
	}
}

// killedStory is a job whose process is killed while its container runs, which waits until it
// may go on.
type killedStory struct {
	then    []string      // what the container does then
	timeout time.Duration // of the job
	late    bool          // it is resumed only when its container has ended
	cancel  bool          // its group is canceled meanwhile
	removed bool          // somebody else removes the container
	after   time.Duration // how much later it is resumed
	want    string
	log     string
	content string
}

func killed() map[string]killedStory {
	return map[string]killedStory{
		"it goes on, and its end is awaited": {
			then: []string{"print done"}, want: `finished {"a":"1"}`, log: "begun\ndone\n", content: "f: text, go: ",
		},
		"it ends before it is resumed": {
			then: []string{"print done"}, late: true, want: `finished {"a":"1"}`, log: "begun\ndone\n", content: "f: text, go: ",
		},
		"it ends in time, and is resumed when that is over": {
			then: []string{"print done"}, late: true, timeout: time.Hour, after: 2 * time.Hour,
			want: `finished {"a":"1"}`, log: "begun\ndone\n", content: "f: text, go: ",
		},
		"it fails": {
			then: []string{"print no", "exit 4"}, late: true, want: "failed: exited with 4", log: "begun\nno\n",
		},
		"it takes too long": {
			then: []string{"hang"}, timeout: time.Hour, after: 2 * time.Hour, want: "failed: timed out after 1h", log: "begun\n",
		},
		"its group is canceled": {cancel: true, then: []string{"hang"}, want: "canceled", log: "begun\n"},
		"its container is gone": {removed: true, then: []string{"hang"}, want: "lost: the process that did it has died, and its container is gone", log: "begun\n"},
	}
}

func (s killedStory) tell(t *testing.T, at place) {
	w := newWorld(t, opened(t, at))
	r := w.recipe(append([]string{"print begun", "write " + out + "/f text", "append " + metadata + " a=1", "await " + out + "/go"}, s.then...)...)
	if s.timeout > 0 {
		r.Timeout = s.timeout
	}
	task := w.task(r)
	kill := w.begin(at, task)
	waittest.Until(t, func() bool { return w.log(task) == "begun\n" }, "it has begun")
	kill()
	dir := filepath.Join(w.dir, engine.StateDir, "builds", "work", "base-7~12.1")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "out", "go"), nil, 0o600))
	left := func() []engine.Container {
		all, err := w.engine.Containers(t.Context(), map[string]string{"deployster.log": w.options.Log})
		require.NoError(t, err)
		return all
	}
	if s.late {
		waittest.Until(t, func() bool {
			all := left()
			return len(all) == 0 || !all[0].Running
		}, "its container has ended")
	}
	if s.removed {
		for _, c := range left() {
			require.NoError(t, w.engine.Remove(t.Context(), c.ID))
		}
	}
	want := s
	if at.OCI && !s.cancel { // containers end with the process
		want = killedStory{want: "lost: the process that did it has died, and its container is gone", log: "begun\n"}
	}
	ctx, cancel := cancelable(t)
	if s.cancel {
		cancel()
	}
	w.options.Now = func() time.Time { return time.Now().Add(s.after) }
	w.jobs = jobs.New(w.options)
	result := w.jobs.Resume(ctx, task)
	assert.Equal(t, want.want, told(result))
	assert.Equal(t, want.log, w.log(task))
	if result.Finished != nil {
		assert.Equal(t, want.content, w.content(result.Finished.Artifact))
		require.Equal(t, w.id, result.Finished.Image, "it is not said how it was made: %+v", result.Finished)
		assert.Equal(t, int64(len(want.log)), result.Finished.LogBytes, "it is not said how it was made: %+v", result.Finished)
		again := w.jobs.Resume(context.Background(), task) // as when this process died before it is recorded
		require.Equal(t, told(result), told(again))
		assert.Equal(t, result.Finished.Artifact, again.Finished.Artifact)
	}
}
