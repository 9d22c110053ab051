package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		if got, err := readMetadata(at, strings.ToUpper); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
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
