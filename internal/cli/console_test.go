package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// On a terminal a line that is wrong, or interrupted, is followed by the next one.
func TestAConsoleOnATerminalGoesOnUntilItsEnd(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary, "console", "--var", "name=world")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=1")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	typed := []string{"nothing +\n", "never evaluated\x03", "'hello ' ~ name\n", "\x04"}
	var seen strings.Builder
	buffer := make([]byte, 4096)
	for prompted := 0; ; {
		n, err := tty.Read(buffer)
		seen.Write(buffer[:n])
		for prompted < len(typed) && strings.Count(seen.String(), "\n> ") > prompted {
			if _, err := tty.WriteString(typed[prompted]); err != nil {
				t.Fatal(err)
			}
			prompted++
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	screen := seen.String()
	if code := cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(screen, "error: column 10:") || !strings.Contains(screen, `"hello world"`) || strings.Contains(screen, "column 7") {
		t.Errorf("exit %d:\n%s", code, screen)
	}
}
