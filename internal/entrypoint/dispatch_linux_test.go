package entrypoint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// run runs this test binary as the shell would, with argv[0] as it was typed.
func run(t *testing.T, file string, argv []string, env ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	command := exec.CommandContext(t.Context(), file)
	command.Args, command.Env, command.Stdout, command.Stderr = argv, append(os.Environ(), env...), &out, &errs
	_ = command.Run()
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestNoRoleIsTakenByAccident(t *testing.T) {
	named := filepath.Join(t.TempDir(), entrypoint.LauncherName)
	if err := os.Symlink(self(t), named); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file string
		argv []string
		env  []string
	}{
		"by the name of a launcher":               {self(t), []string{entrypoint.LauncherName, "program"}, nil},
		"by a file that is named like a launcher": {named, []string{named, "program"}, nil},
		"by a later argument":                     {self(t), []string{"deployster", "program", entrypoint.Word, "launch"}, nil},
		"by the environment":                      {self(t), []string{"deployster", "program"}, []string{entrypoint.Word + "=launch", "_=" + entrypoint.Word}},
	} {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := run(t, c.file, c.argv, c.env...); code != 42 || stderr != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q; want the program", code, stdout, stderr)
			}
		})
	}
}

func TestARoleThatIsAskedForByHandDoesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no role":         {nil, "for deployster itself"},
		"an unknown role": {[]string{"other"}, "no role other"},
		"a launcher":      {[]string{"launch", t.TempDir()}, "started by deployster itself"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, self(t), append([]string{"deployster", entrypoint.Word}, c.args...))
			if code != entrypoint.Failed || stdout != "" || !strings.Contains(stderr, c.says) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, entrypoint.Failed, c.says)
			}
		})
	}
}
