package app

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/must"
)

func TestFilesAreLeftForTheWork(t *testing.T) {
	for _, c := range []struct{ files, parallelism, serving, want int }{
		{1024, 10, 0, 760},
		{1024, 10, 20, 640},
		{1 << 20, 10, 0, 1<<20 - 264},
		{82, 10, 1, 41},
		{1, 1, 0, 1},
	} {
		assert.Equal(t, c.want, maxEntities(c.files, c.parallelism, c.serving), "with %d files, %d at once", c.files, c.parallelism)
	}
}

func TestAsManyProcessesServeAsThereIsRoomFor(t *testing.T) {
	const free = "MemTotal:       24683520 kB\nMemFree:        20000000 kB\nMemAvailable:   %s kB\nBuffers: 1 kB\n"
	for _, c := range []struct {
		files   int
		meminfo string
		want    int
	}{
		{1 << 20, strings.ReplaceAll(free, "%s", "9830400"), 100},
		{1 << 20, strings.ReplaceAll(free, "%s", "98304000"), 512},
		{1024, strings.ReplaceAll(free, "%s", "9830400"), 21},
		{82, strings.ReplaceAll(free, "%s", "9830400"), 1},
		{1 << 20, strings.ReplaceAll(free, "%s", "1000"), 0},
		{1 << 20, "MemTotal: 5 kB\n", 0},
		{1 << 20, "", 0},
	} {
		assert.Equal(t, c.want, maxServing(c.files, c.meminfo), "with %d files and\n%s", c.files, c.meminfo)
	}
}

func TestCommandsPrintValues(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		script     string
		want, says string
		within     time.Duration
	}{
		{script: "echo hush-hush; echo not this >&2", want: "hush-hush"},
		{script: "printf 'a\nb\r\n'", want: "a\nb"},
		{script: "true"},
		{script: "pwd", want: dir},
		{script: "cat", want: ""}, // nobody is asked
		{script: "sleep 1000 & echo done", want: "done"},
		{script: "echo part; echo no such entry >&2; exit 3", says: "running sh: exit status 3: no such entry"},
		{script: "yes", says: "running sh: it printed more than 1048576 bytes"},
		{script: "yes >&2; exit 1", says: "running sh: it did not end within 2s: y y y", within: 2 * time.Second},
		{script: "trap '' TERM; sleep 1000", says: "running sh: it did not end within 2s", within: 2 * time.Second},
	} {
		began := time.Now()
		got, err := run(dir, []string{"sh", "-c", c.script}, cmp.Or(c.within, time.Minute))
		switch {
		case c.says == "" && (err != nil || got != c.want):
			t.Errorf("%s: %.100q %v", c.script, got, err)
		case c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says) || len(err.Error()) > 3000):
			t.Errorf("%s: %.100q %.300v", c.script, got, err)
		}
		assert.LessOrEqual(t, time.Since(began), time.Minute, "%s took", c.script)
	}
	_, err := run(dir, []string{"no-such-program"}, time.Minute)
	assert.ErrorContains(t, err, "no-such-program")
}

func TestACommandIsRunOnce(t *testing.T) {
	dir := t.TempDir()
	var commands Commands
	for range 3 {
		got, err := commands.In(dir)([]string{"sh", "-c", "echo x >> ran; cat ran"})
		assert.True(t, err == nil && got == "x", "%q %v", got, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ran"))
	assert.Equal(t, "x\n", string(text), "%q %v", text, err)
}

// What different variables hold may print alike.
func TestAllThatVariablesHoldIsHiddenInReports(t *testing.T) {
	t.Chdir(t.TempDir())
	c := Crashes{Now: time.Now, About: func() string { return "test" }}
	for _, value := range []any{
		[]any{"pass", "word"}, []any{"pass word"},
		map[string]any{"k": "abcd", "q": "efgh"}, map[string]any{"k": "abcd q:efgh"},
	} {
		c.Hide(value)
	}
	c.Add(&crash.Error{Message: "boom pass and word, abcd and efgh", Place: "here"})
	reports, err := filepath.Glob(".deployster/crash-*.txt")
	require.True(t, err == nil && len(reports) == 1, "the reports are %q, %v", reports, err)
	text := must.Get(os.ReadFile(reports[0]))(t)
	want := "boom (hidden) and (hidden), (hidden) and (hidden)\n"
	assert.Contains(t, string(text), want, "it does not say %q:\n%s", want, text)
}

// asking is a program that asks a server, in an environment.
func asking(environment map[string]string) *App {
	a := &App{Printer: &output.Printer{Getenv: func(name string) string { return environment[name] }}}
	a.Global.Server = "https://deploy.example"
	return a
}

// A token is taken as it is in its file, or not at all: half of one would be refused by the server,
// which does not say why.
func TestATokenIsTakenAsAWhole(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"one of ours", "dpl_1_x\n", ""},
		{"one of an identity provider", strings.Repeat("x", 12_000) + "\n", ""},
		{"none", "", "has no token"},
		{"blank", " \n", "has no token"},
		{"something else", strings.Repeat("x", 17_000), "has more than 16384 bytes, which no token has"},
		{"two", "a\nb", "one token and nothing else"},
	} {
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
		token, err := asking(map[string]string{"DEPLOYSTER_TOKEN_FILE": file}).token()
		switch {
		case c.want == "" && (err != nil || token != strings.TrimSpace(c.content)):
			t.Errorf("%s: %d bytes are taken: %v", c.name, len(token), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v", c.name, err)
		}
	}
}

// Who names half of a certificate, or one that cannot be read, is not asked for a token instead.
func TestACertificateIsNamedWithItsKey(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("no certificate"), 0o600))
	for _, c := range []struct{ cert, key, want string }{
		{broken, "", "go together"},
		{"", broken, "go together"},
		{broken, broken, "which DEPLOYSTER_CLIENT_CERT and DEPLOYSTER_CLIENT_KEY name: tls: failed"},
		{broken, filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		_, err := asking(map[string]string{"DEPLOYSTER_CLIENT_CERT": c.cert, "DEPLOYSTER_CLIENT_KEY": c.key}).Remote()
		assert.ErrorContains(t, err, c.want, "%+v: the error", c)
	}
	_, err := asking(nil).Remote()
	assert.NoError(t, err)
}
