package build

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// found is an artifact that was built of some inputs.
type found struct {
	g        *group
	job      int32
	artifact string
	seq      int64
	unpushed *record.Finished // of a job that failed because it could not be pushed
}

func decode[T any](data []byte) T { return record.Decode[T](deploylog.Event{Data: data}) }

// finished takes note of an artifact for whoever builds of the same inputs, and of how long
// it took.
func (s *State) finished(g *group, i int32, data *record.Outcome, seq int64) {
	if data.Reused {
		if f, known := s.reusable[data.Inputs]; known && f.unpushed == nil {
			return
		}
	} else {
		if len(s.spoiled) > 0 {
			delete(s.spoiled, data.Artifact)
		}
		if data.Took > 0 {
			took := s.lasting(g).took
			took[g.jobs[i].occurrence] = data.Took
		}
	}
	if data.Inputs != "" && data.Artifact != "" {
		s.reusable[data.Inputs] = found{g: g, job: i, artifact: data.Artifact, seq: seq}
	}
}

// unpushed takes note of an artifact that a job has built and failed to push.
func (s *State) unpushed(g *group, i int32, e deploylog.Event) {
	if !bytes.Contains(e.Data, []byte(`"unpushed"`)) {
		return
	}
	data := record.Decode[record.Failed](e).Unpushed
	if data == nil || data.Inputs == "" || data.Artifact == "" {
		return
	}
	if f, known := s.reusable[data.Inputs]; known && f.unpushed == nil && !s.spoiled[f.artifact] {
		return
	}
	delete(s.spoiled, data.Artifact)
	s.reusable[data.Inputs] = found{g: g, job: i, artifact: data.Artifact, seq: e.Seq, unpushed: data}
}

// reuse is what was built before of some inputs, unless that is missing or altered.
func (s *State) reuse(g *group, inputs string) *Built {
	f, ok := s.reusable[inputs]
	own := f.unpushed != nil && f.g == g // the group has built it itself
	if !ok || s.spoiled[f.artifact] || g.triggered.NoReuse && !own {
		return nil
	}
	j := &f.g.jobs[f.job]
	if f.unpushed != nil {
		return &Built{Group: f.g.id, Job: int(f.job) + 1, Attempt: int(j.attempt), Seq: f.seq, Finished: *f.unpushed}
	}
	data := decode[record.Finished](j.ended)
	if j.state != transition.Built || data.Artifact != f.artifact {
		return nil // it was built again since, of something else
	}
	return &Built{Group: f.g.id, Job: int(f.job) + 1, Attempt: int(j.attempt), Seq: f.seq, Finished: data}
}

// inputs is the hash of all that goes into a job.
func (g *group) inputs(i int32) string {
	spec := &g.specs[i]
	var room [1 << 10]byte
	text := add(room[:0], spec.Inputs)
	for k := range spec.Uses {
		text = add(add(text, spec.Uses[k].Package), g.identOf(&spec.Uses[k]))
	}
	return sum(text)
}

// identOf is a text that two have in common that are the same artifacts: what a use names,
// and what that needs to run.
func (g *group) identOf(u *record.Use) string {
	if u.Job < 1 || u.Job > len(g.jobs) {
		return u.Artifact
	}
	return g.ident(int32(u.Job - 1))
}

func (g *group) ident(i int32) string {
	j := &g.jobs[i]
	if j.ident != "" && j.epoch == g.epoch {
		return j.ident
	}
	j.ident, j.epoch = j.artifact, g.epoch // also for those that need each other, in a log written by hand
	if !j.runs {
		return j.ident
	}
	uses := g.specs[i].Uses
	text := add(nil, j.artifact)
	for k := range uses {
		if uses[k].Run {
			text = add(add(text, uses[k].Package), g.identOf(&uses[k]))
		}
	}
	j.ident = sum(text)
	return j.ident
}

// add adds a text with its length, so that others never give the same.
func add(to []byte, text string) []byte {
	to = binary.AppendUvarint(to, uint64(len(text)))
	return append(to, text...)
}

// sum is a hash, written as digests are.
func sum(text []byte) string {
	const kind = "sha256:"
	hash := sha256.Sum256(text)
	var room [len(kind) + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(room[:0], kind...), hash[:]))
}
