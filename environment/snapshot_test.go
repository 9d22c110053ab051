package environment

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/must"
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

// withoutTimers leaves out the timers, of which the order says nothing: what is due together is evaluated together.
func withoutTimers(described string) string {
	before, after, _ := strings.Cut(described, `"Timers":[`)
	_, after, _ = strings.Cut(after, "]")
	return before + after
}

func TestASnapshotHasAllOfAState(t *testing.T) {
	derived := strings.Fields("name target byName active only sets overdue adoptable repairs zones wave timers total current")
	kept := reflect.TypeFor[snapshot]()
	for f := range reflect.TypeFor[State]().Fields() {
		_, found := kept.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, f.Name) })
		assert.True(t, found || slices.Contains(derived, f.Name), "%s of a state is not in its snapshot", f.Name)
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
	data := must.Get(s.told.Snapshot())(f)
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

var history = flag.String("history", "", "replay only the history in this file, of events as deployster log export has them")

// Servers keep the rules of simulated controllers. Their histories are replayed to what those are measured against: what is
// kept here, of three servers that shared a log and were killed again and again, and what another test hands over.
func TestHistoriesOfServersAreAsTheRulesSay(t *testing.T) {
	files := []string{*history}
	if *history == "" {
		files = keptHistories(t)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			events := must.Get(readHistory(file))(t)
			began := 0
			for _, name := range namesIn(events) {
				s := newReplay(name, events)
				err := s.replay(events)
				t.Logf("%s: %d events, %v", name, len(s.log), s.tally)
				assert.NoError(t, err, "%s", name)
				began += s.tally[record.TaskStarted] + s.tally[record.TaskTerminating]
			}
			assert.NotZero(t, began, "no task is begun or ended, so nothing is known")
		})
	}
}

// A history in which a server did what nobody would is told from one that is as it should be.
func TestAHistoryThatBreaksARuleIsNoticed(t *testing.T) {
	events := must.Get(readHistory(keptHistories(t)[0]))(t)
	name, noticed := namesIn(events)[0], 0
	for i, e := range events {
		if of, _ := record.NameOf(e.Target); of != name || e.Name != record.TaskFinished {
			continue
		}
		e.Name = record.TaskTerminating // a task that is healthy, and wanted
		broken := slices.Insert(slices.Clone(events), i+1, e)
		err := newReplay(name, broken).replay(broken)
		assert.ErrorContains(t, err, "what is to be done there is", "after event %d %s is ended", e.Seq, e.Target)
		noticed++
	}
	assert.NotZero(t, noticed, "no task is ever healthy, so nothing is known")
}

func keptHistories(t *testing.T) []string {
	files := must.Get(filepath.Glob("testdata/histories/*.gz"))(t)
	require.True(t, len(files) != 0, "there is no history")
	return files
}

func readHistory(file string) (events []deploylog.Event, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text := io.Reader(bufio.NewReader(f))
	if filepath.Ext(file) == ".gz" {
		if text, err = gzip.NewReader(text); err != nil {
			return nil, err
		}
	}
	for from := json.NewDecoder(text); ; {
		var e deploylog.Event
		if err := from.Decode(&e); errors.Is(err, io.EOF) {
			return events, nil
		} else if err != nil {
			return nil, fmt.Errorf("read event %d of %s: %w", len(events)+1, file, err)
		}
		events = append(events, e)
	}
}

func namesIn(events []deploylog.Event) (names []string) {
	for _, e := range events {
		if name, ok := record.NameOf(e.Target); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// newReplay is a simulation in which nothing happens but what a history says. Nobody knows how tasks really were.
func newReplay(name string, events []deploylog.Event) *simulation {
	s := &simulation{Rand: rand.New(rand.NewPCG(0, 0)), nature: nature{deaths: true}, told: New(name), naive: newNaive(), tally: map[string]int{}}
	for _, e := range events {
		if of, _, host, ok := record.TaskOf(e.Target); ok && of == name && !slices.ContainsFunc(s.hosts, func(m *machine) bool { return m.name == host }) {
			s.hosts = append(s.hosts, &machine{name: host, in: true, tasks: map[int]condition{}, left: map[int]condition{}})
		}
	}
	return s
}

// replay returns the first rule that is broken.
func (s *simulation) replay(events []deploylog.Event) (err error) {
	var at deploylog.Event
	defer func() {
		switch p := recover().(type) {
		case nil:
		case broken:
			err = fmt.Errorf("event %d, %s of %s: %s", at.Seq, at.Name, at.Target, p)
		default:
			err = fmt.Errorf("event %d, %s of %s: panic: %v\n%s", at.Seq, at.Name, at.Target, p, debug.Stack())
		}
	}()
	for _, at = range events {
		if name, ok := record.NameOf(at.Target); !ok || name != s.told.Name() {
			continue
		}
		s.now = at.CreatedAt
		for _, m := range s.hosts {
			m.group = s.told.Query() // that some are selected is all that is asked for
		}
		if begins(at) {
			s.replayBeginning(at)
		}
		s.log = append(s.log, at)
		s.naive.note(s, at)
		s.naive.losesStep(at)
		s.told.Apply(at)
	}
	return nil
}

func begins(e deploylog.Event) bool {
	return e.Name == record.TaskStarted || e.Name == record.TaskTerminating
}

// replayBeginning wants what begins to be what is to be done there now, and to keep the promises.
func (s *simulation) replayBeginning(e deploylog.Event) {
	_, revision, host, _ := record.TaskOf(e.Target)
	step := tasks.Step{Kind: tasks.Start, Host: host, Revision: revision}
	if e.Name == record.TaskTerminating {
		step.Kind = tasks.Terminate
	}
	if s.naive.force == nil {
		s.fail("nothing is deployed")
	}
	if do := s.naive.next(s.naive.host(host)); !s.naive.mends(step) && (do.kind != step.Kind || do.revision != revision || do.from.After(s.now)) {
		s.fail("%s of revision %d on %s, and what is to be done there is %s from %s on", step.Kind, revision, host, do, do.from)
	}
	s.naive.begins(s, step)
}
