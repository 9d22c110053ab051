package authoring

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
)

// written is a type that New wrote for a test, runnable on this machine: what
// its code calls the plug is a directory of the test.
type written struct {
	dir        string
	plug       string
	entrypoint []string
}

// write makes a type. In its source, old is changed to new first, unless old
// is empty.
func write(t *testing.T, lang, old, new string) *written {
	t.Helper()
	w := &written{dir: filepath.Join(t.TempDir(), "my-type"), plug: t.TempDir()}
	files := must.Get(New(w.dir, "my-type", lang))(t)
	source := languageOf(t, lang).source
	found := false
	for _, file := range files {
		if filepath.Base(file) != source {
			continue
		}
		text := read(t, file)
		require.Contains(t, text, old, "%s does not contain %q", file, old)
		found = true
		if old != "" {
			text = strings.ReplaceAll(text, old, new)
		}
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "/plug/root", w.plug)), 0o600))
	}
	require.True(t, found, "%s is not among %v", source, files)
	w.entrypoint = entrypoint(t, w.dir)
	return w
}

func languageOf(t *testing.T, lang string) language {
	t.Helper()
	for _, l := range languages {
		if l.name == lang {
			return l
		}
	}
	t.Fatalf("no language %q", lang)
	return language{}
}

// entrypoint is that of the Dockerfile, with what it copies to / found in dir.
func entrypoint(t *testing.T, dir string) []string {
	t.Helper()
	for line := range strings.Lines(read(t, filepath.Join(dir, "Dockerfile"))) {
		text, ok := strings.CutPrefix(line, "ENTRYPOINT ")
		if !ok {
			continue
		}
		var words []string
		require.NoError(t, json.Unmarshal([]byte(text), &words))
		for i, word := range words {
			if path, ok := strings.CutPrefix(word, "/"); ok {
				words[i] = filepath.Join(dir, path)
			}
		}
		if words[0] == "python3" {
			words = append(python(), words[1:]...)
		}
		return words
	}
	t.Fatal("the Dockerfile has no ENTRYPOINT")
	return nil
}

// python is the interpreter itself, where python3 may be a script that finds it anew each time, with
// the options with which it starts in two thirds of the time.
func python() []string { return []string{interpreter(), "-S", "-E"} }

var interpreter = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "python3"
	}
	return strings.TrimSpace(string(out))
})

func read(t *testing.T, file string) string {
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}

func (w *written) Image(_ context.Context, ref string, _ engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	if ref != "my-type" && ref != "my-tool" { // which is the same
		return engine.Image{}, fmt.Errorf("image %q: %w: build it first", ref, engine.ErrNoImage)
	}
	return engine.Image{Ref: ref, ID: "sha256:my-type"}, nil
}

// Run runs the type as a process. It refuses what a container would not have.
func (w *written) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	if spec.Image != "sha256:my-type" {
		return engine.Exit{}, fmt.Errorf("run %q: %w", spec.Image, engine.ErrNoImage)
	}
	told := slices.Clone(spec.Env)
	for _, m := range spec.Mounts {
		if at := slices.Index(told, "DEPLOYSTER_WORK="+m.Target); at >= 0 {
			told[at] = "DEPLOYSTER_WORK=" + m.Source // the process finds it where it is told
			continue
		}
		if m.Source != m.Target {
			return engine.Exit{}, fmt.Errorf("%s cannot be mounted at %s", m.Source, m.Target)
		}
	}
	words := w.entrypoint
	if spec.Entrypoint != "" {
		words = []string{spec.Entrypoint}
	}
	if spec.Timeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout, engine.ErrTimeout)
		defer cancel()
	}
	stdout := &guarded{w: streams.Stdout}
	streams.Stdout = stdout
	run := execute
	if words[0] == interpreter() {
		run = fork
	}
	status, err := run(ctx, append(words[:len(words):len(words)], spec.Args...), spec.WorkDir, append(os.Environ(), told...), streams)
	switch {
	case stdout.err != nil:
		return engine.Exit{}, fmt.Errorf("run: %w", stdout.err)
	case ctx.Err() != nil:
		return engine.Exit{}, fmt.Errorf("run: %w", context.Cause(ctx))
	case err != nil:
		return engine.Exit{}, err
	case status.Exited():
		return engine.Exit{Code: status.ExitStatus()}, nil
	}
	return engine.Exit{Code: 137}, nil
}

func execute(ctx context.Context, words []string, dir string, env []string, streams engine.IO) (syscall.WaitStatus, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, streams.Stdout, streams.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	go func() { // which may outlive the process
		_, _ = io.Copy(stdin, streams.Stdin)
		_ = stdin.Close()
	}()
	if err = cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.Sys().(syscall.WaitStatus), nil
}

func (w *written) check(t *testing.T, change func(*Options)) (results []Result, err error) {
	opts := Options{
		Engine: w, Image: "my-type", Plugs: map[string]string{"root": w.plug},
		Version: "1", Workspace: t.TempDir(), Work: t.TempDir(),
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(w.dir, "example.json"))), &opts.Config))
	if change != nil {
		change(&opts)
	}
	err = Check(t.Context(), opts, func(r Result) { results = append(results, r) })
	return results, err
}

// guarded remembers why a write failed; the process only sees a broken pipe.
type guarded struct {
	w   io.Writer
	err error
}

func (g *guarded) Write(p []byte) (n int, err error) {
	n, g.err = g.w.Write(p)
	return n, g.err
}

// forks returns the socket of testdata/fork.py, one process from which all runs of types in Python
// are forked. To start Python for each of the thousands of runs took most of the time of the tests.
// The process ends when the tests do, which closes the socket.
var forks = sync.OnceValues(func() (int, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	requests := os.NewFile(uintptr(pair[1]), "requests")
	defer requests.Close()
	cmd := exec.Command(interpreter(), append(python()[1:], "testdata/fork.py")...)
	cmd.Stdin, cmd.Stderr = requests, os.Stderr
	return pair[0], cmd.Start()
})

// fork does what execute does with a script in Python, in a process that is forked from forks.
func fork(ctx context.Context, words []string, dir string, env []string, streams engine.IO) (syscall.WaitStatus, error) {
	requests, err := forks()
	if err != nil {
		return 0, fmt.Errorf("starting testdata/fork.py: %w", err)
	}
	environment := map[string]string{}
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		environment[name] = value
	}
	request, err := json.Marshal([]any{words[len(python()):], dir, environment})
	if err != nil {
		return 0, err
	}
	var ours, theirs [4]*os.File // stdin, stdout, stderr and the answer
	var passed []int
	for i := range ours {
		reads, writes, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		ours[i], theirs[i] = reads, writes
		if i == 0 {
			ours[i], theirs[i] = writes, reads
		}
		defer ours[i].Close()
		passed = append(passed, int(theirs[i].Fd()))
	}
	err = syscall.Sendmsg(requests, request, syscall.UnixRights(passed...), nil, 0)
	for _, file := range theirs {
		_ = file.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("asking testdata/fork.py for a process: %w", err)
	}
	go func() { // which may outlive the process
		_, _ = io.Copy(ours[0], streams.Stdin)
		_ = ours[0].Close()
	}()
	var copying sync.WaitGroup
	for i, to := range map[int]io.Writer{1: streams.Stdout, 2: streams.Stderr} {
		copying.Go(func() {
			_, _ = io.Copy(to, ours[i])
			_ = ours[i].Close() // so that the process does not wait for a reader that has given up
		})
	}
	var pid, status int
	answer := bufio.NewReader(ours[3])
	if _, err := fmt.Fscanln(answer, &pid); err != nil {
		return 0, fmt.Errorf("testdata/fork.py has forked no process: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	_, err = fmt.Fscanln(answer, &status)
	stop()
	copying.Wait()
	return syscall.WaitStatus(status), err
}

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
