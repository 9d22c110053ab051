package work

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/must"
)

func probedFrom(change func(*probed)) probed {
	from := probed{engine: "e", hosts: 1, task: tasks.Task{
		Environment: "fleet", Host: "h1", Revision: 2,
		Spec: definition.TaskSpec{Digest: "d", Vars: map[string]any{"image": "one"}, Includes: map[string]string{"/variables": "v"}},
	}}
	if change != nil {
		change(&from)
	}
	return from
}

func TestAProbeIsKnownWhileItsTaskIsTheSame(t *testing.T) {
	for name, tc := range map[string]struct {
		from  func(*probed) // what the second probe is made from
		later time.Duration
		known bool
	}{
		"nothing changed":            {later: longest/2 - time.Second, known: true},
		"it is a while ago":          {later: longest},
		"the clock was set back":     {later: -time.Second},
		"the inventory is another":   {from: func(f *probed) { f.hosts = 2 }},
		"the engine is another":      {from: func(f *probed) { f.engine = "other" }},
		"its manifest is another":    {from: func(f *probed) { f.task.Spec.Digest = "other" }},
		"a variable is another":      {from: func(f *probed) { f.task.Spec.Vars = map[string]any{"image": "two"} }},
		"what it carries is another": {from: func(f *probed) { f.task.Spec.Includes = map[string]string{} }},
		"the revision is another":    {from: func(f *probed) { f.task.Revision = 3 }},
		"the host is another":        {from: func(f *probed) { f.task.Host = "h2" }},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			k := knownProbes{byTask: map[string]knownProbe{}}
			k.add(knownProbe{from: probedFrom(nil)}, now)
			p, known := k.take(probedFrom(tc.from), now.Add(tc.later))
			assert.Equal(t, tc.known, known)
			if known {
				k.put(p)
				_, known = k.take(probedFrom(tc.from), now.Add(longest))
				assert.False(t, known, "for ever")
			}
		})
	}
}

// However many tasks there are, what is kept of them is bounded, and what is too old makes room.
func TestSoManyBytesOfProbesAreKept(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	k := knownProbes{byTask: map[string]knownProbe{}}
	of := func(i int) probed { return probedFrom(func(f *probed) { f.task.Host = fmt.Sprint("h", i) }) }
	add := func(i int, at time.Time) {
		k.put(knownProbe{from: of(i), since: at, until: at.Add(longest), bytes: mostBytes / 3})
	}
	for range 2 { // putting one again does not count twice
		for i := range 4 {
			add(i, now)
		}
	}
	assert.Len(t, k.byTask, 3)
	add(5, now.Add(2*longest))
	assert.Len(t, k.byTask, 1)
}

func TestAPlugThatLeadsElsewhereIsNoticed(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	one, two, link := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(one, 0o700))
	require.NoError(t, os.Mkdir(two, 0o700))
	require.NoError(t, os.Symlink(one, link))
	p := knownProbe{plugs: []plugPath{{link, one}}}
	assert.True(t, p.unmoved(map[string]string{}))
	require.NoError(t, os.Remove(link))
	assert.False(t, p.unmoved(map[string]string{}))
	require.NoError(t, os.Symlink(two, link))
	assert.False(t, p.unmoved(map[string]string{}))
}
