package entrypoint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// run runs this test binary as the shell would, with argv[0] as it was typed.
func run(t *testing.T, file string, argv []string, env ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	command := exec.CommandContext(t.Context(), file)
	command.Args, command.Env, command.Stdout, command.Stderr = argv, append(os.Environ(), env...), &out, &errs
	_ = command.Run()
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestNoRoleIsTakenByAccident(t *testing.T) {
	named := filepath.Join(t.TempDir(), entrypoint.LauncherName)
	require.NoError(t, os.Symlink(self(t), named))
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
			code, stdout, stderr := run(t, c.file, c.argv, c.env...)
			assert.True(t, code == 42 && stderr == "", "exit code %d, stdout %q, stderr %q; want the program", code, stdout, stderr)
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

// A signal, such as that of a terminal whose size changes, is no sign of life.
func TestTheShimGivesUpThoughSignalsCome(t *testing.T) {
	shim, stdin, stdout, stderr := awaitWhole(t, 500*time.Millisecond, self(t), "program")
	defer func() { _ = stdin.Close() }()
	_ = entrypoint.KeepAlive(stdin) // it may have given up by now
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = shim.Wait()
	}()
	signals, tooLong := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer signals.Stop()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-signals.C:
			_ = shim.Process.Signal(syscall.SIGWINCH) // it may have ended
		case <-tooLong:
			t.Error("it still waits")
			_ = shim.Process.Kill()
			tooLong = nil
		}
	}
	if shim.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "no input for") {
		t.Errorf("%s, stdout %q, stderr %q", shim.ProcessState, stdout, stderr)
	}
}
