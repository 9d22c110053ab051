package authoring

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

func TestWrittenTypesKeepToTheProtocol(t *testing.T) {
	for _, lang := range Languages() {
		t.Run(lang, func(t *testing.T) {
			w := write(t, lang, "", "")
			if lang == "go" {
				build(t, w)
			}
			results, err := w.check(t, func(o *Options) { o.Second = map[string]any{"path": "second.txt", "content": "Two\n"} })
			assert.NoError(t, err)
			for _, r := range results {
				optional := strings.HasPrefix(r.Detail, "init answers no ") || strings.HasPrefix(r.Detail, "init does not answer ") ||
					r.Detail == "state answered no planned_state"
				assert.False(t, r.Outcome != Passed && (r.Outcome != Skipped || !optional), "%s: %s: %s", r.Name, r.Outcome, r.Detail)
			}
			left, err := os.ReadDir(w.plug)
			assert.True(t, err == nil && len(left) == 0, "the check left %v (%v)", left, err)
			findsDriftAndStaysInThePlug(t, w)
		})
	}
}

// build does what the Dockerfile does, without a network and without anything
// in the cache of modules.
func build(t *testing.T, w *written) {
	goes(t, w.dir, "GOMODCACHE="+t.TempDir(), "build", "-trimpath", "-o", w.entrypoint[0], ".")
	goes(t, w.dir, "GOMODCACHE="+t.TempDir(), "vet", ".")
}

func goes(t *testing.T, dir, setting string, args ...string) {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "GOSUMDB=off", setting)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "go %v: %v\n%s", args, err, out)
}

// What the README of a type in Go says about building works as it stands there,
// in this order, with the source of Deployster where it says.
func TestTheReadmeOfATypeInGoCanBeFollowed(t *testing.T) {
	tree := must.Get(filepath.Abs("../.."))(t)
	beside := t.TempDir()
	require.NoError(t, os.Symlink(tree, filepath.Join(beside, "deployster")))
	dir := filepath.Join(beside, "motd")
	require.NoError(t, must.Fail(New(dir, "motd", "go")))
	_, building, _ := strings.Cut(read(t, filepath.Join(dir, "README.md")), "## Build")
	building, _, _ = strings.Cut(building, "## Test")
	var ran []string
	for line := range strings.Lines(building) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "CGO_ENABLED=0 ")
		if command, ok := strings.CutPrefix(line, "go "); ok {
			goes(t, dir, "", strings.Fields(command)...)
			ran = append(ran, command)
		}
	}
	require.Len(t, ran, 4, "the README says %q", ran)
	assert.Contains(t, read(t, filepath.Join(dir, "Dockerfile")), "go build -trimpath ", "the Dockerfile builds otherwise")
	goes(t, dir, "", "build", "-trimpath", "-o", "type", ".") // with what go mod vendor made
}

// findsDriftAndStaysInThePlug is what the check cannot bring about: somebody
// else's changes, and paths that lead out of the plug.
func findsDriftAndStaysInThePlug(t *testing.T, w *written) {
	t.Helper()
	ask := func(config string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), w.entrypoint[0], append(w.entrypoint[1:len(w.entrypoint):len(w.entrypoint)], args...)...)
		cmd.Stdin = strings.NewReader(`{"name":"r","ensure":"present","config":` + config + `,"staleState":{}}`)
		out, err := cmd.Output()
		return string(out), err
	}
	content := "one\r\n\n\"zwei\" ü $HOME `x` \\n\n\n" + strings.Repeat("more than an argument can have\n", 10_000) + "\n"
	text, _ := json.Marshal(map[string]string{"path": "a/b c.txt", "content": content})
	if out, err := ask(string(text), "create"); err != nil {
		t.Fatalf("create: %v\n%s", err, out)
	}
	file := filepath.Join(w.plug, "a", "b c.txt")
	assert.Equal(t, content, read(t, file), "wrote %.100q")
	if out, err := ask(string(text), "state"); err != nil || !strings.Contains(out, "VALID") {
		t.Errorf("after create: %.100q, %v", out, err)
	}
	// What is written aside must not be in the way of other resources.
	for _, name := range []string{"n.new", "n"} {
		text, _ := json.Marshal(map[string]string{"path": name, "content": name})
		out, err := ask(string(text), "create")
		require.NoError(t, err, "create %s: %v\n%s", name, err, out)
	}
	if got := names(t, w.plug); !slices.Equal(got, []string{"a", "n", "n.new"}) || read(t, filepath.Join(w.plug, "n.new")) != "n.new" {
		t.Errorf("two files with names alike have become %v", got)
	}
	require.NoError(t, os.WriteFile(file, []byte("changed\n"), 0o600))
	out, err := ask(string(text), "state")
	if err != nil || !strings.Contains(out, "STALE") || !strings.Contains(out, `changed\n`) || !strings.Contains(out, "update") {
		t.Errorf("after a change by somebody else: %q, %v", out, err)
	}
	for _, path := range []string{"../outside", "a/../../outside", ".."} {
		text, _ := json.Marshal(map[string]string{"path": path, "content": "x"})
		for _, action := range []string{"state", "create", "remove"} {
			out, err := ask(string(text), action)
			assert.Error(t, err, "%s of %q went through: %q", action, path, out)
		}
	}
	_, err = os.Lstat(filepath.Join(filepath.Dir(w.plug), "outside"))
	assert.Error(t, err, "a file was written outside the plug")
	out, err = ask(string(text), "stat")
	assert.Error(t, err, "an unknown action went through: %q", out)
}

func TestNewExamplesAreSound(t *testing.T) {
	source := must.Get(schema.Source("manifest"))(t)
	manifests := must.Get(schema.CompileConfig(source))(t)
	for _, lang := range Languages() {
		dir := filepath.Join(t.TempDir(), "deep", "er")
		files := must.Get(New(dir, "web-2", lang))(t)
		for _, file := range files {
			if filepath.Base(file) == "vendor" {
				continue
			}
			text := read(t, file)
			if text == "" || strings.Contains(text, "@") && filepath.Base(file) != "type.sh" {
				t.Errorf("%s is not filled in:\n%s", file, text)
			}
		}
		for _, want := range []string{"Dockerfile", "README.md", "example.json", "example.yaml", languageOf(t, lang).source} {
			assert.True(t, slices.Contains(files, filepath.Join(dir, want)), "%s: no %s in %v", lang, want, files)
		}
		if readme := read(t, filepath.Join(dir, "README.md")); !strings.Contains(readme, "deployster type test web-2 --config example.json --plug root=out") {
			t.Errorf("%s: the README does not say how to test", lang)
		}
		var manifest map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(dir, "example.yaml"))), &manifest))
		assert.Empty(t, manifests.Validate(manifest), "%s: example.yaml", lang)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ name, lang, want string }{
		"a name in capitals":     {"Web", "go", `"Web"`},
		"a path as name":         {"a/b", "go", `"a/b"`},
		"no name":                {"", "go", `""`},
		"a name like an option":  {"-v", "sh", `"-v"`},
		"a language it does not": {"web", "rust", "go, python, sh"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			_, err := New(dir, tc.name, tc.lang)
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.want), "got %v, want something with %q", err, tc.want)
			assert.Error(t, must.Fail(os.Lstat(dir)), "something was written")
		})
	}
}

func TestNewOverwritesNothing(t *testing.T) {
	for _, there := range []string{"Dockerfile", "type.sh"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, there), []byte("mine"), 0o600))
		_, err := New(dir, "web", "sh")
		assert.True(t, err != nil && strings.Contains(err.Error(), filepath.Join(dir, there)), "got %v", err)
		assert.Equal(t, []string{there}, names(t, dir), "there")
		assert.Equal(t, "mine", read(t, filepath.Join(dir, there)), "it was overwritten")
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.ErrorContains(t, must.Fail(New(file, "web", "sh")), "not a directory")
}

func TestNewIntoADirectoryThatIsThere(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("mine"), 0o600))
	files := must.Get(New(dir, "web", "python"))(t)
	want := []string{"Dockerfile", "LICENSE", "README.md", "example.json", "example.yaml", "type.py"}
	got := names(t, dir)
	assert.True(t, slices.Equal(got, want) && len(files) == len(want)-1, "got %v, told of %v", got, files)
}

func names(t *testing.T, dir string) []string {
	entries := must.Get(os.ReadDir(dir))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWhatIsServedIsBoundedAndKept(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(line string, asked protocol.ServeRequest) string
		detail string
	}{
		"state keeps beside its document": {
			func(line string, asked protocol.ServeRequest) string {
				if asked.Action == "state" {
					return strings.TrimSuffix(line, "}") + `, "keep": {"id": "i-1"}}`
				}
				return line
			},
			`state, served, has "keep" beside its output; only an action may`,
		},
		"state floods stderr": {
			func(line string, asked protocol.ServeRequest) string {
				if asked.Action == "state" {
					return fmt.Sprintf(`{"id": %d, "stderr": %q}`, asked.ID, strings.Repeat("x", 2<<20)) + "\n" + line
				}
				return line
			},
			"state, served, wrote 2097152 bytes to stderr",
		},
		"what an action keeps is lost": {
			func(line string, asked protocol.ServeRequest) string {
				if asked.Action == "create" {
					return fmt.Sprintf(`{"id": %d, "exit": 0, "keep": {"id": "i-9999"}}`, asked.ID)
				}
				return line
			},
			"after its actions, served, the state must be VALID; it is STALE (create)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVMType()
			v.find = func(r protocol.Request[vm]) (string, error) { // by nothing but what is kept
				r.ID = "nobody's"
				return v.machine(r)
			}
			p := v.serving(func(ctx context.Context, stdin io.Reader, stdout io.Writer) {
				lines := json.NewDecoder(stdin)
				for {
					var asked protocol.ServeRequest
					if lines.Decode(&asked) != nil {
						return
					}
					line, _ := json.Marshal(asked)
					var out bytes.Buffer
					v.Run(ctx, []string{"serve"}, bytes.NewReader(append(line, '\n')), &out, io.Discard)
					fmt.Fprintln(stdout, tc.change(strings.TrimSuffix(out.String(), "\n"), asked))
				}
			})
			results := checked(t, p, aVM())
			r := results["served and one-shot answers agree"]
			require.Equal(t, Failed, r.Outcome)
			assert.Contains(t, r.Detail, tc.detail)
		})
	}
}

// A type that hangs is found in the time of a bubble, so that no machine is too slow for what does answer.
func TestTypesThatHangAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		hangs  func(v *vmType) program
		check  string
		detail string
	}{
		"init hangs": {
			func(v *vmType) program {
				return func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
					if len(args) == 0 {
						<-ctx.Done()
					}
					return v.Run(ctx, args, stdin, stdout, stderr)
				}
			},
			"init exits with 0", "init did not end within 5m0s",
		},
		"it never answers": {
			func(v *vmType) program {
				return v.serving(func(_ context.Context, stdin io.Reader, _ io.Writer) { _, _ = io.Copy(io.Discard, stdin) })
			},
			"serve starts and answers", "the process that serves did not answer init within 5m0s",
		},
		"it reads no more than one line at a time": {
			func(v *vmType) program {
				return v.serving(func(ctx context.Context, stdin io.Reader, stdout io.Writer) {
					many := make([]byte, 1<<20)
					for {
						n, err := stdin.Read(many)
						if err != nil {
							return
						}
						line, _, _ := bytes.Cut(many[:n], []byte("\n"))
						v.Run(ctx, []string{"serve"}, bytes.NewReader(append(line, '\n')), stdout, io.Discard)
					}
				})
			},
			"two requests at once are both answered", "the process that serves did not answer state within 5m0s",
		},
		"it does not end": {
			func(v *vmType) program {
				return v.serving(func(ctx context.Context, stdin io.Reader, stdout io.Writer) {
					v.Run(ctx, []string{"serve"}, stdin, stdout, io.Discard)
					<-ctx.Done()
				})
			},
			"serve ends when its stdin ends", "the process that serves did not end after its stdin had ended within 5m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				onlyFound(t, checked(t, tc.hangs(newVMType()), aVM()), tc.check, Failed, tc.detail)
			})
		})
	}
}

// serving is the type that serves in a way of its own.
func (v *vmType) serving(serve func(ctx context.Context, stdin io.Reader, stdout io.Writer)) program {
	return func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		if len(args) != 1 || args[0] != "serve" {
			return v.Run(ctx, args, stdin, stdout, stderr)
		}
		serve(ctx, stdin, stdout)
		return 0
	}
}
