package invoke

import (
	"testing"

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
