package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// terminal runs deployster on a pseudo terminal and answers its questions.
func (s *site) terminal(answer string, args ...string) (screen string, code int) {
	s.Helper()
	return s.sized(&pty.Winsize{Rows: 24, Cols: 100}, answer, args...)
}

// sized is terminal of a size.
func (s *site) sized(size *pty.Winsize, answer string, args ...string) (screen string, code int) {
	s.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, size)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	var seen bytes.Buffer
	buffer := make([]byte, 4096)
	questions := 0
	for {
		n, err := tty.Read(buffer)
		seen.Write(buffer[:n])
		for strings.Count(seen.String(), "[y/N") > questions {
			questions++
			typed := answer + "\n"
			if strings.HasPrefix(answer, "\x03") || strings.HasPrefix(answer, "\x04") {
				typed = answer // these keys need no return
			}
			if _, err := tty.WriteString(typed); err != nil {
				s.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	return seen.String(), cmd.ProcessState.ExitCode()
}

func TestQuestionsOnATerminal(t *testing.T) {
	for _, tc := range []struct {
		mode, answer string
		asked, code  int
		changed      bool
	}{
		{"ACTION", "y", 3, 0, true},
		{"RESOURCE", "yes", 3, 0, true},
		{"ONCE", "y", 1, 0, true},
		{"NO", "n", 0, 0, true},
		{"ONCE", "n", 1, 1, false},
		{"ACTION", "", 1, 1, false},
		{"ONCE", "\x04", 1, 1, false},   // the end of input
		{"ACTION", "\x04", 1, 1, false}, //
		{"ONCE", "\x03", 1, 130, false}, // an interrupt
		{"ACTION", "\x03", 1, 130, false},
	} {
		t.Run(tc.mode+" answered "+tc.answer, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, three)
			screen, code := s.terminal(tc.answer, "apply", "m.yaml", "--confirm", tc.mode, "--parallelism", "1")
			if code != tc.code {
				t.Errorf("exit %d, want %d", code, tc.code)
			}
			if asked := strings.Count(screen, "[y/N"); asked != tc.asked {
				t.Errorf("asked %d times, want %d:\n%s", asked, tc.asked, screen)
			}
			if _, err := os.Stat(s.thing("a")); (err == nil) != tc.changed {
				t.Errorf("changed: %v", err == nil)
			}
		})
	}
}

func TestAReaderThatGoesAwayDoesNotEndTheRun(t *testing.T) {
	s := newSite(t, three)
	cmd := exec.Command(binary, "apply", "m.yaml", "--confirm", "NO", "--verbose")
	cmd.Dir = s.dir
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cmd.Start(), pipe.Close()); err != nil {
		t.Fatal(err)
	}
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
