package authoring

import (
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
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
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

// Image knows the one image.
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

// execute starts a program and waits for its end.
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

// check checks the type with its example.
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
