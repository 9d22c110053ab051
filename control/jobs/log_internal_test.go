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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However it is written, a log has its beginning and its end, and says what is left out.
func TestALogHasItsBeginningAndItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "log")
	rapid.Check(t, func(t *rapid.T) {
		l, err := createLog(path)
		require.NoError(t, err)
		l.half = int64(rapid.IntRange(1, 20).Draw(t, "half"))
		var all strings.Builder
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 30), 0, 10).Draw(t, "writes") {
			var p []byte
			for range n {
				p = append(p, byte('a'+(all.Len()+len(p))%26))
			}
			all.Write(p)
			if n, err := l.Write(p); n != len(p) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			if text, _ := os.ReadFile(path); string(text) != all.String()[:min(all.Len(), 2*int(l.half))] {
				t.Fatalf("while it is written it is %q, of %q", text, all.String())
			}
		}
		along, err := os.Open(path)
		require.NoError(t, err)
		defer along.Close()
		require.NoError(t, l.close())
		want, half := all.String(), int(l.half)
		if text, _ := io.ReadAll(along); string(text) != want[:min(len(want), 2*half)] {
			t.Fatalf("who reads it along sees %q, of %q", text, want)
		}
		if len(want) > 2*half {
			want = fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", want[:half], len(want)-2*half, want[len(want)-half:])
		}
		if text, _ := os.ReadFile(path); string(text) != want {
			t.Fatalf("it is %q, want %q", text, want)
		}
	})
}

func TestALogThatCannotBeWrittenIsNoReasonToStop(t *testing.T) {
	l, err := createLog(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	l.file, err = os.OpenFile("/dev/full", os.O_RDWR, 0)
	require.NoError(t, err)
	for range 3 {
		if n, err := l.Write([]byte("text")); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	assert.ErrorContains(t, l.close(), "no space left")
}

// Thousands of jobs may print at once.
func TestALogTakesNoMemory(t *testing.T) {
	l, err := createLog(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	text := make([]byte, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 40 {
		_, _ = l.Write(text)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("40 MiB took %d bytes of memory", took)
	}
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
