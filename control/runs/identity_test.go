package runs_test

import (
	"testing"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// to renames one thing, and leaves others.
func to(from, now string) func(string) string {
	return func(name string) string {
		if name == from {
			return now
		}
		return name
	}
}

func (m *maker) past(t *testing.T, past runner.PastFunc, name string) runner.Past {
	t.Helper()
	p, err := past(t.Context(), name, true)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What is called otherwise is the same thing, and keeps its identity; whoever gets the name that it
// had gets another one, as what it made is marked with the first.
func TestWhatIsRenamedKeepsItsIdentity(t *testing.T) {
	m := newMaker(t)
	past := runs.PastOf(runs.Options{Log: m.log, Protected: m.store})
	want := func(name, identity string) {
		t.Helper()
		if got := m.past(t, past, name).Identity; got != identity {
			t.Errorf("%s is %q, want %q", name, got, identity)
		}
		if again := m.past(t, runs.PastOf(runs.Options{Log: m.log, Protected: m.store}), name).Identity; again != identity {
			t.Errorf("to another process %s is %q, want %q", name, again, identity)
		}
	}
	m.run(t, "m.yaml", nil, "", makes("a", thing("p")))
	want("a", "a")
	m.run(t, "m.yaml", to("a", "b"), "")
	want("b", "a")
	m.run(t, "m.yaml", nil, "", makes("a", thing("p")))
	first := m.past(t, past, "a").Identity
	if first == "a" || first == "" {
		t.Errorf("another thing is %q, too", first)
	}
	m.run(t, "m.yaml", to("b", "c"), "")
	m.run(t, "m.yaml", to("a", "b"), "")
	want("c", "a")
	want("b", first)
	want("d", "d")
	if got := m.past(t, runs.PastOf(runs.Options{Log: m.log, Place: "host1"}), "c").Identity; got != "c@host1" {
		t.Errorf("on a host it is %q", got)
	}
}

// What a plan says of what is to have another name is by what is known of it under the one that it has.
func TestThePastOfWhatIsToHaveAnotherName(t *testing.T) {
	m := newMaker(t)
	m.run(t, "m.yaml", nil, "", makes("a", thing("p")), report.Event{Kind: report.ResourceKept, Resource: "a", Attempt: 1, Keep: map[string]any{"id": "x"}, Protect: true})
	h := m.history(t)
	past := h.Moving(m.log, h.Moves(runs.Owner{Manifest: []string{"m.yaml"}, Workspace: m.dir}, to("a", "b")), runs.PastOf(runs.Options{Log: m.log, Protected: m.store}))
	for _, when := range []string{"before", "after"} {
		if p := m.past(t, past, "b"); p.Identity != "a" || p.Kept["id"] != "x" {
			t.Errorf("%s the log says so it has %+v", when, p)
		}
		m.run(t, "m.yaml", to("a", "b"), "", makes("a", thing("p")))
	}
}
