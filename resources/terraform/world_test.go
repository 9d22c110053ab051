package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/tftest"
)

func TestMain(m *testing.M) {
	if tftest.Started() {
		tftest.Main()
	}
	os.Exit(m.Run())
}

// world is a directory as an image has it, what exists, and what is kept of one resource.
type world struct {
	t    *testing.T
	dir  string
	name string // of the resource
	pool *pool  // of the providers that run
	kept string // as JSON
}

func newWorld(t *testing.T) *world {
	t.Setenv(tftest.World, t.TempDir())
	w := &world{t: t, dir: t.TempDir(), name: "fake_thing", kept: "{}"}
	require.NoError(t, os.Symlink(os.Args[0], ProgramPath(w.dir)))
	require.NoError(t, os.Mkdir(InitsPath(w.dir), 0o700))
	var described bytes.Buffer
	require.NoError(t, Describe(t.Context(), w.dir, os.Environ(), time.Now(), &described))
	for lines := json.NewDecoder(&described); lines.More(); {
		var d Description
		require.NoError(t, lines.Decode(&d))
		text := must.Get(d.Encode())(t)
		require.NoError(t, os.WriteFile(InitPath(w.dir, d.Name), text, 0o600))
	}
	w.pool = newPool(w.dir)
	t.Cleanup(w.pool.close)
	return w
}

type answer struct {
	code   int
	out    string
	stderr string
	state  protocol.StateOutput // of state
}

// ask makes a request; rest are further members of its input.
func (w *world) ask(action, config string, rest ...string) answer {
	w.t.Helper()
	input := `{"name":"mine","type":"terraform/fake/thing","version":"1","config":` + config + `,"kept":` + w.kept
	for _, member := range rest {
		input += "," + member
	}
	return w.run(context.Background(), action, input+"}")
}

func (w *world) run(ctx context.Context, action, input string) (a answer) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	typ, err := typeOf(w.pool, w.dir, w.name)
	require.NoError(w.t, err)
	a.code = typ.Run(ctx, []string{action}, strings.NewReader(input), &stdout, &stderr)
	a.out, a.stderr = stdout.String(), stderr.String()
	if action != "state" {
		lines := strings.Split(strings.TrimSpace(a.out), "\n")
		if keep, ok, err := protocol.DecodeKeep([]byte(lines[len(lines)-1])); err != nil {
			w.t.Fatal(err)
		} else if ok {
			w.remember(keep)
		}
		return a
	}
	if a.code != 0 {
		return a
	}
	if a.state, err = protocol.DecodeState(stdout.Bytes()); err != nil {
		w.t.Fatalf("%v: %s", err, stdout.String())
	}
	w.remember(a.state.Keep)
	return a
}

func (w *world) remember(keep map[string]any) {
	if keep == nil {
		return
	}
	text := must.Get(json.Marshal(keep))(w.t)
	w.kept = string(text)
}

func (a answer) actions() string {
	var names []string
	for _, action := range a.state.Actions {
		names = append(names, action.Name)
	}
	return strings.Join(names, ",")
}

// want fails the test unless the answer is of actions, "" for VALID, with descriptions that
// have a text in them.
func (w *world) want(a answer, actions, text string) {
	said := ""
	for _, action := range a.state.Actions {
		said += action.Description + "\n"
	}
	require.True(w.t, a.code == 0 && a.actions() == actions && strings.Contains(said, text),
		"it ended with %d, to do %q:\n%s%s\nwant %q with %q", a.code, a.actions(), said, a.stderr, actions, text)
}

// done fails the test unless the action succeeded.
func (w *world) done(a answer) {
	require.Equal(w.t, 0, a.code, "it ended with %d: %s%s", a.code, a.out, a.stderr)
}

// refused fails the test unless the request failed with a text.
func (w *world) refused(a answer, text string) {
	require.True(w.t, a.code != 0 && strings.Contains(a.stderr, text), "it ended with %d: %s%s\nwant %q", a.code, a.out, a.stderr, text)
}

// change changes what exists behind the back of the provider.
func (w *world) change(id, old, wanted string) {
	path := filepath.Join(os.Getenv(tftest.World), id+".json")
	text := must.Get(os.ReadFile(path))(w.t)
	changed := strings.ReplaceAll(string(text), old, wanted)
	require.True(w.t, changed != string(text), "there is no %s in %s", old, text)
	require.NoError(w.t, os.WriteFile(path, []byte(changed), 0o600))
}

// things are the ids of what exists.
func (w *world) things() string {
	entries := must.Get(os.ReadDir(os.Getenv(tftest.World)))(w.t)
	var ids []string
	for _, e := range entries {
		ids = append(ids, strings.TrimSuffix(e.Name(), ".json"))
	}
	return strings.Join(ids, ",")
}
