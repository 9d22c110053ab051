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
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	typed := []string{"nothing +\n", "never evaluated\x03", "'hello ' ~ name\n", "\x04"}
	screen, code := onTerminal(t, cmd, &pty.Winsize{Rows: 50, Cols: 80}, "\n> ", func(prompted int) string {
		return typed[min(prompted, len(typed)-1)]
	})
	if code != 0 || !strings.Contains(screen, "error: column 10:") || !strings.Contains(screen, `"hello world"`) || strings.Contains(screen, "column 7") {
		t.Errorf("exit %d:\n%s", code, screen)
	}
}
