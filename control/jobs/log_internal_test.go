package jobs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/must"
)

func TestALogHasItsBeginningAndItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "log")
	rapid.Check(t, func(t *rapid.T) {
		l := must.Get(createLog(path))(t)
		l.half = int64(rapid.IntRange(1, 20).Draw(t, "half"))
		var all strings.Builder
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 30), 0, 10).Draw(t, "writes") {
			var p []byte
			for range n {
				p = append(p, byte('a'+(all.Len()+len(p))%26))
			}
			all.Write(p)
			require.Equal(t, len(p), must.Get(l.Write(p))(t))
			if text, _ := os.ReadFile(path); string(text) != all.String()[:min(all.Len(), 2*int(l.half))] {
				t.Fatalf("while it is written it is %q, of %q", text, all.String())
			}
		}
		along := must.Get(os.Open(path))(t)
		defer along.Close()
		require.NoError(t, l.close())
		want, half := all.String(), int(l.half)
		text, _ := io.ReadAll(along)
		require.Equal(t, want[:min(len(want), 2*half)], string(text), "who reads it along sees %q, of %q", text, want)
		if len(want) > 2*half {
			want = fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", want[:half], len(want)-2*half, want[len(want)-half:])
		}
		text, _ = os.ReadFile(path)
		require.Equal(t, want, string(text), "it is %q", text)
	})
}

func TestALogThatCannotBeWrittenIsNoReasonToStop(t *testing.T) {
	l := must.Get(createLog(filepath.Join(t.TempDir(), "log")))(t)
	l.file = must.Get(os.OpenFile("/dev/full", os.O_RDWR, 0))(t)
	for range 3 {
		assert.Equal(t, 4, must.Get(l.Write([]byte("text")))(t))
	}
	assert.ErrorContains(t, l.close(), "no space left")
}

// Thousands of jobs may print at once.
func TestALogTakesNoMemory(t *testing.T) {
	l := must.Get(createLog(filepath.Join(t.TempDir(), "log")))(t)
	text := make([]byte, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 40 {
		_, _ = l.Write(text)
	}
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	assert.True(t, took <= 1<<20, "40 MiB took %d bytes of memory", took)
	assert.NoError(t, l.close())
}

func TestTheLastLinesOfALog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	var many, last []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("line %d", i))
	}
	last = many[80:]
	for text, want := range map[string][]string{
		"":                             nil,
		"\n\n":                         nil,
		"a":                            {"a"},
		"a\r\nb\n":                     {"a", "b"},
		"\xff\x00":                     {"�\x00"},
		strings.Join(many, "\n"):       last,
		strings.Repeat("x", 1<<20):     {strings.Repeat("x", outputLine) + "…"},
		strings.Repeat("é", 1<<20)[1:]: {strings.Repeat("é", outputLine/2) + "…"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		if got := lastLines(path); !reflect.DeepEqual(got, want) && (len(text) != 1<<21-1 || len(got) != 1) {
			t.Errorf("%.40q has the last lines %.200q", text, got)
		}
	}
	for name, make := range map[string]func(string) error{
		"link": func(at string) error { return os.Symlink(path, at) },
		"fifo": func(at string) error { return syscall.Mkfifo(at, 0o600) },
		"dir":  func(at string) error { return os.Mkdir(at, 0o700) },
		"no":   func(string) error { return nil },
	} {
		at := filepath.Join(dir, name)
		require.NoError(t, make(at))
		assert.Nil(t, lastLines(at), "of a %s they", name)
	}
}

// What stands in the place of the middle is said by the file alone.
func TestWhatIsLeftOutOfALog(t *testing.T) {
	half := strings.Repeat("x", maxLog/2)
	for _, c := range []struct {
		file       string
		bytes, end int64
	}{
		{half + "\n[7 bytes are left out here]\n" + half, 7, maxLog/2 + 29},
		{half + "\n[7000000000 bytes are left out here]\n", 7000000000, maxLog/2 + 38},
		{half + "\n[-7 bytes are left out here]\n" + half, 0, 0},
		{half + "\n[0 bytes are left out here]\n" + half, 0, 0},
		{half + half, 0, 0},
		{half, 0, 0},
		{"", 0, 0},
	} {
		bytes, end, ok := LeftOut(strings.NewReader(c.file))
		if bytes != c.bytes || end != c.end || ok != (c.end > 0) {
			t.Errorf("%.40q: %d bytes, on at %d, %v", c.file[min(len(c.file), maxLog/2):], bytes, end, ok)
		}
	}
}

func TestHowFarAnAttemptHasComeIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), progressName)
	assert.Equal(t, progress{}, noted(path), "of no file")
	at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	steps := []progress{{Begun: &begun{At: at}}, {Ended: &end{Began: at, Ended: at.Add(time.Minute)}}, {Result: &build.Result{Finished: &record.Finished{Artifact: "sha256:1"}}}}
	for _, step := range steps {
		// A process has died, or the disk was full, in the midst of a line.
		f := must.Get(os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600))(t)
		must.Get(f.WriteString(`{"ended":{"began":"20`))(t)
		require.NoError(t, f.Close())
		require.NoError(t, note(path, step))
	}
	got := noted(path)
	assert.True(t, got.Begun != nil && got.Begun.At.Equal(at) && got.Ended != nil && got.Ended.took() == time.Minute &&
		got.Result != nil && got.Result.Finished.Artifact == "sha256:1", "it reads %+v", got)
	assert.Error(t, note(filepath.Join(t.TempDir(), "none", progressName), steps[0]), "it was noted in no directory")
}

func TestNoMoreIsLeftThanIsBeingRemoved(t *testing.T) {
	j := New(Options{Workspace: t.TempDir()})
	left := func() *attempt {
		a := &attempt{Jobs: j, dir: filepath.Join(t.TempDir(), "attempt")}
		require.NoError(t, os.MkdirAll(filepath.Join(a.dir, outName, "d"), 0o700))
		return a
	}
	there := func(a *attempt) bool { _, err := os.Lstat(a.dir); return err == nil }
	for range mostDiscarding {
		j.discarding <- struct{}{} // as while others are removed
	}
	a := left()
	a.discardBeside()
	assert.True(t, !there(a), "more is left than is being removed")
	for range mostDiscarding {
		<-j.discarding
	}
	b := left()
	b.discardBeside()
	j.Wait()
	assert.True(t, !there(b), "it is there though nothing is being removed")
}

func documents(t testing.TB, group string) (first, second []byte) {
	all := make([]recipe.Recipe, recipe.PerDocument+1)
	for i := range all {
		all[i] = recipe.Recipe{Image: recipe.Image{Image: "build:1"}, Args: []string{"-c", fmt.Sprintf("%s makes %d", group, i)}, Env: map[string]string{"A": "1"}}
	}
	texts := must.Get(recipe.Encode(all))(t)
	return texts[recipe.Name(0)], texts[recipe.Name(recipe.PerDocument)]
}

// Whichever document was read before, a job gets its own recipe, and no other than the document has.
func TestEachJobGetsItsRecipe(t *testing.T) {
	a, last := documents(t, "a")
	b, _ := documents(t, "b")
	texts := map[string][]byte{"a": a, "last": last, "b": b, "none": []byte("{")}
	reads := 0
	j := New(Options{Object: func(hash string) ([]byte, error) { reads++; return texts[hash], nil }})
	for _, c := range []struct {
		hash  string
		index int
		want  string // "" is an error
	}{
		{"a", 0, "a makes 0"},
		{"a", recipe.PerDocument - 1, fmt.Sprintf("a makes %d", recipe.PerDocument-1)},
		{"a", recipe.PerDocument, ""},
		{"a", -1, ""},
		{"last", recipe.PerDocument, fmt.Sprintf("a makes %d", recipe.PerDocument)},
		{"last", 0, ""},
		{"none", 0, ""},
		{"b", 7, "b makes 7"},
		{"none", 0, ""},
		{"a", 7, "a makes 7"},
	} {
		var got recipe.Recipe
		read, err := j.recipes(c.hash)
		if err == nil {
			got, err = recipe.Select(read.from, read.all, c.index)
		}
		assert.True(t, (err != nil) == (c.want == "") &&
			(err != nil || got.Args[1] == c.want), "recipe %d of %s is %v, %v, want %q", c.index, c.hash, got.Args, err, c.want)
	}
	if reads != 6 { // each time that it is another, or was no document
		t.Errorf("documents were read %d times", reads)
	}
}

func TestMetadata(t *testing.T) {
	many := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("k%d=v\n", i)
		}
		return text
	}
	for text, want := range map[string]string{
		"":                            "map[]",
		"\n\r\n":                      "map[]",
		"a=1":                         "map[a:1]",
		"a=1\r\nB_.-9=x=y z\n":        "map[B_.-9:x=y z a:1]",
		"a=\ttab":                     "map[a:\ttab]",
		"a=":                          "map[a:]",
		"a":                           "line 1 has no =",
		"a=1\n b=2":                   `line 2: " b" is no key`,
		"=1":                          `line 1: "" is no key`,
		"1a=1":                        `line 1: "1a" is no key`,
		strings.Repeat("a", 64) + "=": "map[" + strings.Repeat("a", 64) + ":]",
		strings.Repeat("a", 65) + "=": "is no key",
		"a=1\nb=2\na=1":               "line 3: the key a is there twice",
		"a=1\nb=\xff":                 "line 2 is not UTF-8",
		"a=\x1b[31m":                  "line 1: the value of a has control characters",
		"a=\x00":                      "control characters",
		many(100):                     "map[k0:v",
		many(101):                     "it has more than 100 keys",
		"a=" + strings.Repeat("x", maxMetadata-2): "map[a:xxx",
		"a=" + strings.Repeat("x", maxMetadata-1): "it has more than 65536 bytes",
	} {
		got, err := parseMetadata([]byte(text))
		said := fmt.Sprint(got)
		if err != nil {
			said = err.Error()
		}
		assert.Contains(t, said, want, "%.40q is %.100s, want %.100s", text, said, want)
	}
}

func TestMetadataThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("password=hunter2"), 0o600))
	for name, c := range map[string]struct {
		make func(string) error
		want string
	}{
		"link":      {func(at string) error { return os.Symlink(secret, at) }, "it is a link"},
		"pipe":      {func(at string) error { return syscall.Mkfifo(at, 0o600) }, "it is a FIFO, not a file"},
		"directory": {func(at string) error { return os.Mkdir(at, 0o700) }, "it is a directory, not a file"},
		"nothing":   {func(string) error { return nil }, "no such file"},
		"a gibibyte": {func(at string) error {
			f, err := os.Create(at)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(1 << 30)
		}, "it has more than 65536 bytes"},
	} {
		at := filepath.Join(dir, name)
		require.NoError(t, c.make(at))
		got, err := readMetadata(at, strings.ToUpper)
		assert.ErrorContains(t, err, c.want, "%s: %v", name, got)
	}
}

// Whatever a job writes, its metadata are within their bounds, and are what its lines say.
func FuzzMetadata(f *testing.F) {
	f.Add("a=1\nb=2")
	f.Add("a=1\r\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseMetadata([]byte(text))
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got), maxMetadataKeys, "%q is %q", text, got)
		require.True(t, utf8.ValidString(text), "%q is %q", text, got)
		again := map[string]string{}
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
			if key, value, found := strings.Cut(strings.TrimRight(line, "\r"), "="); found {
				again[key] = value
			}
		}
		require.Equal(t, again, got, "%q is %q, want %q", text, got, again)
	})
}
