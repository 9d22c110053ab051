package observed_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/observed"
	"github.com/deployster-go/deployster/deploylog"
)

// ended is a log in which a run has found a resource well, with a status.
type ended struct {
	deploylog.Log
	status string
}

func (e ended) Read(_ context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		if e.status != "" {
			data, err := json.Marshal(map[string]string{"status": e.status})
			yield(deploylog.Event{Seq: 9, Deployment: "RUN", Target: f.Target, Name: f.Name, Data: data}, err)
		}
	}
}

func TestTheStateIsTheLastAnswerOfTheRunThatFoundItWell(t *testing.T) {
	const valid = `{"status":"VALID","state":{"size":2}}`
	for _, tc := range []struct {
		name, status string
		answers      map[string]string // by the names of files
		resource     string            // "a", unless given
		unknown      bool              // it is not known, which is no failure
		fails        string
	}{
		{name: "it is read", status: "UNCHANGED", answers: map[string]string{"01-state.stdout": valid}},
		{name: "the last one counts", status: "CHANGED", answers: map[string]string{"99-state.stdout": "old", "100-state.stdout": valid, "101-create.stdout": "no"}},
		{name: "no run found it well", unknown: true, fails: "no run found it well yet; apply it"},
		{name: "it was removed", status: "DESTROYED", unknown: true, fails: "run RUN removed it"},
		{name: "it was gone", status: "ABSENT", unknown: true, fails: "found it gone"},
		{name: "the run is not kept", status: "UNCHANGED", unknown: true, fails: "is not there any more; apply it again"},
		{name: "no answer is kept", status: "UNCHANGED", answers: map[string]string{"01-state.stderr": "x"}, unknown: true, fails: "not there any more"},
		{name: "it is no answer", status: "UNCHANGED", answers: map[string]string{"01-state.stdout": "hello"}, fails: "reading what run RUN kept of a: "},
		{name: "it is stale", status: "UNCHANGED", answers: map[string]string{"01-state.stdout": `{"status":"STALE","actions":[{"name":"x"}]}`}, fails: "ends with the status STALE"},
		{name: "it is too large", status: "UNCHANGED", answers: map[string]string{"01-state.stdout": strings.Repeat(" ", 9<<20)}, fails: "larger than"},
		{name: "it would keep the reader waiting", status: "UNCHANGED", answers: map[string]string{"01-state.stdout": "FIFO"}, fails: "is no file"},
		{name: "it is a link", status: "UNCHANGED", answers: map[string]string{"01-state.stdout": "LINK"}, fails: "is no file"},
		{name: "the name leads out", status: "UNCHANGED", resource: "../../secret", fails: "escapes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			work := filepath.Join(t.TempDir(), "work")
			require.NoError(t, os.MkdirAll(work, 0o755))
			for name, text := range tc.answers {
				require.NoError(t, put(filepath.Join(work, "RUN", "a", name), text))
			}
			resource := tc.resource
			if resource == "" {
				resource = "a"
			}
			state, err := observed.States{Log: ended{status: tc.status}, Work: work}.Last(t.Context(), resource)
			switch {
			case tc.fails == "" && (err != nil || len(state) != 1):
				t.Errorf("it is %v, %v", state, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails) || errors.Is(err, observed.ErrUnknown) != tc.unknown):
				t.Errorf("it is %v, %v", state, err)
			}
		})
	}
}

// put makes a file, or what looks like one.
func put(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch text {
	case "FIFO":
		return syscall.Mkfifo(path, 0o600)
	case "LINK":
		return os.Symlink("/dev/zero", path)
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
