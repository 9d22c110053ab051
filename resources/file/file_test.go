package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/protocoltest"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

type object = map[string]any

func resource(t *testing.T, config any) (r typetest.Resource, plug string) {
	plug = t.TempDir()
	return typetest.Resource{Type: newType(plug), Name: "motd", Config: config}, plug
}

func write(t *testing.T, path, content string, mode fs.FileMode) {
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, os.Chmod(path, mode))
}

func TestNewFile(t *testing.T) {
	r, plug := resource(t, object{"path": "etc/app/motd", "content": "secret words", "mode": "0640"})
	stale := r.Stale(t, "create-file")
	assert.True(t, stale.StaleState == nil, "stale state of what does not exist: %v", stale.StaleState)
	state, output := r.Apply(t)
	assert.NotContains(t, output, "secret", "the content was printed: %s", output)
	const sum = "90e132a8e71a48078f8c7dd31c62b6518c497b07863ec1e70403b906e5e202d5"
	if state["path"] != "etc/app/motd" || state["size"] != int64(12) || state["mode"] != "0640" || state["sha256"] != sum || state["content"] != nil {
		t.Errorf("state: %v", state)
	}
	got, err := os.ReadFile(filepath.Join(plug, "etc/app/motd"))
	assert.True(t, err == nil && string(got) == "secret words", "file: %q, %v", got, err)
}

func TestDriftOfAFile(t *testing.T) {
	config := object{"path": "motd", "content": "hello", "mode": "0644"}
	for name, tc := range map[string]struct {
		change func(t *testing.T, path string)
		action string
	}{
		"content, same length": {func(t *testing.T, p string) { write(t, p, "hellO", 0o644) }, "update-file"},
		"content, longer":      {func(t *testing.T, p string) { write(t, p, "hello!", 0o644) }, "update-file"},
		"emptied":              {func(t *testing.T, p string) { write(t, p, "", 0o644) }, "update-file"},
		"mode":                 {func(t *testing.T, p string) { write(t, p, "hello", 0o600) }, "change-mode"},
		"setuid":               {func(t *testing.T, p string) { write(t, p, "hello", 0o644|fs.ModeSetuid) }, "change-mode"},
		"content and mode":     {func(t *testing.T, p string) { write(t, p, "x", 0o777) }, "update-file"},
		"removed":              {func(t *testing.T, p string) { must(t, os.Remove(p)) }, "create-file"},
		"a link to the content": {func(t *testing.T, p string) {
			must(t, os.Rename(p, p+".real"), os.Symlink("motd.real", p))
		}, "replace-with-file"},
		"a dangling link": {func(t *testing.T, p string) { must(t, os.Remove(p), os.Symlink("/nowhere", p)) }, "replace-with-file"},
		"a directory":     {func(t *testing.T, p string) { must(t, os.Remove(p), os.Mkdir(p, 0o755)) }, "replace-with-file"},
		"a pipe":          {func(t *testing.T, p string) { must(t, os.Remove(p), syscall.Mkfifo(p, 0o644)) }, "replace-with-file"},
	} {
		t.Run(name, func(t *testing.T) {
			r, plug := resource(t, config)
			before, _ := r.Apply(t)
			tc.change(t, filepath.Join(plug, "motd"))
			r.Stale(t, tc.action)
			after, _ := r.Apply(t)
			assert.True(t, after["sha256"] == before["sha256"] && after["mode"] == "0644", "was %v, is %v", before, after)
			left, err := filepath.Glob(filepath.Join(plug, ".deployster-*"))
			assert.True(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
		})
	}
}

func must(t *testing.T, errs ...error) {
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestStaleStateSpeaksLikeTheConfiguration(t *testing.T) {
	r, plug := resource(t, object{"path": "motd", "content": "hello", "mode": "0644"})
	write(t, filepath.Join(plug, "motd"), "hello", 0o600)
	s := r.State(t).StaleState
	assert.True(t, s["content"] == "hello" && s["mode"] == "0600", "only the mode differs: %v", s)
	write(t, filepath.Join(plug, "motd"), "their words", 0o644)
	s = r.State(t).StaleState
	assert.True(t, !strings.Contains(s["content"].(string), "their") && strings.HasPrefix(s["content"].(string), "(11 bytes"),
		"only the content differs: %v", s)
}

func TestAContentIsLeftAsItIsShown(t *testing.T) {
	r, plug := resource(t, object{"path": "motd", "content": "hello", "mode": "0644"})
	write(t, filepath.Join(plug, "motd"), "theirs", 0o600)
	shown := r.Stale(t, "update-file").StaleState["content"]
	r.Config = object{"path": "motd", "content": shown, "mode": "0600"}
	r.Valid(t)
	r.Config.(object)["mode"] = "0644"
	r.Stale(t, "change-mode")
	r.Config.(object)["content"] = "(6 bytes, sha256 000000000000)"
	r.Stale(t, "update-file")
}

func TestWithoutModeTheFileKeepsItsOwn(t *testing.T) {
	r, plug := resource(t, object{"path": "motd", "content": "new"})
	write(t, filepath.Join(plug, "motd"), "old", 0o604)
	state, _ := r.Apply(t)
	assert.True(t, state["mode"] == "0604", "state: %v", state)
}

func TestDirectory(t *testing.T) {
	r, plug := resource(t, object{"path": "a/b", "directory": true, "mode": "1770"})
	r.Stale(t, "create-directory")
	state, _ := r.Apply(t)
	assert.True(t, state["mode"] == "1770" && state["kind"] == "directory", "state: %v", state)
	must(t, os.Chmod(filepath.Join(plug, "a/b"), 0o700))
	r.Stale(t, "change-mode")
	r.Apply(t)
	must(t, os.Remove(filepath.Join(plug, "a/b")))
	write(t, filepath.Join(plug, "a/b"), "x", 0o644)
	r.Stale(t, "replace-with-directory")
	r.Apply(t)

	write(t, filepath.Join(plug, "a/b/precious"), "x", 0o644)
	r.Gone().Stale(t, "remove-directory")
	r.Gone().Fails(t, "directory a/b is not empty", "remove-directory")
	r.With(object{"path": "a/b", "content": "x"}).Fails(t, "directory a/b is not empty", "replace-with-file")
	must(t, os.Remove(filepath.Join(plug, "a/b/precious")))
	r.Gone().Apply(t)
	r.Gone().Valid(t)
}

func TestRemoveFile(t *testing.T) {
	r, plug := resource(t, object{"path": "motd", "content": "x"})
	r.Gone().Valid(t)
	r.Apply(t)
	r.Gone().Stale(t, "remove-file")
	r.Gone().Apply(t)
	_, err := os.Lstat(filepath.Join(plug, "motd"))
	assert.True(t, os.IsNotExist(err), "the file is still there: %v", err)
}

func TestNothingIsBelowAFile(t *testing.T) {
	r, plug := resource(t, object{"path": "a/b", "content": "x"})
	write(t, filepath.Join(plug, "a"), "", 0o600)
	r.Gone().Valid(t)
}

func TestEscapesAreRefused(t *testing.T) {
	for _, path := range []string{"../outside", "/etc/passwd", "a/../../outside", ".", "", "a/../.."} {
		r, _ := resource(t, object{"path": path, "content": "x"})
		r.Fails(t, "must be relative to the plug and stay below it", "state")
		r.Fails(t, "must be relative to the plug and stay below it", "create-file")
	}
	for name, link := range map[string]string{"absolute": "/outside", "relative": "../outside"} {
		t.Run(name+" link", func(t *testing.T) {
			outside := t.TempDir()
			if link == "/outside" {
				link = outside
			}
			r, plug := resource(t, object{"path": "link/file", "content": "x"})
			must(t, os.Symlink(link, filepath.Join(plug, "link")))
			r.Fails(t, "escapes", "create-file")
			r.Gone().Fails(t, "escapes", "remove-file")
			entries, err := os.ReadDir(outside)
			assert.True(t, err == nil && len(entries) == 0, "outside: %v, %v", entries, err)
		})
	}
}

func TestBadConfiguration(t *testing.T) {
	for want, config := range map[string]object{
		`either "content" or "directory: true"`:  {"path": "a"},
		`(content: "" makes an empty file)`:      {"path": "a", "content": "x", "directory": true},
		`mode "0999" must be octal digits`:       {"path": "a", "content": "x", "mode": "0999"},
		`mode "07777777" must be octal digits`:   {"path": "a", "content": "x", "mode": "07777777"},
		`json: unknown field "contents"`:         {"path": "a", "contents": "x"},
		`cannot unmarshal number into Go struct`: {"path": "a", "content": 1},
	} {
		r, _ := resource(t, config)
		r.Fails(t, want, "state")
	}
}

func TestMissingPlug(t *testing.T) {
	r := typetest.Resource{Type: newType("/does/not/exist"), Config: object{"path": "a", "content": "x"}}
	r.Fails(t, "opening the plug root", "state")
}

func TestApplyConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plug, err := os.MkdirTemp(t.TempDir(), "plug")
		must(t, err)
		content := rapid.String().Draw(rt, "content")
		mode := rapid.SampledFrom([]string{"0600", "644", "0755", "4711"}).Draw(rt, "mode")
		r := typetest.Resource{Type: newType(plug), Name: "f", Config: object{"path": "d/f", "content": content, "mode": mode}}
		if rapid.Bool().Draw(rt, "exists") {
			must(t, os.Mkdir(filepath.Join(plug, "d"), 0o700))
			write(t, filepath.Join(plug, "d/f"), rapid.String().Draw(rt, "before"), fs.FileMode(rapid.IntRange(0o400, 0o777).Draw(rt, "mode before")))
		}
		r.Apply(t)
		got, err := os.ReadFile(filepath.Join(plug, "d/f"))
		require.True(rt, err == nil && string(got) == content, "got %q, %v; want %q", got, err, content)
	})
}

func TestServedFiles(t *testing.T) {
	first, _ := resource(t, object{"path": "a/b/0", "content": "0"})
	files := []typetest.Resource{first}
	for _, config := range []object{
		{"path": "a/b/1", "content": "one", "mode": "0600"}, {"path": "a/b/2", "content": "two"}, {"path": "a/c/3", "content": ""},
		{"path": "a/c/4", "content": "four", "mode": "4755"}, {"path": "5", "content": strings.Repeat("5", 1<<17)},
		{"path": "d", "directory": true}, {"path": "e/f", "directory": true, "mode": "0700"}, {"path": "../out", "content": ""},
	} {
		files = append(files, first.With(config))
	}
	process := typetest.Served(t, first.Type)
	typetest.SameAnswers(t, process, files, "state")
	typetest.LivesServed(t, files[:len(files)-1]...)
}

// Before a content is known a plan shows what is to be made, and what else differs.
func TestAContentThatIsNotKnownYet(t *testing.T) {
	unknown := object{"$unknown": true}
	r, plug := resource(t, object{"path": "motd", "content": unknown, "mode": "0640"})
	out := r.Stale(t, "create-file")
	for name, want := range map[string]any{"path": "motd", "mode": "0640", "size": protocol.Unknown{}, "sha256": protocol.Unknown{}} {
		got := out.PlannedState[name]
		assert.True(t, got == want, "its %s will be %v, want %v", name, got, want)
	}
	write(t, filepath.Join(plug, "motd"), "whatever", 0o640)
	r.Valid(t)
	write(t, filepath.Join(plug, "motd"), "whatever", 0o600)
	r.Stale(t, "change-mode")
	r, _ = resource(t, object{"path": unknown, "content": "x"})
	r.Fails(t, "its path is not known yet", "state")
	r, _ = resource(t, object{"path": "motd", "content": unknown})
	r.Fails(t, "an action needs all of it", "create-file")
}

func TestFilesKeepToTheProtocol(t *testing.T) {
	plug := t.TempDir()
	protocoltest.Check(t, newType(plug), object{"path": "a", "content": "hello", "mode": "0640"}, object{"path": "b", "content": "hello"}, map[string]string{"root": plug})
}
