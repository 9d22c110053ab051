package jobs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// onSmallDisk is a world in a workspace on a disk of 8 MiB, of which 2 MiB are to stay free,
// and which is not looked at while a job runs.
func onSmallDisk(t *testing.T) *world {
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"), "this test needs root")
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	w := worldIn(t, dir, fakeEngine())
	w.options.MinFree, w.options.DiskPeriod = 2<<20, time.Hour
	w.restart()
	return w
}

func (w *world) freeBytes() uint64 {
	var disk syscall.Statfs_t
	require.NoError(w, syscall.Statfs(w.dir, &disk))
	return disk.Bavail * uint64(disk.Bsize)
}

// A job can fill a small disk before that is looked at again. How it ended is known although
// there is no room to write it down.
func TestAJobThatFillsTheDiskAtOnceHasFailed(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"it fails", []string{"fill " + out + "/f 9000000", "print full", "exit 3"}, "failed: exited with 3; it has written 8.0 MiB, more than any other job, and of 0 MiB that are free on the disk of …"},
		{"it goes on", []string{"fill " + out + "/f 9000000"}, "failed: there is no room on the disk for what it makes: it has written 8.0 MiB, more than any other job, and of 0 MiB that …"},
		{"there is no room for a copy", []string{"fill " + out + "/f 4000000"}, "failed: there is no room on the disk for what it makes: it has written 3.8 MiB, more than any other job, and of 4 MiB that …"},
		{"it fails, and leaves room", []string{"fill " + out + "/f 9000000", "print full", "remove " + out + "/f", "exit 3"}, "failed: exited with 3; while it ran the disk was full: make room, …"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := onSmallDisk(t)
			w.does(w.task(w.recipe(c.lines...)), c.want)
			w.clean()
			w.does(w.task(w.recipe("write "+out+"/f x")), "finished")
		})
	}
}

// Whose writes fail because another job has filled the disk has not failed, and that one is stopped at once.
func TestWhoFindsTheDiskFullIsNotResponsible(t *testing.T) {
	w := onSmallDisk(t)
	ended := map[int]chan build.Result{}
	begin := func(number int, lines ...string) {
		ended[number] = w.beside(t.Context(), number, lines...)
		waittest.Until(t, func() bool { return w.log(build.Task{Group: "base-7", Job: number, Attempt: 1}) == "begun\n" }, "it has begun")
	}
	goOn := func(number int) {
		assert.NoError(t, os.WriteFile(filepath.Join(w.dir, ".deployster", "builds", "work", "base-7~"+strconv.Itoa(number)+".1", "out", "go"), nil, 0o600))
	}
	begin(1, "print begun", "await "+out+"/go", "write "+out+"/f text")
	begin(2, "print begun", "await "+out+"/go", "fill "+out+"/f 9000000", "hang")
	goOn(2)
	waittest.Until(t, func() bool { return w.freeBytes() == 0 }, "the disk is full")
	goOn(1)
	w.wants(<-ended[1], "crowded out: its container exited with 65, while another job had filled the disk: make room, …")
	w.wants(<-ended[2], "failed: it was stopped as it filled the disk: it has written 8.0 MiB, more than any other job, …")
}

// A job that is to begin while another one fills the disk is not lost by its worker.
func TestWhoBeginsOnAFullDiskIsNotResponsible(t *testing.T) {
	onDisk(t, func(t *testing.T, w *world, free *atomic.Uint64) {
		ended := w.beside(t.Context(), 12, "write "+out+"/f x", "hang")
		synctest.Wait()
		free.Store(nearlyFull)
		for number := range 2 { // while that one is stopped, and when it is gone
			task := w.task(w.recipe())
			task.Job = 20 + number
			w.does(task, "crowded out: another job had filled the disk: preparing the job: only 3 MiB are free on the disk of …")
			if number == 0 {
				w.wants(<-ended, "failed: it was stopped as it filled the disk: …")
			}
		}
	})
}

func TestADiskThatOthersFilledIsNotTheFaultOfAJob(t *testing.T) {
	w := onSmallDisk(t)
	ended := make(chan build.Result, 1)
	task := w.task(w.recipe("print begun", "await "+out+"/go"))
	go func() { ended <- w.jobs.Build(t.Context(), task) }()
	waittest.Until(t, func() bool { return w.log(task) == "begun\n" }, "it has begun")
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "other"), make([]byte, 7<<20), 0o600))
	w.goOn()
	for _, r := range []build.Result{<-ended, w.jobs.Build(t.Context(), w.task(w.recipe("write "+out+"/f x")))} {
		w.wants(r, "lost: …")
	}
}

// user is one whom a process is to be.
type user struct{ ID, Group int }

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
	socket := must.Get(os.Stat("/var/run/docker.sock"))(t)
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
			text := must.Get(json.Marshal(order{Engine: at, Dir: dir, Task: task, User: nobody, Program: c.program}))(t)
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
			all := must.Get(w.engine.Containers(t.Context(), map[string]string{"deployster.log": w.options.Log}))(t)
			assert.Empty(t, all, "containers are left behind")
		})
	}
}
