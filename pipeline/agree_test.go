package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheMachineAndTheAlgorithmOfTheSeedPickTheSameSteps(t *testing.T) {
	cases(t, 10_000, func(t *rapid.T) {
		w := newWorld(t)
		w.define(w.pipeline())
		w.setMembers()
		for range 10 + rapid.IntRange(0, 60).Draw(t, "length") {
			steps := slices.Collect(w.state.Decide(noon, Can{}))
			if got, want := names(steps), w.oracle.names(); !slices.Equal(got, want) {
				t.Fatalf("the machine picks %q,\nthe seed %q, after\n%s", got, want, w.story())
			}
			w.act(steps)
		}
	})
}

func names(steps []Step) []string {
	var list []string
	for _, s := range steps {
		list = append(list, s.Deployment+" "+string(s.Target)+" "+s.Event)
	}
	slices.Sort(list)
	return list
}

func (n *naive) names() []string {
	var list []string
	for id, entries := range n.decide() {
		for _, e := range entries {
			list = append(list, id+" "+e.target+" "+e.event)
		}
	}
	slices.Sort(list)
	return list
}

func (w *world) story() string {
	var b strings.Builder
	for _, e := range w.log {
		fmt.Fprintf(&b, "%3d %s %s %s %d", e.Seq, e.Deployment, e.Target, e.Name, e.Attempt)
		if e.Name == EventDefined || e.Name == EventMembersChanged {
			fmt.Fprintf(&b, " %s", e.Data)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
