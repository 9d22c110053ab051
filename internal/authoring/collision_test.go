package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/protocol"
)

// noted is a type whose resource is a file that is written aside first.
func noted(dir string, aside func(path string) string) program {
	type file struct {
		Path string `json:"path"`
	}
	t := protocol.Type[file]{
		ConfigSchema: json.RawMessage(`{"type": "object", "additionalProperties": false, "properties": {"path": {"type": "string"}}}`),
		Plugs:        map[string]protocol.PlugRequest{"root": {ContainerPath: dir, Writable: true}},
		Removable:    true,
		State: func(_ context.Context, r protocol.Request[file]) (protocol.StateOutput, error) {
			_, err := os.Stat(filepath.Join(dir, r.Config.Path))
			switch there := err == nil; {
			case there && r.Ensure == protocol.Absent:
				return protocol.AnswerStale(r.Config, protocol.Do("remove", ""))
			case there || r.Ensure == protocol.Absent:
				return protocol.AnswerValid(map[string]any{})
			}
			return protocol.AnswerStale(nil, protocol.Do("write", ""))
		},
		Actions: map[string]func(context.Context, protocol.Request[file]) error{
			"write": func(_ context.Context, r protocol.Request[file]) error {
				temp := aside(r.Config.Path)
				if err := os.WriteFile(filepath.Join(dir, temp), []byte(r.Config.Path), 0o600); err != nil {
					return err
				}
				return os.Rename(filepath.Join(dir, temp), filepath.Join(dir, r.Config.Path))
			},
			"remove": func(_ context.Context, r protocol.Request[file]) error {
				return os.RemoveAll(filepath.Join(dir, r.Config.Path))
			},
		},
	}
	return t.Run
}

func TestWhatTwoResourcesWriteAsideMustNotCollide(t *testing.T) {
	const check = "two resources at once do not collide"
	second := map[string]any{"path": "b.txt"}
	for name, tc := range map[string]struct {
		aside   func(path string) string
		second  map[string]any
		outcome Outcome
		detail  string
	}{
		"a name that is always the same":                  {func(string) string { return ".new-1" }, nil, Skipped, `.new-1" was written aside to become `},
		"a name that is always the same, and two at once": {func(string) string { return ".new-1" }, second, Failed, "mktemp does ($$ is none: it is 1 in every container)"},
		"a name by that of the file":                      {func(path string) string { return path + ".new" }, second, Passed, ""},
		"a name by chance":                                {func(string) string { return rand() }, second, Passed, ""},
		"no second configuration":                         {func(string) string { return rand() }, nil, Skipped, "--second-config"},
		"a second one that is the first":                  {func(path string) string { return path + ".new" }, map[string]any{"path": "c.txt"}, Warning, "VALID already"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "c.txt"), nil, 0o600))
			results := checked(t, noted(dir, tc.aside), Options{
				Config: map[string]any{"path": "a.txt"}, Second: tc.second,
				Plugs: map[string]string{"root": dir}, Workspace: t.TempDir(),
			})
			onlyFound(t, results, check, tc.outcome, tc.detail)
		})
	}
}

func TestActionsAtTheSameTimeMustBothSucceed(t *testing.T) {
	v := newVMType()
	var busy sync.Mutex
	entered := make(chan struct{})
	var together atomic.Bool
	v.Actions["create"] = func(ctx context.Context, r protocol.Request[vm]) error {
		if r.Config.Size == "large" || together.Load() { // the two that run at once
			if !busy.TryLock() {
				close(entered)
				return fmt.Errorf("the port is in use")
			}
			defer busy.Unlock()
			<-entered
		}
		return v.create(ctx, r)
	}
	v.Actions["delete"] = func(ctx context.Context, r protocol.Request[vm]) error {
		together.Store(true) // from now on
		return v.remove(ctx, r)
	}
	opts := aVM()
	opts.Second = map[string]any{"size": "large"}
	r := checked(t, v.Run, opts)["two resources at once do not collide"]
	if r.Outcome != Failed || !strings.Contains(r.Detail, "the port is in use") || !strings.Contains(r.Detail, "at the same time as those of another resource") {
		t.Errorf("%s: %s", r.Outcome, r.Detail)
	}
}

var fresh atomic.Int64

func rand() string { return fmt.Sprintf(".new-%d", fresh.Add(1)) }
