package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/contents"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// story is a job, and what comes of it.
type story struct {
	lines   []string
	recipe  func(w *world, r *recipe.Recipe)
	task    func(w *world, t *build.Task)
	want    string // the beginning of what is told of the result
	content string // of the artifact
	log     string // "*" is any
	kernel  bool   // only where there are processes
}

func stories() map[string]story {
	return map[string]story{
		"a file":  {lines: []string{"write " + out + "/bin text"}, want: "finished", content: "bin: text"},
		"nothing": {want: "finished"},
		"directories and links": {
			lines: []string{"mkdir " + out + "/a/b", "write " + out + "/a/b/c x", "link " + out + "/d a/b/c"},
			want:  "finished", content: "a/, a/b/, a/b/c: x, d -> a/b/c",
		},
		"what it says": {
			lines: []string{"print hello", "print to you"},
			want:  "finished", log: "hello\nto you\n",
		},
		"metadata": {
			lines: []string{"append " + metadata + " revision=1a2b", "append " + metadata + " url=a=b c"},
			want:  `finished {"revision":"1a2b","url":"a=b c"}`,
		},
		"what it needs, and what that needs": {
			lines: []string{
				"copy " + deps + "/gcc/bin/cc " + out + "/cc", "copy " + deps + "/core/make/make " + out + "/make", "list " + deps,
				"list " + all, "write " + deps + "/gcc/bin/cc altered",
			},
			task: func(w *world, t *build.Task) {
				gcc, make, libc := w.artifact(map[string]string{"bin/cc": "the compiler"}), w.artifact(map[string]string{"make": "it"}), w.artifact(map[string]string{"so": "x"})
				t.Uses = []build.Dependency{
					{Package: "gcc", Artifact: gcc, Job: 3, Direct: true}, {Package: "core/make", Artifact: make, Direct: true},
					{Package: "sed", Direct: true}, {Package: "libc", Artifact: libc, Job: 1, Run: true}, {Package: "libc", Artifact: make, Job: 2},
				}
			},
			want: "failed: exited with 65", log: "*", kernel: true, // what it needs is read-only
		},
		"sources": {
			lines: []string{"where", "copy src/a.c " + out + "/a.c", "list " + deps, "list " + all},
			recipe: func(w *world, r *recipe.Recipe) {
				r.Artifact, r.Sources = w.artifact(map[string]string{"src/a.c": "int main"}), []recipe.Source{{Path: "src"}}
			},
			want: "finished", content: "a.c: int main", log: "/var/lib/deployster/sources\n",
		},
		"variables and secrets": {
			lines: []string{"env A", "env TOKEN", "env DEPLOYSTER_OUT", "append " + metadata + " token=hunter2"},
			recipe: func(_ *world, r *recipe.Recipe) {
				r.Env = map[string]string{"A": "1"}
				r.Secrets = map[string]recipe.Secret{"TOKEN": {Value: "{{ token }}"}}
			},
			want: `finished {"token":"(secret)"}`, log: "A=1\nTOKEN=(secret)\nDEPLOYSTER_OUT=/var/lib/deployster/out\n",
		},
		"a failure": {
			lines: []string{"print it cannot be done", "exit 3"},
			want:  "failed: exited with 3", log: "it cannot be done\n",
		},
		"a job that takes too long": {
			lines:  []string{"print begun", "hang"},
			recipe: func(_ *world, r *recipe.Recipe) { r.Timeout = 300 * time.Millisecond },
			want:   "failed: timed out after 300ms", log: "*",
		},
		"an image that is gone": {
			recipe: func(_ *world, r *recipe.Recipe) {
				r.Image = recipe.Image{Image: "no/such:image", ID: "sha256:" + strings.Repeat("0", 64)}
			},
			want: "unbuildable: image no/such:image: the group carries sha256:000",
		},
		"a program that is not there": {
			recipe: func(_ *world, r *recipe.Recipe) { r.Entrypoint = "/no/such/program" },
			want:   `unbuildable: run image "` + image + `": `,
		},
		"an argument that is too long": {
			lines: []string{"print " + strings.Repeat("x", 1<<20)},
			want:  "unbuildable: run image ", kernel: true,
		},
		"a recipe that is gone": {
			task: func(_ *world, t *build.Task) { t.Carries[recipe.Name(0)] = strings.Repeat("0", 64) },
			want: "unbuildable: what it runs cannot be read: object 000",
		},
		"a recipe that is not carried": {
			task: func(_ *world, t *build.Task) { t.Carries = nil },
			want: "unbuildable: its group does not carry what it runs (/recipes/0): submit it again",
		},
		"a plug that is gone": {
			recipe: func(_ *world, r *recipe.Recipe) {
				r.Plugs = []recipe.Plug{{Path: "/no/such/directory", ContainerPath: "/x"}}
			},
			want: "unbuildable: its plug /no/such/directory: ",
		},
		"the state of the workspace, hidden in a plug": {
			lines: []string{"list /workspace/.deployster", "show /workspace/file"},
			recipe: func(w *world, r *recipe.Recipe) {
				assert.NoError(w, os.WriteFile(w.dir+"/file", []byte("seen"), 0o644))
				r.Plugs = []recipe.Plug{{Path: w.dir, ContainerPath: "/workspace"}}
			},
			want: "finished", log: "seen\n", kernel: true,
		},
		"a plug that is the state of the workspace": {
			recipe: func(w *world, r *recipe.Recipe) {
				r.Plugs = []recipe.Plug{{Path: w.dir + "/.deployster", ContainerPath: "/state"}}
			},
			want: "unbuildable: no job may see what is in .deployster: its plug ",
		},
		"a plug that is a part of the state of the workspace": {
			lines: []string{"write /objects/forged text"},
			recipe: func(w *world, r *recipe.Recipe) {
				kept := w.dir + "/.deployster/objects"
				assert.NoError(w, errors.Join(os.MkdirAll(kept, 0o700), os.Symlink(kept, w.dir+"/link")))
				r.Plugs = []recipe.Plug{{Path: w.dir + "/link", ContainerPath: "/objects"}}
			},
			want: "unbuildable: no job may see what is in .deployster: its plug ",
		},
		"a link out of it": {
			lines: []string{"link " + out + "/passwd /etc/passwd"},
			want:  `failed: what it made in $DEPLOYSTER_OUT: "passwd" `,
		},
		"a link that climbs": {
			lines: []string{"link " + out + "/up ../../job.json"},
			want:  `failed: what it made in $DEPLOYSTER_OUT: "up" `,
		},
		"a named pipe": {
			lines: []string{"fifo " + out + "/pipe"},
			want:  `failed: what it made in $DEPLOYSTER_OUT: "pipe" is a FIFO`,
		},
		"files that nobody may read": {
			lines: []string{"mkdir " + out + "/d", "write " + out + "/d/f text", "chmod " + out + "/d/f 0", "chmod " + out + "/d 0"},
			want:  "finished", content: "d/, d/f: text",
		},
		"files of others": {
			lines: []string{"mkdir " + out + "/d", "write " + out + "/d/f text", "chmod " + out + "/d 700", "chown " + out + "/d/f 1234", "chown " + out + "/d 1234"},
			want:  "finished", content: "d/, d/f: text",
		},
		"too many files": {
			lines: []string{"many " + out + " 60"},
			want:  "failed: what it made in $DEPLOYSTER_OUT: there are more than 50 files, links and directories; ",
		},
		"a file that is too large": {
			lines: []string{"write " + out + "/f x", "size " + out + "/f 100000000000"},
			want:  `failed: what it made in $DEPLOYSTER_OUT: "f" and what is before it have more than `,
		},
		"metadata without a value": {
			lines: []string{"append " + metadata + " a=1", "append " + metadata + " b"},
			want:  "failed: what it wrote to $DEPLOYSTER_METADATA: line 2 has no =",
		},
		"a long line": {
			lines: []string{"bytes 131072"},
			want:  "finished", log: strings.Repeat("x", 131072) + "\n",
		},
		"any bytes": {lines: []string{"any"}, want: "finished", log: anyBytes()},
	}
}

func anyBytes() string {
	var all []byte
	for c := range 256 {
		all = append(all, byte(c))
	}
	return string(all) + "\n"
}

func tell(t *testing.T, open func(t *testing.T) *world, processes bool) {
	for name, s := range stories() {
		if s.kernel && !processes {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.options.Limits.Files = 50
			w.options.Secrets, w.options.Pull = resolved, engine.PullNever
			w.restart()
			r := w.recipe(s.lines...)
			if s.recipe != nil {
				s.recipe(w, &r)
			}
			task := w.task(r)
			if s.task != nil {
				s.task(w, &task)
			}
			result := w.jobs.Build(t.Context(), task)
			assert.True(t, strings.HasPrefix(told(result), s.want))
			if result.Finished != nil {
				assert.Equal(t, s.content, w.content(result.Finished.Artifact))
				if result.Finished.Took <= 0 || result.Finished.Inputs != "inputs" || result.Finished.Worker != "local" || result.Finished.Image != w.id {
					t.Errorf("it is not said how it was made: %+v", result.Finished)
				}
			}
			if got := w.log(task); s.log != "*" && got != s.log {
				t.Errorf("its log is %.200q (%d bytes), want %.200q (%d bytes)", got, len(got), s.log, len(s.log))
			}
			if f := result.Failed; f != nil && s.log != "" && s.log != "*" && strings.Join(f.Output, "\n")+"\n" != s.log {
				t.Errorf("the last of its output is %q", f.Output)
			}
		})
	}
}

func resolved(_ context.Context, _ record.Carries, r recipe.Recipe) (map[string]string, error) {
	values := map[string]string{}
	for name, s := range r.Secrets {
		if s.Value != "{{ token }}" {
			return nil, fmt.Errorf("%s is not what it was", name)
		}
		values[name] = "hunter2"
	}
	return values, nil
}

func TestJobs(t *testing.T) {
	tell(t, func(t *testing.T) *world { return newWorld(t, fakeEngine()) }, false)
}

// A job that forgets the KEY= has written a line that may look like one, if its secret has an
// =. No part of that is recorded.
func TestASecretIsNoMetadata(t *testing.T) {
	for name, c := range map[string]struct{ secret, line, want string }{
		"its beginning is like a key":   {"c2VjcmV0Mg==", "c2VjcmV0Mg==", "failed: what it wrote to $DEPLOYSTER_METADATA: line 1 has no =: …"},
		"its beginning is not":          {"hR7+c2VjcmV0Mg==", "hR7+c2VjcmV0Mg==", "failed: what it wrote to $DEPLOYSTER_METADATA: line 1 has no =: …"},
		"it is a key":                   {"c2VjcmV0Mg", "c2VjcmV0Mg=1", `failed: what it wrote to $DEPLOYSTER_METADATA: line 1: "(secret)" is no key: …`},
		"it is part of a key":           {"c2VjcmV0Mg", "a_c2VjcmV0Mg=1", `failed: what it wrote to $DEPLOYSTER_METADATA: line 1: "a_(secret)" is no key: …`},
		"it is longer than what is cut": {strings.Repeat("c2VjcmV0", 20), strings.Repeat("c2VjcmV0", 20) + "=1", `failed: what it wrote to $DEPLOYSTER_METADATA: line 1: "(secret)" is no key: …`},
		"it is a value":                 {"c2VjcmV0Mg==", "a=c2VjcmV0Mg==", `finished {"a":"(secret)"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fakeEngine())
			w.options.Secrets = func(context.Context, record.Carries, recipe.Recipe) (map[string]string, error) {
				return map[string]string{"TOKEN": c.secret}, nil
			}
			w.restart()
			r := w.recipe("append " + metadata + " " + c.line)
			r.Secrets = map[string]recipe.Secret{"TOKEN": {Value: "{{ token }}"}}
			assert.NotContains(t, string(must.Get(json.Marshal(w.does(w.task(r), c.want)))(t)), c.secret[:8])
		})
	}
}

func TestTroubleOfAnEngineIsNotTheFaultOfTheJob(t *testing.T) {
	for text, err := range map[string]error{
		"it has no processes":    &os.PathError{Op: "fork/exec", Path: "/proc/self/exe", Err: syscall.EAGAIN},
		"it says so":             errors.New("start the launcher: fork/exec /proc/self/exe: resource temporarily unavailable"),
		"it has no files":        fmt.Errorf("make a socket to the launcher: %w", syscall.EMFILE),
		"its machine has none":   &engine.SpecError{Cause: errors.New("exec: \"/job\" cannot be executed in image \"x\": too many open files in system")},
		"it only sounds like it": errors.New("the store of entrypoints is locked: image cannot be executed in image"),
		"its launcher is killed": errors.New("runc: the launcher ended before there was one: signal: killed"),
		"it has an error":        errors.New("create the container: Error response from daemon: something is wrong here"),
	} {
		t.Run(text, func(t *testing.T) {
			fake := fakeEngine()
			w := newWorld(t, fake)
			fake.Fail = func(engine.Spec) error { return err }
			w.does(w.task(w.recipe()), "lost: run image …")
		})
	}
}

func TestWhatNoContainerCanBeMadeOfIsTheFaultOfTheJob(t *testing.T) {
	for _, text := range []string{
		`entrypoint "/x" cannot be executed in image "i"; check that the file is there and executable: exec: "/x": no such file or directory`,
		`entrypoint "/x" of image "i" is built for another platform than the engine's: exec format error`,
		`mount source /x does not exist: no such file or directory`,
		`argument 1 is too long: of its 200000 bytes the kernel takes 131071`,
	} {
		fake := fakeEngine()
		w := newWorld(t, fake)
		fake.Fail = func(engine.Spec) error { return &engine.SpecError{Cause: errors.New(text)} }
		w.does(w.task(w.recipe()), "unbuildable: run image …")
	}
}

// "make test" tells all stories on the engine without a daemon. Those of which processes are killed
// are told on Docker, whose containers go on then.
func TestJobsInContainers(t *testing.T) {
	for name, at := range realEngines(t) {
		t.Run(name, func(t *testing.T) {
			if e := opened(t, at); at.OCI || ringtest.All() {
				tell(t, func(t *testing.T) *world { return newWorld(t, e) }, true)
			}
			for name, s := range killed() {
				if !at.OCI || s.cancel || s.removed || ringtest.All() {
					t.Run(name, func(t *testing.T) { s.tell(t, at) })
				}
			}
		})
	}
}

// killedStory is a job whose process is killed while its container runs, which waits until it may go on.
type killedStory struct {
	then               []string      // what the container does then
	timeout            time.Duration // of the job
	late               bool          // it is resumed only when its container has ended
	cancel             bool          // its group is canceled meanwhile
	removed            bool          // somebody else removes the container
	after              time.Duration // how much later it is resumed
	want, log, content string
}

func killed() map[string]killedStory {
	return map[string]killedStory{
		"it goes on, and its end is awaited": {
			then: []string{"print done"}, want: `finished {"a":"1"}`, log: "begun\ndone\n", content: "f: text, go: ",
		},
		"it ends before it is resumed": {
			then: []string{"print done"}, late: true, want: `finished {"a":"1"}`, log: "begun\ndone\n", content: "f: text, go: ",
		},
		"it ends in time, and is resumed when that is over": {
			then: []string{"print done"}, late: true, timeout: time.Hour, after: 2 * time.Hour,
			want: `finished {"a":"1"}`, log: "begun\ndone\n", content: "f: text, go: ",
		},
		"it fails": {
			then: []string{"print no", "exit 4"}, late: true, want: "failed: exited with 4", log: "begun\nno\n",
		},
		"it takes too long": {
			then: []string{"hang"}, timeout: time.Hour, after: 2 * time.Hour, want: "failed: timed out after 1h", log: "begun\n",
		},
		"its group is canceled": {cancel: true, then: []string{"hang"}, want: "canceled", log: "begun\n"},
		"its container is gone": {removed: true, then: []string{"hang"}, want: "lost: the process that did it has died, and its container is gone", log: "begun\n"},
	}
}

func (s killedStory) tell(t *testing.T, at place) {
	w := newWorld(t, opened(t, at))
	r := w.recipe(append([]string{"print begun", "write " + out + "/f text", "append " + metadata + " a=1", "await " + out + "/go"}, s.then...)...)
	if s.timeout > 0 {
		r.Timeout = s.timeout
	}
	task := w.task(r)
	kill := w.begin(at, task)
	waittest.Until(t, func() bool { return w.log(task) == "begun\n" }, "it has begun")
	kill()
	dir := filepath.Join(w.dir, engine.StateDir, "builds", "work", "base-7~12.1")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "out", "go"), nil, 0o600))
	left := func() []engine.Container {
		return must.Get(w.engine.Containers(t.Context(), map[string]string{"deployster.log": w.options.Log}))(t)
	}
	if s.late {
		waittest.Until(t, func() bool {
			all := left()
			return len(all) == 0 || !all[0].Running
		}, "its container has ended")
	}
	if s.removed {
		for _, c := range left() {
			require.NoError(t, w.engine.Remove(t.Context(), c.ID))
		}
	}
	want := s
	if at.OCI && !s.cancel { // containers end with the process
		want = killedStory{want: "lost: the process that did it has died, and its container is gone", log: "begun\n"}
	}
	ctx, cancel := cancelable(t)
	if s.cancel {
		cancel()
	}
	w.options.Now = func() time.Time { return time.Now().Add(s.after) }
	w.jobs = jobs.New(w.options)
	result := w.jobs.Resume(ctx, task)
	assert.Equal(t, want.want, told(result))
	assert.Equal(t, want.log, w.log(task))
	if result.Finished != nil {
		assert.Equal(t, want.content, w.content(result.Finished.Artifact))
		require.Equal(t, w.id, result.Finished.Image, "it is not said how it was made: %+v", result.Finished)
		assert.Equal(t, int64(len(want.log)), result.Finished.LogBytes, "it is not said how it was made: %+v", result.Finished)
		again := w.jobs.Resume(context.Background(), task) // as when this process died before it is recorded
		require.Equal(t, told(result), told(again))
		assert.Equal(t, result.Finished.Artifact, again.Finished.Artifact)
	}
}

// Whatever a plug holds by then, a job is done; but no other group uses what it made of something else.
func TestAPlugThatHasChangedIsNoReasonToUseTheArtifactAgain(t *testing.T) {
	w := newWorld(t, fakeEngine())
	plug := t.TempDir()
	file := filepath.Join(plug, "tool")
	require.NoError(t, os.WriteFile(file, []byte("one"), 0o600))
	reader := &contents.Reader{Now: time.Now}
	r := w.recipe("write " + out + "/bin text")
	r.Plugs = []recipe.Plug{{Path: plug, ContainerPath: "/tool", ReadOnly: true, Content: must.Get(reader.Of(t.Context(), plug))(t).Hash}}
	task := w.task(r)
	task.Inputs = "sha256:" + strings.Repeat("ab", 32)
	assert.Equal(t, task.Inputs, w.does(task, "finished").Finished.Inputs)
	require.NoError(t, os.WriteFile(file, []byte("two"), 0o600))
	task.Attempt++
	first := w.does(task, "finished").Finished.Inputs
	task.Attempt++
	second := w.does(task, "finished").Finished.Inputs
	assert.NotEqual(t, task.Inputs, first)
	assert.NotEqual(t, first, second)
	assert.True(t, strings.HasPrefix(first, "sha256:") && len(first) == len(task.Inputs), "it is %s", first)
}
