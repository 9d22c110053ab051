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

// artifacts are what was built, by the hashes of inputs. There are many, and neither these nor
// the map that finds them have pointers.
type artifacts struct {
	all []found
	at  map[uint64]int32 // by a part of the hash: the last of those that have it, from 1
}

// found is an artifact that was built of some inputs.
type found struct {
	inputs   record.Hash
	next     int32 // of those that have that part of the hash in common, from 1
	g, job   int32 // in the orders of all
	seq      int64
	unpushed bool // by a job that failed because it could not be pushed
	artifact record.Hash
}

// of is what was built of some inputs, nil is nothing. It is not kept.
func (a *artifacts) of(inputs record.Hash) *found {
	for i := a.at[inputs.Short()]; i > 0; i = a.all[i-1].next {
		if f := &a.all[i-1]; f.inputs == inputs {
			return f
		}
	}
	return nil
}

// set notes what was built.
func (a *artifacts) set(f found) {
	if of := a.of(f.inputs); of != nil {
		f.next = of.next
		*of = f
		return
	}
	short := f.inputs.Short()
	f.next = a.at[short]
	a.all = append(a.all, f)
	a.at[short] = int32(len(a.all))
}

func decode[T any](data []byte) T { return record.Decode[T](deploylog.Event{Data: data}) }

// finished takes note of an artifact for whoever builds of the same inputs, and of how long
// it took.
func (s *State) finished(g *group, i int32, data *record.Outcome, seq int64) {
	if data.Reused {
		if f := s.reusable.of(data.Inputs); f != nil && !f.unpushed {
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
		s.reusable.set(found{inputs: data.Inputs, seq: seq, g: int32(g.at), job: i, artifact: record.HashOf(data.Artifact)})
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
	if f := s.reusable.of(inputs); f != nil && !f.unpushed && !s.spoiled[f.artifact] {
		return
	}
	delete(s.spoiled, artifact)
	s.reusable.set(found{inputs: inputs, seq: e.Seq, g: int32(g.at), job: i, unpushed: true, artifact: artifact})
	s.unpushed[inputs] = data
}

// reuse is what was built before of some inputs, unless that is missing or altered.
func (s *State) reuse(g *group, inputs string) *Built {
	if g.triggered.NoReuse && len(s.unpushed) == 0 || len(s.reusable.all) == 0 {
		return nil
	}
	hash := record.HashOf(inputs)
	f := s.reusable.of(hash)
	if f == nil || s.spoiled[f.artifact] {
		return nil
	}
	if own := f.unpushed && int(f.g) == g.at; g.triggered.NoReuse && !own { // own: the group has built it itself
		return nil
	}
	by := s.groups[f.g]
	j := &by.jobs[f.job]
	built := Built{Group: by.id, Job: int(f.job) + 1, Attempt: int(j.attempt), Seq: f.seq}
	if f.unpushed {
		built.Finished = *s.unpushed[hash]
		return &built
	}
	if built.Finished = decode[record.Finished](j.ended); j.state != transition.Built || record.HashOf(built.Finished.Artifact) != f.artifact {
		return nil // it was built again since, of something else
	}
	return &built
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
	if !j.runs {
		return j.artifact
	}
	j.ident, j.epoch = j.artifact, g.epoch // also for those that need each other, in a log written by hand
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
