package build

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
)

// On a terminal, too, what is left out is said on a line of its own, wherever the last line that
// was shown broke off.
func TestWhatIsLeftOutIsALineOfItsOwnOnATerminal(t *testing.T) {
	screen, tty, err := pty.Open()
	require.NoError(t, err)
	defer screen.Close()
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(screen) // it ends with an error when nobody has the terminal open
		shown <- string(text)
	}()
	const half, unfinished = jobs.MaxLog / 2, "unfinished"
	l := &jobLog{app: &app.App{Printer: &output.Printer{Out: tty, Getenv: func(string) string { return "xterm" }}}, rest: []byte(unfinished), shown: half + 10}
	path := filepath.Join(t.TempDir(), "log")
	end := strings.Repeat("x", half-5) + "\nend\n"
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a", half)+"\n[100 bytes are left out here]\n"+end), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	assert.NoError(t, l.shortened(localLog{f}))
	assert.NoError(t, tty.Close())
	if got, want := <-shown, unfinished+"\r\n[90 bytes are left out here]\r\n"; got != want {
		t.Errorf("the terminal shows %q, want %q", got, want)
	}
}
