package shipped

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// program is the static test program, built once.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "shipped-test")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, errors.New(string(text))
	}
	return os.ReadFile(out)
})

func put(t *testing.T, path string, content []byte) string {
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, os.Chmod(path, 0o700))
	return path
}

func static(t *testing.T) []byte {
	content := must.Get(program())(t)
	return content
}

// forArm64 is the same program with the header of another architecture.
func forArm64(t *testing.T) []byte {
	content := append([]byte(nil), static(t)...)
	content[18], content[19] = 183, 0
	return content
}

func dynamic(t *testing.T) []byte {
	content := must.Get(os.ReadFile("/bin/sh"))(t)
	return content
}

func TestWhichBinary(t *testing.T) {
	for name, tc := range map[string]struct {
		running []byte // nil: the test program
		goos    string
		beside  map[string][]byte
		arch    string
		want    string // base name of the binary
		err     string
	}{
		"the running program":      {goos: "linux", arch: "amd64", want: "deployster"},
		"running, but dynamic":     {running: dynamic(t), goos: "linux", beside: map[string][]byte{"deployster-linux-amd64": static(t)}, arch: "amd64", want: "deployster-linux-amd64"},
		"dynamic and alone":        {running: dynamic(t), goos: "linux", arch: "amd64", err: "this program is not a static binary"},
		"another architecture":     {goos: "linux", beside: map[string][]byte{"deployster-linux-arm64": forArm64(t)}, arch: "arm64", want: "deployster-linux-arm64"},
		"another, and alone":       {goos: "linux", arch: "arm64", err: "the engine runs linux/arm64 and this program is for linux/amd64"},
		"another operating system": {running: []byte("Mach-O"), goos: "darwin", beside: map[string][]byte{"deployster-linux-amd64": static(t)}, arch: "amd64", want: "deployster-linux-amd64"},
		"the wrong file":           {goos: "linux", beside: map[string][]byte{"deployster-linux-arm64": static(t)}, arch: "arm64", err: "is for EM_X86_64, not for arm64"},
		"not an executable":        {goos: "linux", beside: map[string][]byte{"deployster-linux-arm64": []byte("hello, this is text")}, arch: "arm64", err: "is not a Linux executable"},
		"a dynamic file":           {goos: "darwin", beside: map[string][]byte{"deployster-linux-amd64": dynamic(t)}, arch: "amd64", err: "is not static; build it with CGO_ENABLED=0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.running == nil {
				tc.running = static(t)
			}
			s := Source{Executable: put(t, filepath.Join(dir, "deployster"), tc.running), GOOS: tc.goos, GOARCH: "amd64"}
			for name, content := range tc.beside {
				put(t, filepath.Join(dir, name), content)
			}
			b, err := s.Binary(tc.arch)
			if tc.err == "" {
				assert.True(t, err == nil && filepath.Base(b.Path) == tc.want && b.Arch == tc.arch && len(b.SHA256) == 64, "got %+v, %v", b, err)
				return
			}
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.err), "got %v, want %s", err, tc.err)
			if missing := errors.Is(err, fs.ErrNotExist); missing != (len(tc.beside) == 0) {
				t.Errorf("missing is %v: %v", missing, err)
			} else if missing && !strings.Contains(err.Error(), filepath.Join(dir, "deployster-linux-"+tc.arch)) {
				t.Errorf("the file is not named: %v", err)
			}
		})
	}
}

func TestHashIsRememberedAndStillRight(t *testing.T) {
	dir := t.TempDir()
	s := Source{CacheDir: filepath.Join(dir, "cache")}
	path := put(t, filepath.Join(dir, "program"), []byte("one"))
	hash := func() string {
		b := must.Get(s.hashed(path, "amd64"))(t)
		return b.SHA256
	}
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	id, changed, err := identity(file)
	require.NoError(t, err)
	one := hash()
	entries, _ := os.ReadDir(s.CacheDir)
	assert.True(t, len(entries) == 0 || time.Since(changed) >= recently, "the hash of a file that changed just now was remembered")

	// As it would be some seconds later: what is remembered is used.
	mark := strings.Repeat("ab", 32)
	remember(s.remembered(path, id), mark)
	assert.Equal(t, mark, hash(), "what was remembered was not used")

	// The same size and the same time, but other content.
	info, err := os.Stat(path)
	require.NoError(t, err)
	put(t, path, []byte("two"))
	require.NoError(t, os.Chtimes(path, time.Now(), info.ModTime()))
	got := hash()
	assert.True(t, got != mark && got != one, "the hash of another content is %s", got)

	// What is damaged is not believed.
	if file, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if id, _, err = identity(file); err != nil {
		t.Fatal(err)
	}
	two := hash()
	put(t, s.remembered(path, id), []byte("garbage"))
	assert.Equal(t, two, hash(), "damaged")
}

// A place is the same by whichever links it is named, also before it is there.
func TestAPlaceIsWhereItsLinksLead(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	at := func(path string) string { return filepath.Join(root, path) }
	require.NoError(t, os.Mkdir(at("dir"), 0o700))
	for link, to := range map[string]string{
		"whole": at("dir"), "dangling": at("dir/none"), "relative": "dir/none", "dir/back": "../later", "second": "dangling", "below": at("whole/none"),
		"round": "round", "there": "back-again", "back-again": "there", "deeper": "deeper/x",
	} {
		require.NoError(t, os.Symlink(to, at(link)))
	}
	for path, want := range map[string]string{
		"dir": "dir", "whole": "dir", "whole/none": "dir/none", "dangling": "dir/none", "relative": "dir/none", "second": "dir/none", "below": "dir/none",
		"dangling/a/b": "dir/none/a/b", "dir/back": "later", "whole/back/x": "later/x", "none/../dir": "dir",
	} {
		assert.Equal(t, at(want), (Check{Here: true}).real(at(path)), path)
		got := (Check{}).real(at(path))
		assert.True(t, got == at(path), "elsewhere %s is %s", path, got)
	}
	for _, endless := range []string{"round", "there/x", "deeper"} {
		got := (Check{Here: true}).real(at(endless))
		assert.True(t, got != "", "%s is nowhere", endless)
	}
}
