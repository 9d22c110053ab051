package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

// testLogs is about a container that nobody runs any more and that goes on.
func (s *suite) testLogs(t *testing.T) {
	keeper, keeps := s.engine.(engine.Keeper)
	if !keeps || s.images.Leave == nil || s.images.Left == "" {
		t.Log("the engine keeps no output")
		return
	}
	labels := map[string]string{label: s.mark, "left": "writing"}
	id, end := s.images.Leave(t, labels)
	t.Cleanup(func() {
		if err := s.engine.Remove(context.WithoutCancel(t.Context()), id); err != nil {
			t.Errorf("Remove: %v", err)
		}
		if err := keeper.Logs(context.WithoutCancel(t.Context()), id, engine.IO{}); !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("Logs of a container that is removed: %v, want ErrNoContainer", err)
		}
	})
	logs := func() string {
		t.Helper()
		var all bytes.Buffer
		if err := keeper.Logs(waittest.Context(t), id, engine.IO{Stdout: &all}); err != nil {
			t.Errorf("Logs: %v", err)
		}
		return all.String()
	}
	waittest.Until(t, func() bool { return logs() == s.images.Left }, "it has written "+s.images.Left)
	cancelled, cancel := context.WithCancel(waittest.Context(t))
	cancel()
	if err := keeper.Logs(cancelled, id, engine.IO{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Logs that is cancelled: %v", err)
	}
	end()
	if _, err := s.engine.Wait(waittest.Context(t), id); err != nil {
		t.Error(err)
	}
	if got := logs(); got != s.images.Left {
		t.Errorf("after its end it has written %q, want %q", got, s.images.Left)
	}
	if err := keeper.Logs(waittest.Context(t), id, engine.IO{Stdout: refusing{}}); !errors.Is(err, errBroken) {
		t.Errorf("Logs for a writer that fails: %v", err)
	}
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errBroken }

// testKept is about containers whose caller is killed at their first output.
func (s *suite) testKept(t *testing.T) {
	for _, args := range [][]string{
		{"both", "5000"},
		{"print", "3000000"}, // one long line
		{"read", "/probe"},   // any bytes
	} {
		whole := s.try(t, s.spec(args...), nil)
		begun := time.Now().Add(-time.Second) // clocks of engines may be coarser
		mark := s.abandon(t, args, 16<<20)
		keeper, keeps := s.engine.(engine.Keeper)
		of := map[string]string{label: s.mark, "kept": mark}
		if !keeps {
			waittest.Until(t, func() bool { return len(s.list(t, of)) == 0 }, fmt.Sprintf("%q goes on, and nothing is kept of it", args))
			continue
		}
		left := s.list(t, of)
		if len(left) != 1 {
			t.Fatalf("%q left %+v, want one container", args, left)
		}
		exit, err := s.engine.Wait(waittest.Context(t), left[0].ID)
		if err != nil || exit.Code != 0 {
			t.Errorf("%q: %+v, %v", args, exit, err)
		}
		if exit.Ended.Before(begun) || exit.Ended.After(time.Now()) {
			t.Errorf("%q has ended at %s, by the engine, and between %s and now", args, exit.Ended, begun)
		}
		var stdout, stderr bytes.Buffer
		if err := keeper.Logs(waittest.Context(t), left[0].ID, engine.IO{Stdout: &stdout, Stderr: &stderr}); err != nil {
			t.Error(err)
		}
		if got, want := strings.TrimSuffix(stdout.String(), "\n"), strings.TrimSuffix(whole.stdout, "\n"); got != want {
			t.Errorf("%q: %d bytes of stdout, want %d", args, len(got), len(want))
		}
		if got := stderr.String(); got != whole.stderr {
			t.Errorf("%q: %d bytes of stderr, want %d", args, len(got), len(whole.stderr))
		}
		if err := s.engine.Remove(waittest.Context(t), left[0].ID); err != nil {
			t.Error(err)
		}
	}
}

// abandon runs a container whose caller is killed at its first output; so much of that is kept.
// It returns the mark of what is left.
func (s *suite) abandon(t *testing.T, args []string, kept int64) (mark string) {
	t.Helper()
	mark = rand.Text()
	o := order{Image: s.images.Probe, Args: args, Network: s.images.Network, Labels: maps.Clone(s.spec().Labels), Kept: kept}
	o.Labels["kept"] = mark
	encoded, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := s.images.Caller(t, string(encoded)).CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the caller was not killed: %v\n%s", err, said)
	}
	return mark
}

// testKeptBounds is about a container that writes very many short lines, of which an engine
// keeps more than their text.
func (s *suite) testKeptBounds(t *testing.T) {
	const kept = 256 << 10
	args := []string{"both", "60000"}
	whole := s.try(t, s.spec(args...), nil)
	mark := s.abandon(t, args, kept)
	keeper, keeps := s.engine.(engine.Keeper)
	of := map[string]string{label: s.mark, "kept": mark}
	if !keeps {
		waittest.Until(t, func() bool { return len(s.list(t, of)) == 0 }, "it goes on, and nothing is kept of it")
		return
	}
	left := s.list(t, of)
	if len(left) != 1 {
		t.Fatalf("it left %+v, want one container", left)
	}
	if exit, err := s.engine.Wait(waittest.Context(t), left[0].ID); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	var stdout, stderr bytes.Buffer
	if err := keeper.Logs(waittest.Context(t), left[0].ID, engine.IO{Stdout: &stdout, Stderr: &stderr}); err != nil {
		t.Error(err)
	}
	counted := 0
	for _, of := range []struct{ kept, whole string }{{stdout.String(), whole.stdout}, {stderr.String(), whole.stderr}} {
		if !strings.HasSuffix(of.whole, of.kept) || len(of.kept) == len(of.whole) {
			t.Errorf("%d of %d bytes are kept, and are not just the end", len(of.kept), len(of.whole))
		}
		for line := range strings.Lines(of.kept) {
			counted += max(len(line), engine.KeptLine)
		}
	}
	if counted < kept {
		t.Errorf("what is kept counts for %d bytes, and is to count for %d at least", counted, kept)
	}
	if err := s.engine.Remove(waittest.Context(t), left[0].ID); err != nil {
		t.Error(err)
	}
}
