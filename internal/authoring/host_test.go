package authoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/engine"
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
	files, err := New(w.dir, "my-type", lang)
	if err != nil {
		t.Fatal(err)
	}
	source := languageOf(t, lang).source
	found := false
	for _, file := range files {
		if filepath.Base(file) != source {
			continue
		}
		text := read(t, file)
		if !strings.Contains(text, old) {
			t.Fatalf("%s does not contain %q", file, old)
		}
		found = true
		if old != "" {
			text = strings.ReplaceAll(text, old, new)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/plug/root", w.plug)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatalf("%s is not among %v", source, files)
	}
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
		if err := json.Unmarshal([]byte(text), &words); err != nil {
			t.Fatal(err)
		}
		for i, word := range words {
			if path, ok := strings.CutPrefix(word, "/"); ok {
				words[i] = filepath.Join(dir, path)
			}
		}
		if words[0] == "python3" {
			words = append([]string{python(), "-S", "-E"}, words[1:]...) // which starts in two thirds of the time
		}
		return words
	}
	t.Fatal("the Dockerfile has no ENTRYPOINT")
	return nil
}

// python is the interpreter itself, where python3 may be a script that finds
// it anew each time.
var python = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "python3"
	}
	return strings.TrimSpace(string(out))
})

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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
	cmd := exec.CommandContext(ctx, words[0], append(words[1:len(words):len(words)], spec.Args...)...)
	cmd.Dir, cmd.Env = spec.WorkDir, append(os.Environ(), told...)
	stdout := &guarded{w: streams.Stdout}
	cmd.Stdout, cmd.Stderr = stdout, streams.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return engine.Exit{}, err
	}
	go func() { // which may outlive the process
		_, _ = io.Copy(stdin, streams.Stdin)
		_ = stdin.Close()
	}()
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case stdout.err != nil:
		return engine.Exit{}, fmt.Errorf("run: %w", stdout.err)
	case ctx.Err() != nil:
		return engine.Exit{}, fmt.Errorf("run: %w", context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited():
		return engine.Exit{Code: exit.ExitCode()}, nil
	case errors.As(err, &exit):
		return engine.Exit{Code: 137}, nil
	}
	return engine.Exit{}, err
}

// check checks the type with its example.
func (w *written) check(t *testing.T, change func(*Options)) (results []Result, err error) {
	t.Helper()
	opts := Options{
		Engine: w, Image: "my-type", Plugs: map[string]string{"root": w.plug},
		Version: "1", Workspace: t.TempDir(), Work: t.TempDir(),
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(w.dir, "example.json"))), &opts.Config); err != nil {
		t.Fatal(err)
	}
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
