package build

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build/compact"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/reusable"
)

// SnapshotVersion is that of the form of snapshots. It is raised when a former build cannot read a
// new one, or a new one not that of a former build.
const SnapshotVersion = 1

// Snapshot is the state as Restore reads it: so whoever reads the log need not begin at its
// beginning. Its form is that of SnapshotVersion. What has ended and is not applied yet is
// not in it.
func (s *State) Snapshot() (json.RawMessage, error) { return s.Copy().Encode() }

// Copy is a state as it was, which may be encoded while that goes on.
type Copy struct{ of *State }

// Copy copies what changes. It takes a small part of the time that Encode takes.
func (s *State) Copy() Copy {
	defer s.recorded()()
	c := &State{
		head: s.head, places: s.places, groups: make([]*group, len(s.groups)), took: make(map[string]*lasted, len(s.took)),
		reusable: s.reusable.Copy(), unpushed: maps.Clone(s.unpushed), spoiled: maps.Clone(s.spoiled), backoffs: slices.Clone(s.backoffs),
	}
	for i, g := range s.groups {
		copied := *g
		copied.jobs, copied.places, copied.attempts, copied.notes = slices.Clone(g.jobs), slices.Clone(g.places), maps.Clone(g.attempts), maps.Clone(g.notes)
		copied.more, copied.lacks = maps.Clone(g.more), maps.Clone(g.lacks)
		c.groups[i] = &copied
	}
	for name, l := range s.took {
		c.took[name] = &lasted{took: slices.Clone(l.took), first: c.groups[l.first.at], at: maps.Clone(l.at)}
	}
	for i := range c.backoffs {
		c.backoffs[i].g = c.groups[c.backoffs[i].g.at]
	}
	return Copy{c}
}

// Encode is the snapshot.
func (c Copy) Encode() (json.RawMessage, error) {
	s, w := c.of, writer{&compact.Writer{}}
	w.To = make([]byte, 0, s.encodedSize())
	w.Number(s.head)
	w.Count(len(s.places))
	for _, p := range s.places {
		w.JSON(p)
	}
	w.Count(len(s.groups))
	for _, g := range s.groups {
		w.group(g)
	}
	w.Count(len(s.took))
	for _, name := range slices.Sorted(maps.Keys(s.took)) {
		w.Text(name)
		w.lasted(s.took[name])
	}
	w.Count(s.reusable.Len())
	for i := range s.reusable.All() {
		w.found(s, &s.reusable.All()[i])
	}
	w.Count(len(s.unpushed))
	for _, inputs := range sorted(s.unpushed) {
		w.JSON(s.unpushed[inputs])
	}
	w.Count(len(s.spoiled))
	for _, digest := range sorted(s.spoiled) {
		w.hash(digest)
	}
	var backoffs []backoff
	for _, r := range s.backoffs {
		if j := &r.g.jobs[r.job]; j.backingOff && j.attempt == r.attempt {
			backoffs = append(backoffs, r)
		}
	}
	w.Count(len(backoffs))
	for _, r := range backoffs {
		w.Number(int64(r.g.at))
		w.Number(int64(r.job))
		w.Number(int64(r.attempt))
		w.Number(int64(r.pause))
		w.Moment(r.until)
	}
	if w.Err != nil {
		return nil, fmt.Errorf("snapshot of build groups: %w", w.Err)
	}
	return w.Quoted(), nil
}

// encodedSize is about how large a snapshot is before it is written as a text.
func (s *State) encodedSize() (size int) {
	const numbers, use, artifact = 150, 30, 16 // what a job takes beside its data, what it uses, and what it has built
	for _, g := range s.groups {
		for i := range g.jobs {
			size += numbers + len(g.jobs[i].started) + len(g.jobs[i].ended) + use*len(g.specs[i].Uses)
		}
	}
	return size + artifact*s.reusable.Len()
}

// sorted are the keys of a map in an order.
func sorted[V any](m map[record.Hash]V) []record.Hash {
	return slices.SortedFunc(maps.Keys(m), record.Hash.Compare)
}

// writer writes what a state consists of.
type writer struct{ *compact.Writer }

func (w writer) hash(h record.Hash) { w.Text(string(h.Bytes())) }

// found writes what was built, of which most follows from how its job has ended.
func (w writer) found(s *State, f *reusable.Artifact) {
	j := &s.groups[f.Group].jobs[f.Job]
	end := record.OutcomeOf(j.ended)
	follows := !f.Unpushed && f.Seq == j.seq && f.Inputs == end.Inputs && f.Artifact == record.HashOf(end.Artifact)
	w.Number(int64(f.Group))
	w.Number(int64(f.Job))
	w.Flags(f.Unpushed, follows)
	if !follows {
		w.hash(f.Inputs)
		w.hash(f.Artifact)
		w.Number(f.Seq)
	}
}

// lasted writes how long jobs took. Of the jobs of the first group only that is written.
func (w writer) lasted(l *lasted) {
	w.Count(l.first.at)
	w.Count(len(l.took))
	for _, took := range l.took {
		w.Number(int64(took))
	}
	others := make([]occurrence, len(l.took)-l.first.timed)
	for o, at := range l.at {
		if i := int(at) - 1 - l.first.timed; i >= 0 {
			others[i] = o
		}
	}
	for _, o := range others {
		w.Text(o.name)
		w.Number(int64(o.pass))
	}
}

func (w writer) group(g *group) {
	w.Text(g.id)
	w.Text(g.name)
	w.Number(int64(g.state))
	w.JSON(g.triggered)
	w.JSON(g.created)
	w.JSON(g.canceling)
	w.Count(len(g.places))
	for _, p := range g.places {
		w.Number(int64(p))
	}
	w.JSON(g.attempts)
	w.Count(len(g.notes))
	for _, n := range slices.SortedFunc(maps.Keys(g.notes), byJob) {
		w.Number(int64(n.job))
		w.Text(n.event)
		w.Number(int64(g.notes[n]))
	}
	w.Number(int64(g.reused))
	w.Flags(g.lasted != nil, len(g.queues) > 0, g.stalled)
	w.Text(g.cause)
	w.Number(g.seq)
	w.Moment(g.createdAt)
	w.Moment(g.startedAt)
	w.Moment(g.endedAt)
	w.Count(len(g.jobs))
	for i := range g.jobs {
		w.spec(&g.specs[i])
		w.job(&g.jobs[i])
	}
	w.Count(len(g.more))
	for _, i := range slices.Sorted(maps.Keys(g.more)) {
		w.Number(int64(i))
		w.Count(len(g.more[i]))
		for _, e := range g.more[i] {
			w.Number(int64(e.job()))
		}
	}
	w.Count(len(g.lacks))
	for _, i := range slices.Sorted(maps.Keys(g.lacks)) {
		w.Number(int64(i))
		w.Count(len(g.lacks[i]))
		for _, of := range g.lacks[i] {
			w.Number(int64(of))
		}
	}
}

func (w writer) spec(spec *record.JobSpec) {
	w.Text(spec.Package)
	w.Text(spec.Version)
	w.Number(int64(spec.Pass))
	w.Number(int64(spec.Of))
	w.Count(len(spec.Uses))
	for _, u := range spec.Uses {
		w.Text(u.Package)
		w.Number(int64(u.Job))
		w.Text(u.Artifact)
		w.Flags(u.Run)
	}
	w.Count(len(spec.Waits))
	for _, n := range spec.Waits {
		w.Number(int64(n))
	}
	w.Number(int64(spec.Place))
	w.Number(int64(spec.Recipe))
	w.Text(spec.Inputs)
}

func (w writer) job(j *job) {
	hasItsEnd := j.artifact != "" && j.artifact == record.OutcomeOf(j.ended).Artifact
	w.Number(int64(j.state))
	w.Flags(j.backingOff, j.reused, hasItsEnd)
	w.Number(int64(j.attempt))
	w.Number(int64(j.lost))
	w.Number(int64(j.rebuilt))
	w.Number(int64(j.because))
	w.Number(int64(j.rank))
	w.Number(int64(j.excused))
	if !hasItsEnd {
		w.Text(j.artifact)
	}
	w.Data(j.started)
	w.Data(j.ended)
	w.Moment(j.began.Time())
	w.Moment(j.since.Time())
	w.Number(j.seq)
}

// Restore is the state of which data is a Snapshot.
func Restore(name string, data json.RawMessage) (*State, error) {
	read, err := compact.NewReader(data)
	if err != nil {
		return nil, fmt.Errorf("snapshot of build groups: %w", err)
	}
	s, r := New(name), reader{read}
	s.restore(r)
	if r.Bad || r.Rest != "" {
		return nil, fmt.Errorf("snapshot of build groups: it is damaged %d bytes before its end", len(r.Rest))
	}
	return s, nil
}

func (s *State) restore(r reader) {
	s.head = r.Number()
	for range r.Count() {
		var p record.Place
		r.JSON(&p)
		s.place(p)
	}
	var timed []*group
	for range r.Count() {
		g, is := s.restoreGroup(r)
		if r.Bad {
			return
		}
		if is {
			timed = append(timed, g)
		}
	}
	for range r.Count() {
		s.restoreLasted(r, r.Text())
	}
	for _, g := range timed {
		if r.Require(s.took[g.name] != nil) {
			s.lasting(g)
		}
	}
	for range r.Count() {
		s.restoreFound(r)
	}
	for range r.Count() {
		data := &record.Finished{}
		r.JSON(data)
		s.unpushed[record.HashOf(data.Inputs)] = data
	}
	for i := range s.reusable.All() {
		f := &s.reusable.All()[i]
		r.Require(!f.Unpushed || s.unpushed[f.Inputs] != nil)
	}
	for range r.Count() {
		s.spoiled[r.hash()] = true
	}
	for range r.Count() {
		one := backoff{g: s.groupAt(r)}
		one.job, one.attempt, one.pause, one.until = int32(r.Number()), int32(r.Number()), time.Duration(r.Number()), r.Moment()
		if r.Require(one.g.has(one.job)) {
			s.backoffs.Push(one)
		}
	}
}

// groupAt is the group that a snapshot names by its place in their order.
func (s *State) groupAt(r reader) *group {
	if at := r.Number(); r.Require(at >= 0 && at < int64(len(s.groups))) {
		return s.groups[at]
	}
	return &group{}
}

// has reports whether a group has a job.
func (g *group) has(i int32) bool { return i >= 0 && int(i) < len(g.jobs) }

func byJob(a, b note) int {
	if a.job != b.job {
		return int(a.job) - int(b.job)
	}
	if a.event < b.event {
		return -1
	}
	return 1
}
