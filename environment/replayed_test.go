package environment

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

var history = flag.String("history", "", "replay only the history in this file, of events as deployster log export has them")

// Servers keep the rules of simulated controllers. Their histories are replayed to what those are
// measured against: what is kept here, of three servers that shared a log and were killed again and
// again, and what another test hands over.
func TestHistoriesOfServersAreAsTheRulesSay(t *testing.T) {
	files := []string{*history}
	if *history == "" {
		files = keptHistories(t)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			events, err := readHistory(file)
			require.NoError(t, err)
			began := 0
			for _, name := range namesIn(events) {
				s := newReplay(name, events)
				err := s.replay(events)
				t.Logf("%s: %d events, %v", name, len(s.log), s.tally)
				assert.NoError(t, err, "%s", name)
				began += s.tally[record.TaskStarted] + s.tally[record.TaskTerminating]
			}
			if began == 0 {
				t.Error("no task is begun or ended, so nothing is known")
			}
		})
	}
}

// A history in which a server did what nobody would is told from one that is as it should be.
func TestAHistoryThatBreaksARuleIsNoticed(t *testing.T) {
	events, err := readHistory(keptHistories(t)[0])
	require.NoError(t, err)
	name, noticed := namesIn(events)[0], 0
	for i, e := range events {
		if of, _ := record.NameOf(e.Target); of != name || e.Name != record.TaskFinished {
			continue
		}
		e.Name = record.TaskTerminating // a task that is healthy, and wanted
		broken := slices.Insert(slices.Clone(events), i+1, e)
		if err := newReplay(name, broken).replay(broken); err == nil || !strings.Contains(err.Error(), "what is to be done there is") {
			t.Errorf("after event %d %s is ended: %v", e.Seq, e.Target, err)
		}
		noticed++
	}
	if noticed == 0 {
		t.Error("no task is ever healthy, so nothing is known")
	}
}

func keptHistories(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/histories/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no history: %v", err)
	}
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

// newReplay is a simulation in which nothing happens but what a history says. Nobody knows how
// tasks really were.
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
