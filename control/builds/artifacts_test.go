package builds_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// attempt is one of a job.
type attempt struct {
	target deploylog.Target
	number int
}

// shelf is where the artifacts of a world are, for tests in which they may be missing.
type shelf struct {
	uneven bool            // equal inputs do not give equal artifacts
	there  map[string]bool // by digest
	drawn  map[string]int  // what happened, how often
}

// make is how a job ends that makes an artifact.
func (s *shelf) make(t build.Task) build.Result {
	r := built(t)
	if s.uneven {
		r.Finished.Artifact = fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %d", t.Inputs, t.Target(), t.Attempt)))
	}
	return r
}

// begin is how a task ends for which there need not be a container: it takes what was built
// before, or misses something. nil is that it needs one.
func (s *shelf) begin(t build.Task) *build.Result {
	if t.Reuse != nil {
		artifact := t.Reuse.Finished.Artifact
		if !s.there[artifact] {
			s.drawn["mistaken"]++
			return &build.Result{Lost: &record.Lost{Cause: "what was built is gone", Mistaken: true, Spoiled: []string{artifact}}}
		}
		s.drawn["reused"]++
		return &build.Result{Finished: &record.Finished{Artifact: artifact, Reused: t.Reuse.Target()}}
	}
	var gone []string
	for _, d := range t.Uses {
		if d.Job > 0 && !s.there[d.Artifact] {
			gone = append(gone, d.Artifact)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	s.drawn["spoiled"]++
	return &build.Result{Lost: &record.Lost{Cause: "what it uses is gone", Spoiled: gone}}
}

// lose removes one of the artifacts.
func (s *shelf) lose(number int) {
	if all := slices.Sorted(maps.Keys(s.there)); len(all) > 0 {
		delete(s.there, all[number%len(all)])
	}
}

// uses complains of an attempt that begins with another artifact than the log says that the
// job has built last which it uses.
func (o *oracle) uses(id string, job, number int) {
	for _, d := range o.world.uses[attempt{record.Job(id, job), number}] {
		if d.Job > 0 && d.Artifact != o.artifact[id][d.Job] {
			o.Errorf("attempt %d of job %d of %s begins with %s of job %d, which has built %s", number, job, id, d.Artifact, d.Job, o.artifact[id][d.Job])
		}
	}
}

// finishes complains of a job that takes what no other has built, or is not to.
func (o *oracle) finishes(id string, job int, data record.Finished) {
	assert.False(o, o.built[id][job], "job %d of %s is built twice", job, id)
	if by, number, _ := record.Parse(data.Reused); data.Reused != "" {
		if o.noReuse[id] || !o.made[data.Artifact] || o.built[by] == nil || number < 1 {
			o.Errorf("job %d of %s takes %s of %s", job, id, data.Artifact, data.Reused)
		}
	}
	o.made[data.Artifact] = true
	o.built[id][job], o.artifact[id][job] = true, data.Artifact
}
