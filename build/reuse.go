package build

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/reusable"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

func decode[T any](data []byte) T { return record.Decode[T](deploylog.Event{Data: data}) }

// finished takes note of an artifact for whoever builds of the same inputs, and of how long
// it took.
func (s *State) finished(g *group, i int32, data *record.Outcome, seq int64) {
	if data.Reused {
		if f := s.reusable.Of(data.Inputs); f != nil && !f.Unpushed {
			return
		}
	} else {
		if len(s.spoiled) > 0 {
			delete(s.spoiled, record.HashOf(data.Artifact))
		}
		if data.Took > 0 {
			took := s.lasting(g).took
			took[g.jobs[i].occurrence] = data.Took
		}
	}
	if data.Inputs != (record.Hash{}) && data.Artifact != "" {
		s.reusable.Set(reusable.Artifact{Inputs: data.Inputs, Seq: seq, Group: int32(g.at), Job: i, Artifact: record.HashOf(data.Artifact)})
		if len(s.unpushed) > 0 {
			delete(s.unpushed, data.Inputs)
		}
	}
}

// notPushed takes note of an artifact that a job has built and failed to push.
func (s *State) notPushed(g *group, i int32, e *deploylog.Event) {
	if !bytes.Contains(e.Data, []byte(`"unpushed"`)) {
		return
	}
	data := record.Decode[record.Failed](*e).Unpushed
	if data == nil || data.Inputs == "" || data.Artifact == "" {
		return
	}
	inputs, artifact := record.HashOf(data.Inputs), record.HashOf(data.Artifact)
	if f := s.reusable.Of(inputs); f != nil && !f.Unpushed && !s.spoiled[f.Artifact] {
		return
	}
	delete(s.spoiled, artifact)
	s.reusable.Set(reusable.Artifact{Inputs: inputs, Seq: e.Seq, Group: int32(g.at), Job: i, Unpushed: true, Artifact: artifact})
	s.unpushed[inputs] = data
}

// reuse is what was built before of some inputs, unless that is missing or altered.
func (s *State) reuse(g *group, inputs string) *Built {
	if g.triggered.NoReuse && len(s.unpushed) == 0 || s.reusable.Len() == 0 {
		return nil
	}
	hash := record.HashOf(inputs)
	f := s.reusable.Of(hash)
	if f == nil || s.spoiled[f.Artifact] {
		return nil
	}
	if own := f.Unpushed && int(f.Group) == g.at; g.triggered.NoReuse && !own { // own: the group has built it itself
		return nil
	}
	by := s.groups[f.Group]
	j := &by.jobs[f.Job]
	built := Built{Group: by.id, Job: int(f.Job) + 1, Attempt: int(j.attempt), Seq: f.Seq}
	if f.Unpushed {
		built.Finished = *s.unpushed[hash]
		return &built
	}
	if built.Finished = decode[record.Finished](j.ended); j.state != transition.Built || record.HashOf(built.Finished.Artifact) != f.Artifact {
		return nil // it was built again since, of something else
	}
	return &built
}

// inputs is the hash of all that goes into a job.
func (s *State) inputs(g *group, i int32) string {
	spec := &g.specs[i]
	var room [1 << 10]byte
	text := add(room[:0], spec.Inputs)
	for k := range spec.Uses {
		text = add(add(text, spec.Uses[k].Package), g.identOf(&spec.Uses[k]))
	}
	hash := sum(text)
	return s.texts.Add(hash[:])
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
	if !j.runs {
		return j.artifact
	}
	if known := g.idents[i]; known != "" {
		return known
	}
	if g.idents == nil {
		g.idents = map[int32]string{}
	}
	g.idents[i] = j.artifact // also for those that need each other, in a log written by hand
	uses := g.specs[i].Uses
	text := add(nil, j.artifact)
	for k := range uses {
		if uses[k].Run {
			text = add(add(text, uses[k].Package), g.identOf(&uses[k]))
		}
	}
	hash := sum(text)
	g.idents[i] = string(hash[:])
	return g.idents[i]
}

// add adds a text with its length, so that others never give the same.
func add(to []byte, text string) []byte {
	to = binary.AppendUvarint(to, uint64(len(text)))
	return append(to, text...)
}

const sumKind = "sha256:"

// sum is a hash, written as digests are.
func sum(text []byte) (written [len(sumKind) + 2*sha256.Size]byte) {
	hash := sha256.Sum256(text)
	hex.Encode(written[copy(written[:], sumKind):], hash[:])
	return written
}
