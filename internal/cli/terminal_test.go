package cli_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// terminal runs deployster on a pseudo terminal and answers its questions.
func (s *site) terminal(answer string, args ...string) (screen string, code int) {
	return s.sized(&pty.Winsize{Rows: 24, Cols: 100}, answer, args...)
}

// sized is terminal of a size.
func (s *site) sized(size *pty.Winsize, answer string, args ...string) (screen string, code int) {
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
	cmd := s.command(args...)
	cmd.Env = append(cmd.Environ(), "NO_COLOR=1")
	return onTerminal(s.T, cmd, &pty.Winsize{Rows: 50, Cols: 80}, "[y/N", func(asked int) string {
		return keys(answers[min(asked, len(answers)-1)])
	})
}

// onTerminal runs a command on a pseudo terminal. It types something each time that words are
// shown, which it has counted.
func onTerminal(t *testing.T, cmd *exec.Cmd, size *pty.Winsize, words string, typed func(asked int) string) (screen string, code int) {
	cmd.Env = append(cmd.Environ(), "TERM=xterm-256color")
	tty := must.Get(pty.StartWithSize(cmd, size))(t)
	defer func() { _ = tty.Close() }()
	var seen strings.Builder
	buffer := make([]byte, 4096)
	for asked := 0; ; {
		n, err := tty.Read(buffer)
		seen.Write(buffer[:n])
		for ; strings.Count(seen.String(), words) > asked; asked++ {
			require.NoError(t, errOf(tty.WriteString(typed(asked))))
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
	pipe := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, errors.Join(cmd.Start(), pipe.Close()))
	_ = cmd.Wait() // it says that its output went nowhere
	s.wantWhole()
	names := s.names()
	assert.Equal(t, "run-finished-successfully run/m.yaml", names[len(names)-1], "the log ends")
}

func TestColourOnlyWhereItIsWanted(t *testing.T) {
	const colour = "\x1b[3"
	s := newSite(t, "  a: {type: SLOW, config: {value: one}}")
	screen, _ := s.terminal("y", "apply", "m.yaml", "--confirm", "NO")
	assert.Contains(t, screen, colour, "no colour on a terminal")
	t.Setenv("NO_COLOR", "1")
	screen, _ = s.terminal("y", "apply", "m.yaml", "--confirm", "NO")
	assert.NotContains(t, screen, colour, "colour in spite of NO_COLOR")
}

// On a terminal of 80 cells and 24 lines everything is at most that, also of a log of thousands
// of events; what is piped, and --all, is everything.
func TestEverythingFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, three)
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(s.dir, "large.db"), sqlite.Options{}))(t)
	require.NoError(t, errOf(log.Append(t.Context(), querytest.Large(40, 30)...)))
	require.NoError(t, log.Close())
	inventory := "hosts:\n"
	for i := range 60 {
		inventory += "  - {name: h" + strings.Repeat("0", i) + ", engine: oci, attributes: {stack: prod}}\n"
	}
	s.write("inventory.yaml", inventory)
	for _, tc := range []struct {
		command, want string
		all           int // lines of it with --all, at least
	}{
		{"log list", " earlier events: --all shows them, --last N so many", 10_000},
		{"log list --target environment/shop/prod", " earlier events: --all", 60},
		{"log list --target pipeline/gateway --event pipeline-defined", "pipeline-defined", 0},
		{"log list --since 2029-12-31 --event host-deployed --utc", "", 0},
		{"log latest pipeline/gateway", " earlier: --all", 25},
		{"log runs", "no runs", 0},
		{"host list", " more rows: --all shows them", 61},
		{"pipeline list", "gateway", 0},
		{"pipeline status", "gateway", 24},
		{"pipeline history gateway", " earlier rows: --all", 31},
		{"pipeline explain gateway", " more: --all", 24},
		{"pipeline explain host/gateway/wave17/wave17-h1", "", 0},
		{"pipeline explain stage/gateway/wave05", "", 0},
		{"pipeline show gateway r30", "\n    sha256:0a0a", 0},
		{"pipeline diff gateway r29 r30", "do not differ", 0},
		{"env list", "shop/prod", 0},
		{"env status", "shop/prod", 24},
		{"env show shop/prod", "\n#   the revision.\n", 0},
		{"env history shop/prod", " earlier rows: --all", 31},
		{"env revisions shop/prod", " earlier rows: --all", 31},
		{"env explain shop/prod", "web-h", 14},
	} {
		args := append([]string{"--log", "large.db"}, strings.Fields(tc.command)...)
		screen, code := s.sized(&pty.Winsize{Rows: 24, Cols: 80}, "", args...)
		screen = strings.TrimRight(strings.ReplaceAll(ansi.Strip(screen), "\r", ""), "\n") + "\n"
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		if code != 0 || len(lines) > 23 || !strings.Contains(screen, tc.want) {
			t.Errorf("%s exits with %d and takes %d lines:\n%s", tc.command, code, len(lines), screen)
		}
		for _, line := range lines {
			w := ansi.StringWidth(line)
			assert.LessOrEqual(t, w, 80, "%s: %d cells: %s", tc.command, w, line)
		}
		if tc.all == 0 {
			continue
		}
		if piped := s.deployster(args...); strings.Count(piped, "\n") < min(tc.all, 13) || strings.Contains(tc.want, "--all") && strings.Contains(piped, tc.want) {
			t.Errorf("piped, %s is\n%.2000s", tc.command, piped)
		}
		all, _ := s.sized(&pty.Winsize{Rows: 24, Cols: 80}, "", append(args, "--all")...)
		if n := strings.Count(all, "\n"); n < tc.all || strings.Contains(tc.want, "--all") && strings.Contains(all, tc.want) {
			t.Errorf("%s --all is %d lines, want %d:\n%.2000s", tc.command, n, tc.all, all)
		}
	}
}
