package jobs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/jobs"
)

// user is one whom a process is to be.
type user struct{ ID, Group int }

// become has this process be another user.
func (u user) become() error {
	if u == (user{}) {
		return nil
	}
	for _, err := range []error{syscall.Setgroups([]int{u.Group}), syscall.Setgid(u.Group), syscall.Setuid(u.ID)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// A container may run as root where this process does not, and what it leaves is root's.
func TestWhatRootLeavesIsRemovedWithoutRoot(t *testing.T) {
	at := realEngines(t)["docker"]
	socket, err := os.Stat("/var/run/docker.sock")
	require.NoError(t, err)
	nobody := user{65534, int(socket.Sys().(*syscall.Stat_t).Gid)}
	for name, c := range map[string]struct {
		program jobs.Program
		left    []string
		says    string
	}{
		"by a container":           {jobs.Program{Image: image, Path: "/job"}, nil, ""},
		"by none":                  {jobs.Program{}, []string{"base-7~12.1"}, "is left behind: it is tried again; or remove it as the user that owns what is in it, such as root"},
		"by one that there is not": {jobs.Program{Image: "deployster-jobs-test:none", Path: "/job"}, []string{"base-7~12.1"}, "a container of the worker was to remove it: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "deployster-jobs-") // others cannot reach those of the test
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
			w := worldIn(t, dir, opened(t, at))
			w.leaves = true
			r := w.recipe("mkdir "+out+"/d", "write "+out+"/d/f text")
			task := w.task(r)
			err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
				if err == nil {
					err = os.Lchown(path, nobody.ID, nobody.Group)
				}
				return err
			})
			require.NoError(t, err)
			text, err := json.Marshal(order{Engine: at, Dir: dir, Task: task, User: nobody, Program: c.program})
			require.NoError(t, err)
			command := exec.Command("/proc/self/exe", string(text))
			command.Env = append(os.Environ(), actAs+"=job", "HOME="+dir)
			said, _ := command.CombinedOutput()
			require.Contains(t, string(said), "the job is not to end: finished")
			assert.Contains(t, string(said), c.says)
			var left []string
			for _, name := range w.left() {
				if !strings.HasSuffix(name, ".result") { // nobody has recorded it
					left = append(left, name)
				}
			}
			assert.Equal(t, strings.Join(c.left, " "), strings.Join(left, " "), "left behind: %q\n%s", left, said)
			all, err := w.engine.Containers(t.Context(), map[string]string{"deployster.log": w.options.Log})
			require.NoError(t, err)
			assert.Empty(t, all, "containers are left behind")
		})
	}
}
