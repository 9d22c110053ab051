package environment

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// describe is all that a state is made of, what it has derived among it.
func describe(s *State) (string, error) {
	data, err := s.Snapshot()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%+v only %v\n", s.name, data, s.total, s.only)
	for c, set := range s.sets {
		fmt.Fprintln(&b, c, slices.Collect(set.All()))
	}
	fmt.Fprintln(&b, slices.Collect(s.overdue.All()), slices.Collect(s.adoptable.All()), slices.Collect(s.repairs.All()))
	for _, r := range slices.Sorted(maps.Keys(s.current)) {
		if s.current[r] != 0 {
			fmt.Fprintln(&b, "revision", r, s.current[r])
		}
	}
	for _, excepted := range []bool{false, true} {
		zone, ok := s.zones.First(excepted)
		fmt.Fprintln(&b, zone, ok)
	}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		fmt.Fprintln(&b, name, s.byName[name].Index)
	}
	return b.String(), nil
}

// restored is a state as who reads a snapshot of it has it.
func (s *simulation) restored(of *State) *State {
	data, err := of.Snapshot()
	if err != nil {
		s.fail("%v", err)
	}
	anew, err := Restore(of.Name(), data)
	if err != nil {
		s.fail("%v", err)
	}
	s.tally["restored"]++
	want, err := describe(of)
	got, err2 := describe(anew)
	if err != nil || err2 != nil || withoutTimers(got) != withoutTimers(want) {
		s.fail("restored from a snapshot it is\n%s, not\n%s (%v, %v)", got, want, err, err2)
	}
	return anew
}

// withoutTimers leaves out the timers, of which the order says nothing: what is due together
// is evaluated together.
func withoutTimers(described string) string {
	before, after, _ := strings.Cut(described, `"Timers":[`)
	_, after, _ = strings.Cut(after, "]")
	return before + after
}

// What is added to a state has to be added to its snapshot, or to follow from that.
func TestASnapshotHasAllOfAState(t *testing.T) {
	derived := strings.Fields("name target byName active only sets overdue adoptable repairs zones wave timers total current")
	kept := reflect.TypeFor[snapshot]()
	for f := range reflect.TypeFor[State]().Fields() {
		_, found := kept.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, f.Name) })
		if !found && !slices.Contains(derived, f.Name) {
			t.Errorf("%s of a state is not in its snapshot", f.Name)
		}
	}
	if got, want := reflect.TypeFor[waveSnapshot]().NumField(), reflect.TypeFor[wave]().NumField()-1+reflect.TypeFor[verification]().NumField(); got != want {
		t.Errorf("%d of the %d fields of a wave and its verification are in a snapshot", got, want)
	}
	if got, want := reflect.TypeFor[revisionSnapshot]().NumField(), reflect.TypeFor[revision]().NumField(); got != want {
		t.Errorf("%d of the %d fields of a revision are in a snapshot", got, want)
	}
}

// Whatever a damaged snapshot says, it is refused or gives a state that can be asked.
func FuzzRestore(f *testing.F) {
	s := newSimulation(7)
	s.run()
	data, err := s.told.Snapshot()
	require.NoError(f, err)
	f.Add([]byte(data))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"Hosts":[null]}`))
	f.Add([]byte(`{"Hosts":[{"Index":0,"Status":{"Class":99}}]}`))
	f.Add([]byte(`{"Timers":[{"Host":3}]}`))
	f.Add([]byte(`{"Active":true,"Deployments":[{"revision":9}]}`))
	f.Add([]byte(`{"Hosts":[{"Tasks":[null]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		restored, err := Restore("shop", json.RawMessage(data))
		if err != nil {
			return
		}
		restored.Report()
		restored.Idle()
		restored.Wake()
	})
}
