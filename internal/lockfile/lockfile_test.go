package lockfile_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/must"
)

var (
	one = "sha256:" + strings.Repeat("1", 64)
	two = "sha256:" + strings.Repeat("2", 64)
)

func example() lockfile.File {
	return lockfile.File{
		Images: map[string]lockfile.Image{
			"web":                        {ID: two},
			"registry.example:5000/db:1": {Digest: one},
			"tool:1":                     {Digest: two, For: []string{"registry.example:5000/db:1"}},
		},
		Modules: map[string]lockfile.Module{"git::https://git.example/x.git//web?ref=v1": {Commit: strings.Repeat("a", 40), Digest: one}},
	}
}

func TestWhatIsWrittenIsReadAndReviewed(t *testing.T) {
	dir := t.TempDir()
	f, err := lockfile.Read(dir)
	require.True(t, f == nil && err == nil, "without a file it is %v, %v", f, err)
	want := example()
	require.NoError(t, want.Write(dir))
	got, err := lockfile.Read(dir)
	assert.True(t, err == nil && reflect.DeepEqual(*got, want), "got %+v, %v", got, err)
	text := must.Get(os.ReadFile(filepath.Join(dir, lockfile.Name)))(t)
	if want := `version: 1
images:
  registry.example:5000/db:1:
    digest: ` + one + `
  tool:1:
    digest: ` + two + `
    for:
      - registry.example:5000/db:1
  web:
    id: ` + two + `
modules:
  git::https://git.example/x.git//web?ref=v1:
    commit: ` + strings.Repeat("a", 40) + `
    digest: ` + one + `
`; !strings.HasSuffix(string(text), "\n"+want) || !strings.HasPrefix(string(text), "# ") {
		t.Errorf("it is\n%s", text)
	}
}

// Others read it as they read the manifests, unless whoever has it said otherwise.
func TestALockFileKeepsItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockfile.Name)
	for _, want := range []os.FileMode{0o644, 0o640} {
		require.NoError(t, (lockfile.File{}).Write(filepath.Dir(path)))
		info, err := os.Stat(path)
		assert.True(t, err == nil && info.Mode().Perm() == want, "it has %v, %v, want %v", info.Mode(), err, want)
		require.NoError(t, os.Chmod(path, 0o640))
	}
}

func TestWhatIsWrongWithALockFileIsSaidWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                              `x.lock:1:1: the file is empty; "deployster lock" writes it`,
		"images: {}":                    "x.lock:1:1: the version of its form is missing: write version: 1",
		"version: 2":                    "x.lock:1:10: version: has the form 2, and this version of Deployster knows 1",
		"version: 1\nimage: {}":         `x.lock:2:1: unknown key "image", did you mean "images"?`,
		"version: 1\nimages: [a]":       "x.lock:2:9: images: must be a mapping of names of images, not a list",
		"version: 1\nimages:\n  a: b":   "x.lock:3:6: images.a: an image must be a mapping with digest, id, for, not text",
		"version: 1\nimages:\n  a: {}":  "x.lock:3:6: images.a: must have either digest, of an image that a registry has, or id",
		"version: 1\nmodules:\n  a: {}": "x.lock:3:6: modules.a: must have the digest of its files",
		"version: 1\nimages:\n  a: {digest: sha256:12}":                           `images.a.digest: must be a digest, sha256: and 64 hexadecimal digits, not "sha256:12"`,
		"version: 1\nimages:\n  a: {digest: " + one + ", id: " + two + "}":        "must have either",
		"version: 1\nmodules:\n  a: {digest: " + one + ", commit: --upload-pack}": "must be a commit",
		"version: 1\nimages:\n  a: {id: *x}":                                      "x.lock:3:",
		"version: 1\nimages:\n  a: {id: " + one + "}\n  a: {id: " + two + "}":     "x.lock:4:3",
		"version: 1\nimages:\n  \"a\\e[2J\": {id: " + one + "}":                   "has a name with a character that cannot be printed",
		"version: 1\nmodules:\n  \"\": {digest: " + one + "}":                     "has an empty name",
		"version: 1\n<<<<<<< ours":                                                "x.lock:2:",
	} {
		f, err := lockfile.Parse("x.lock", []byte(text))
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q is %+v, %v; want %q", text, f, err, want)
	}
}

func TestALockFileIsARegularOne(t *testing.T) {
	for name, arrange := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"2 MB":        func(path string) error { return os.WriteFile(path, make([]byte, 2<<20), 0o600) },
	} {
		dir := t.TempDir()
		require.NoError(t, arrange(filepath.Join(dir, lockfile.Name)))
		f, err := lockfile.Read(dir)
		assert.True(t, err != nil && strings.Contains(err.Error(), filepath.Join(dir, lockfile.Name)), "%s is %v, %v", name, f, err)
	}
}

func FuzzLockFile(f *testing.F) {
	text := must.Get(example().Encode())(f)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := lockfile.Parse("x.lock", text)
		if err != nil {
			return
		}
		again := must.Get(read.Encode())(t)
		same, err := lockfile.Parse("x.lock", again)
		assert.True(t, err == nil && reflect.DeepEqual(same, read), "%q is read as %+v, written as %q and read as %+v, %v", text, read, again, same, err)
	})
}
