package invoke

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The error names the directory that has most of it.
func TestMayBeginNamesWhereARunHasLeftTooMuch(t *testing.T) {
	const work, kept = "/w/.deployster/work/RUN", "/w/.deployster/work/OWNER/served/01-x.work"
	for name, test := range map[string]struct {
		calls int64
		dirs  map[string]int64
		want  string
	}{
		"no more than it may":         {60, map[string]int64{kept: 40}, ""},
		"calls":                       {101, nil, "in .deployster/work/RUN/,"},
		"a process of the run":        {0, map[string]int64{work + "/served/01-x.work": 101}, "in .deployster/work/RUN/,"},
		"a process of other runs":     {10, map[string]int64{kept: 101}, "in .deployster/work/OWNER/served/01-x.work/,"},
		"calls beside such a process": {90, map[string]int64{kept: 40}, "in .deployster/work/RUN/,"},
	} {
		v := &Invoker{containers: Containers{Run: "RUN", Workspace: "/w", Work: work, MaxWork: 100}}
		v.left.calls, v.left.dirs = test.calls, test.dirs
		err := v.MayBegin()
		if test.want == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, test.want, name)
	}
}

// A directory in which many calls leave files is not measured with each of them.
func TestAWorkDirectoryThatTakesLongIsNotMeasuredWithEachCall(t *testing.T) {
	dir := t.TempDir()
	left := leftBytes{dirs: map[string]int64{}, next: map[string]time.Time{}}
	for i, step := range []struct {
		wait, anyway, measured bool
	}{{measured: true}, {measured: true}, {wait: true}, {wait: true, anyway: true, measured: true}, {wait: true}} {
		left.use(dir)
		if step.wait {
			left.next[dir] = time.Now().Add(measurePause(time.Minute))
		}
		left.dirs[dir] = -1
		left.measure(step.anyway)
		assert.Equal(t, step.measured, left.dirs[dir] >= 0, "step %d", i)
	}
	assert.Zero(t, measurePause(time.Millisecond))
	assert.Equal(t, 20*time.Second, measurePause(time.Second))
}
