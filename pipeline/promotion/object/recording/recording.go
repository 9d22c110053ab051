// Package recording holds what a real controller wrote of an object while something happened to it,
// and replays it: object.Read reads the object as it was after each write.
//
// A recording says beside each write which revisions truly ran well then. Replay compares that with
// what is read. Controllers write an object in several requests and later than they act, so a reading
// may be wrong for some milliseconds. Replay reports for how long at most.
package recording

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// Recording is a story of one object.
type Recording struct {
	About      string        `json:"about"`
	Controller string        `json:"controller"` // its name and version
	Object     object.Object `json:"object"`     // as a definition names it

	// EverWell are the revisions that ran well at some time, and Ends is the reading at the end as
	// Text has it. The scenario says both.
	EverWell []string `json:"well"`
	Ends     string   `json:"ends"`

	Steps []Step `json:"-"` // in files one on each line, after the rest
}

// Step is one thing that happened. It has one of Did, Well, Object and Gone.
type Step struct {
	At     int64          `json:"at"` // milliseconds since the beginning
	Did    string         `json:"did,omitempty"`
	Well   *[]string      `json:"well,omitempty"`   // the revisions that truly run well from now on
	Object map[string]any `json:"object,omitempty"` // as it was written
	Gone   bool           `json:"gone,omitempty"`   // it was removed
}

// Writes reports whether the step is a write of the object.
func (s *Step) Writes() bool { return s.Object != nil || s.Gone }

// Reading is how a write is read.
type Reading struct {
	object.Reading
	Step int
	Well []string // what truly ran well
}

// Wrong is a reading that calls a revision well that is not.
type Wrong struct {
	Step     int
	Revision string
	Split    string // which half of a write was read; "" is the whole
	Early    bool   // it was not well before; otherwise the object was not written since it was
}

// Replayed is what comes of a recording.
type Replayed struct {
	Readings []Reading
	Wrong    []Wrong

	// Early and Late are for how many milliseconds at most a revision was read as well before it was,
	// and after it no longer was. Only whole writes count.
	Early, Late int64

	Open bool // the last reading is wrong, so nobody knows for how long
}

// Text is a reading in one line: "42", "42 unwell: why", "42 at work: why", "none: why" or "unknown: why". Of a
// suspended object it is "42 suspended" or "42 suspended, unwell: why", and "43 declared, …" if that is only
// what it is to run.
func Text(r object.Reading) string {
	switch {
	case r.Unknown:
		return "unknown: " + r.Why
	case r.Revision == "":
		return "none: " + r.Why
	case r.Suspended:
		text := r.Revision + " suspended"
		if r.Declared {
			text = r.Revision + " declared, suspended"
		}
		if !r.Healthy {
			text += ", unwell: " + r.Why
		}
		if r.Fewer != nil && *r.Fewer != "" {
			text += "; " + *r.Fewer
		}
		return text
	case r.Working:
		return r.Revision + " at work: " + r.Why
	case !r.Healthy:
		return r.Revision + " unwell: " + r.Why
	}
	return r.Revision
}

// Counts reports whether a reading says that the object runs its revision well. What is only declared in a
// suspended object does not run.
func Counts(r object.Reading) bool { return r.Healthy && !r.Declared }

// Replay reads the object as it was after each write, and as it would have been if each write had
// come in two.
func (r *Recording) Replay() Replayed {
	var all Replayed
	var before map[string]any
	var was object.Reading
	var wrong *run
	well := []string{}
	end := func(at int64) {
		switch {
		case wrong == nil:
		case wrong.early:
			all.Early = max(all.Early, at-wrong.since)
		default:
			all.Late = max(all.Late, at-wrong.since)
		}
		wrong = nil
	}
	for i, s := range r.Steps {
		switch {
		case s.Well != nil:
			well = *s.Well
		case s.Writes():
			for _, half := range Halves(before, s.Object) {
				read := r.Object.Read(half.Object)
				lasts := Counts(was) && was.Revision == read.Revision
				if Counts(read) && !lasts && !slices.Contains(well, read.Revision) {
					all.Wrong = append(all.Wrong, Wrong{Step: i, Revision: read.Revision, Split: half.Name, Early: true})
				}
			}
			before = s.Object
			was = r.Object.Read(before)
			all.Readings = append(all.Readings, Reading{was, i, well})
		}
		switch {
		case !Counts(was) || slices.Contains(well, was.Revision):
			end(s.At)
		case wrong == nil || wrong.revision != was.Revision:
			end(s.At)
			wrong = &run{was.Revision, s.At, s.Writes()}
			all.Wrong = append(all.Wrong, Wrong{Step: i, Revision: was.Revision, Early: s.Writes()})
		}
	}
	all.Open = wrong != nil
	if len(r.Steps) > 0 {
		end(r.Steps[len(r.Steps)-1].At)
	}
	return all
}

// run is a time for which a reading is wrong.
type run struct {
	revision string
	since    int64
	early    bool
}

// Half is an object of which one half of a write was done.
type Half struct {
	Name   string // says which
	Object map[string]any
}

// Halves are the objects between the two halves of a write of a status, however it is divided. A
// spec changes as a whole, and so do the counts of a workload, and what Argo CD compared with how well it
// is. status.observedGeneration, by which a
// controller says that the rest is of a generation, comes with the second half, or with all but the conditions.
func Halves(before, after map[string]any) (all []Half) {
	if before == nil || after == nil {
		return nil
	}
	old, _ := before["status"].(map[string]any)
	status, _ := after["status"].(map[string]any)
	var changed [][]string // what changes together
	at := map[string]int{}
	for _, field := range slices.Sorted(maps.Keys(union(old, status))) {
		if reflect.DeepEqual(old[field], status[field]) {
			continue
		}
		name := request(field, old, status)
		if i, known := at[name]; known {
			changed[i] = append(changed[i], field)
			continue
		}
		at[name] = len(changed)
		changed = append(changed, []string{field})
	}
	for first := 1; first < 1<<len(changed)-1; first++ {
		of := maps.Clone(old)
		if of == nil {
			of = map[string]any{}
		}
		var names, later []string
		for i, fields := range changed {
			if first&(1<<i) == 0 {
				later = append(later, fields...)
				continue
			}
			names = append(names, fields...)
			for _, field := range fields {
				if delete(of, field); status[field] != nil {
					of[field] = status[field]
				}
			}
		}
		name := strings.Join(names, ", ") + " first"
		if slices.Contains(names, "observedGeneration") {
			if !slices.Equal(later, []string{"conditions"}) {
				continue
			}
			name = "conditions last"
		}
		object := maps.Clone(after)
		object["status"] = of
		all = append(all, Half{name, object})
	}
	return all
}

// request names what a field of a status is always written with; its own name is alone.
func request(field string, statuses ...map[string]any) string {
	if field == "sync" || field == "health" || field == "reconciledAt" {
		return "comparison"
	}
	for _, status := range statuses {
		if _, is := status[field].(float64); is && field != "observedGeneration" {
			return "counts"
		}
	}
	return field
}

func union(a, b map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// Table is the recording with its readings, a line each, for people.
func (r *Recording) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", r.About, r.Controller)
	replayed := r.Replay()
	next := 0
	for _, s := range r.Steps {
		switch {
		case s.Did != "":
			fmt.Fprintf(&b, "%6d ms  # %s\n", s.At, s.Did)
		case s.Well != nil:
			fmt.Fprintf(&b, "%6d ms  = well: %s\n", s.At, cmp.Or(strings.Join(*s.Well, ", "), "none"))
		default:
			fmt.Fprintf(&b, "%6d ms  %s\n", s.At, Text(replayed.Readings[next].Reading))
			next++
		}
	}
	fmt.Fprintf(&b, "\ntoo early: %d ms at most\ntoo late: %d ms at most\n", replayed.Early, replayed.Late)
	for _, w := range replayed.Wrong {
		if w.Split != "" {
			fmt.Fprintf(&b, "%s of the write at %d ms: %s too early\n", w.Split, r.Steps[w.Step].At, w.Revision)
		}
	}
	return b.String()
}

// Load reads a recording.
func Load(file string) (*Recording, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := json.NewDecoder(bytes.NewReader(text))
	lines.DisallowUnknownFields()
	r := &Recording{}
	if err := lines.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for lines.More() {
		var s Step
		if err := lines.Decode(&s); err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", file, len(r.Steps)+1, err)
		}
		r.Steps = append(r.Steps, s)
	}
	return r, nil
}

// Save writes a recording, and beside it the table of its readings.
func (r *Recording) Save(file string) error {
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(r); err != nil {
		return err
	}
	for _, s := range r.Steps {
		if err := lines.Encode(s); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the files of a repository
		return err
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil { //nolint:gosec // the files of a repository
		return err
	}
	return os.WriteFile(Beside(file), []byte(r.Table()), 0o644) //nolint:gosec // the files of a repository
}

// Beside is the file with the table of readings of a recording.
func Beside(file string) string { return strings.TrimSuffix(file, filepath.Ext(file)) + ".txt" }
