package pipeline

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// checkFolded holds that what was needed of the log up to an event, and all of the rest, folds
// to what all of it folds to.
func (w *world) checkFolded() { w.wantSame(append(w.short, w.log[w.upTo:]...)) }

func neededOf(s *State, events []deploylog.Event) (needed []deploylog.Event) {
	for _, e := range events {
		if e, ok := s.Needed(e); ok {
			needed = append(needed, e)
		}
	}
	return needed
}

// wantSame wants events to fold to the state of the world.
func (w *world) wantSame(events []deploylog.Event) {
	folded := New("p")
	for _, e := range events {
		folded.Apply(e)
	}
	if at, same := sameFold(w.log, events); !same {
		w.Fatalf("%s is not what it was: what %d of %d events fold to differs, after\n%s", at, len(events), len(w.log), w.story())
	}
	for what, ask := range map[string]func(*State) any{
		"choice":        func(s *State) any { return slices.Collect(s.Decide(w.now, Can{})) },
		"explanation":   func(s *State) any { return s.Explain(s.target) },
		"registrations": func(s *State) any { return s.Registrations() },
		"status":        func(s *State) any { return s.Status() },
		"wake":          func(s *State) any { return s.Wake() },
	} {
		if got, want := ask(folded), ask(w.state); !reflect.DeepEqual(got, want) {
			w.Fatalf("the %s is %+v, not %+v, after\n%s", what, got, want, w.story())
		}
	}
}

// sameFold reports whether events fold to what all of a log folds to, or else where not.
func sameFold(log, events []deploylog.Event) (at string, ok bool) {
	full, folded := New("p"), New("p")
	for _, e := range log {
		full.Apply(e)
	}
	for _, e := range events {
		folded.Apply(e)
	}
	return same(reflect.ValueOf(full), reflect.ValueOf(folded))
}

// What comes late, of deployments that are gone, is rare: it is told here event by event.
func TestWhatIsNeededOfDeploymentsThatAreGone(t *testing.T) {
	w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("s", nil, "g", deployed)}}, map[string][]string{"g": {"h"}})
	w.release("v1")
	w.until("v1", record.HostTarget("p", "g", "h"), record.HostStarted)
	steps := slices.Collect(w.state.Decide(noon, Can{}))
	begun := w.state.Begun(w.id(), steps)
	w.append(begun)
	late := deploylog.Event{Deployment: steps[0].Deployment, Target: steps[0].Target, Revision: "v1", Name: deployed, Attempt: 1}
	w.do(Cancel{Revision: "v1"})
	w.append(late)
	w.release("v2")
	w.until("v2", "pipeline/p", record.PipelineFinished)
	late.Name = "host-tested"
	lost := steps[0].Lost("lost", "somebody", "R1", "no answer")
	settled := steps[0].Settled("settled", "somebody")
	w.append(late, lost, settled)
	var short []deploylog.Event
	state := New("p")
	for i, e := range w.log {
		state.Apply(e)
		short = neededOf(state, append(short, e))
		for what, events := range map[string][]deploylog.Event{"at once": neededOf(state, w.log[:i+1]), "bit by bit": short} {
			at, same := sameFold(w.log[:i+1], events)
			assert.True(t, same, "%s: what is needed of %d events, left out %s, folds to another %s", e.Name, i+1, what, at)
		}
	}
	assert.True(t, len(short) <= len(w.log)-5, "%d of %d events are needed", len(short), len(w.log))
}

// same reports whether two values hold the same, unexported fields and what is pointed to
// included, or else where they differ. Nothing and what is empty are the same.
func same(a, b reflect.Value) (at string, ok bool) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return "", a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if at, ok := same(a.Field(i), b.Field(i)); !ok {
				return "." + a.Type().Field(i).Name + at, false
			}
		}
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf(" (%d and %d)", a.Len(), b.Len()), false
		}
		for i := range a.Len() {
			if at, ok := same(a.Index(i), b.Index(i)); !ok {
				return fmt.Sprintf("[%d]%s", i, at), false
			}
		}
	case reflect.Map:
		if a.Len() != b.Len() {
			return fmt.Sprintf(" (%d and %d)", a.Len(), b.Len()), false
		}
		for _, k := range a.MapKeys() {
			if !b.MapIndex(k).IsValid() {
				return fmt.Sprintf("[%v]", k), false
			}
			if at, ok := same(a.MapIndex(k), b.MapIndex(k)); !ok {
				return fmt.Sprintf("[%v]%s", k, at), false
			}
		}
	default:
		return fmt.Sprintf(" (%v and %v)", a, b), a.Equal(b)
	}
	return "", true
}
