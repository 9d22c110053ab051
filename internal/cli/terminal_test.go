package cli_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// terminal runs deployster on a pseudo terminal and answers its questions.
func (s *site) terminal(answer string, args ...string) (screen string, code int) {
	s.Helper()
	return s.sized(&pty.Winsize{Rows: 24, Cols: 100}, answer, args...)
}

// sized is terminal of a size.
func (s *site) sized(size *pty.Winsize, answer string, args ...string) (screen string, code int) {
	s.Helper()
	return onTerminal(s.T, s.command(args...), size, "[y/N", func(int) string { return keys(answer) })
}

// keys are those that give an answer: an interrupt and the end of input need no return.
func keys(answer string) string {
	if answer == "\x03" || answer == "\x04" {
		return answer
	}
	return answer + "\n"
}

// answering runs deployster without colors and gives one answer after the other, the last one again
// and again.
func (s *site) answering(answers []string, args ...string) (screen string, code int) {
	s.Helper()
	cmd := s.command(args...)
	cmd.Env = append(cmd.Environ(), "NO_COLOR=1")
	return onTerminal(s.T, cmd, &pty.Winsize{Rows: 50, Cols: 80}, "[y/N", func(asked int) string {
		return keys(answers[min(asked, len(answers)-1)])
	})
}

// onTerminal runs a command on a pseudo terminal. It types something each time that words are
// shown, which it has counted.
func onTerminal(t *testing.T, cmd *exec.Cmd, size *pty.Winsize, words string, typed func(asked int) string) (screen string, code int) {
	t.Helper()
	cmd.Env = append(cmd.Environ(), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, size)
	require.NoError(t, err)
	defer func() { _ = tty.Close() }()
	var seen strings.Builder
	buffer := make([]byte, 4096)
	for asked := 0; ; {
		n, err := tty.Read(buffer)
		seen.Write(buffer[:n])
		for ; strings.Count(seen.String(), words) > asked; asked++ {
			_, err := tty.WriteString(typed(asked))
			require.NoError(t, err)
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	return seen.String(), cmd.ProcessState.ExitCode()
}

func TestAReaderThatGoesAwayDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, three)
	cmd := exec.Command(binary, "apply", "m.yaml", "--confirm", "NO", "--verbose")
	cmd.Dir = s.dir
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, errors.Join(cmd.Start(), pipe.Close()))
	_ = cmd.Wait() // it says that its output went nowhere
	s.wantWhole()
	if names := s.names(); names[len(names)-1] != "run-finished-successfully run/m.yaml" {
		t.Errorf("the log ends with %s", names[len(names)-1])
	}
}

func TestColourOnlyWhereItIsWanted(t *testing.T) {
	const colour = "\x1b[3"
	s := newSite(t, "  a: {type: SLOW, config: {value: one}}")
	if screen, _ := s.terminal("y", "apply", "m.yaml", "--confirm", "NO"); !strings.Contains(screen, colour) {
		t.Errorf("no colour on a terminal: %q", screen)
	}
	t.Setenv("NO_COLOR", "1")
	if screen, _ := s.terminal("y", "apply", "m.yaml", "--confirm", "NO"); strings.Contains(screen, colour) {
		t.Errorf("colour in spite of NO_COLOR: %q", screen)
	}
}
