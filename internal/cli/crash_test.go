package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A panic must not end the program with 2, which says that there are changes.
func TestAPanicEndsWith70AndAReport(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for how, want := range map[string][]string{
		"main":      {"while: running the command", "panic: runtime error: index out of range [1] with length 1", "at: cli.Panicking", "command: deployster panic --var\n"},
		"resource":  {"while: applying db", "panic: no (hidden)", "at: cli.Panicking", "deployster: "},
		"variables": {"panic: boom (hidden) map[b:[(hidden) (hidden)]]\n"},
		"aside":     {"while: waiting", "panic: aside", "at: cli.Panicking"},
	} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"vars.auto.yaml": "a: hush", "more.yaml": "file: {b: [hush-hush-hush, 4711]}"})
			args := []string{"panic", how, "--var", "token=hush-hush"}
			if how == "variables" {
				args = append(args, "--var-file", "more.yaml", "--var", "short=hush")
			}
			cmd := exec.Command(self, args...)
			cmd.Dir = dir
			said, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 70 {
				t.Fatalf("%v\n%s", err, said)
			}
			reports, _ := filepath.Glob(filepath.Join(dir, ".deployster", "crash-*.txt"))
			if len(reports) != 1 {
				t.Fatalf("%d reports\n%s", len(reports), said)
			}
			if rel, _ := filepath.Rel(dir, reports[0]); !strings.Contains(string(said), rel) {
				t.Errorf("it does not say where the report is:\n%s", said)
			}
			if info, err := os.Stat(reports[0]); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v %v", info, err)
			}
			text, err := os.ReadFile(reports[0])
			require.NoError(t, err)
			for _, words := range append(want, "built with: go", "module: github.com/deployster-go/deployster", "goroutine ") {
				assert.Contains(t, string(text), words, "the report does not say %q:\n%s", words, text)
			}
			if strings.Contains(string(text), "hush") {
				t.Errorf("a value is in the report:\n%s", text)
			}
		})
	}
}

func TestAPanicThatNothingCatchesDoesNotEndWith2(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", `ulimit -c 0; "$0" panic unguarded; echo $?`, self)
	cmd.Dir = t.TempDir()
	if code, err := cmd.Output(); err != nil || string(code) != "134\n" {
		t.Errorf("it ended with %s (%v)", code, err)
	}
}
