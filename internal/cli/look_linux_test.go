package cli_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/objects"
)

// A task that is well is looked at again by asking its types alone. Whatever is not as it
// was, on its host, in the inventory or on this machine, is noticed by the next look.
func TestATaskThatIsLookedAtAgain(t *testing.T) {
	const inventory = "hosts: [{name: here, engine: oci, attributes: {zone: a}}]"
	w := newWorks(t, inventory, "oci")
	w.write("hosts/here/.keep", "")
	task := w.task(1, "here", `
plugs: {root: {path: "hosts/{{ host }}"}}
resources: {note: {type: deployster/file, config: {path: note, content: "{{ host_attributes.zone }}"}}}
`, nil)
	carried, err := revision.Variables{Salt: strings.Repeat("0", 64)}.Encode()
	require.NoError(t, err)
	store := objects.In(filepath.Join(w.dir, ".deployster", "objects"), nil)
	digest, err := store.Keep(carried)
	require.NoError(t, err)
	task.Spec.Includes = map[string]string{revision.VariablesName: digest}
	note := filepath.Join(w.dir, "hosts", "here", "note")
	well := func() {
		t.Helper()
		w.start(task)
		for range 3 {
			w.wantSeen(task, tasks.Healthy)
		}
	}

	well()
	manifest := filepath.Join(w.dir, ".deployster", "objects", "sha256", task.Spec.Digest)
	require.NoError(t, os.Rename(manifest, manifest+".away"))
	w.wantSeen(task, tasks.Healthy) // nothing is read for it: what it is to be has not changed
	require.NoError(t, os.Rename(manifest+".away", manifest))

	w.write("hosts/here/note", "something else")
	w.wantSeen(task, tasks.Drifted, "note ~ ")
	well()
	require.NoError(t, os.Remove(note))
	w.wantSeen(task, tasks.Unhealthy, "note does not exist")
	well()
	w.write("inventory.yaml", strings.Replace(inventory, "zone: a", "zone: another", 1))
	w.wantSeen(task, tasks.Drifted, "note ~ ")
	well()
	here := filepath.Dir(note)
	require.NoError(t, os.Rename(here, here+".away"))
	w.wantSeen(task, tasks.Unknown, "hosts/here")
	require.NoError(t, os.Symlink(filepath.Join(w.dir, ".deployster"), here))
	w.wantSeen(task, tasks.Unknown, "no type may see")
	require.NoError(t, errors.Join(os.Remove(here), os.Rename(here+".away", here)))
	w.wantSeen(task, tasks.Healthy)
	w.terminate(task)
	w.wantSeen(task, tasks.Unhealthy, "note does not exist")
	if left, err := os.ReadDir(filepath.Join(w.dir, ".deployster", "work")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	} else if len(left) > 8 {
		t.Errorf("looks leave files: %v", left)
	}
}
