package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/ringtest"
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
			require.NoError(t, must.Fail(tty.WriteString(typed(asked))))
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
	require.NoError(t, must.Fail(log.Append(t.Context(), querytest.Large(40, 30)...)))
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

const steps = `
  a: {type: SLOW, config: {value: one, steps: 2}}
  b: {type: SLOW, dependencies: {a: a}, config: {value: "{{ a.state.value }}", steps: 2}}
`

const independent = `
  a: {type: SLOW, config: {value: one}}
  b: {type: SLOW, config: {value: two}}
  c: {type: SLOW, config: {value: three}}
`

// done is which things of the site there are.
func (s *site) done() (names string) {
	for _, name := range []string{"a", "b", "c"} {
		if _, err := os.Stat(s.thing(name)); err == nil {
			names += name
		}
	}
	return names
}

// Whoever is asked has seen all that is to be done. The last answer is given again and again.
func TestQuestions(t *testing.T) {
	t.Parallel()
	const (
		interrupt, eof = "\x03", "\x04"
		plan           = "Plan: 2 to change, 0 unchanged, 1 known after apply."
	)
	empty := func(resources string) func(t *testing.T) *site {
		return func(t *testing.T) *site { return newSite(t, resources) }
	}
	planned := func(resources string) func(t *testing.T) *site {
		return func(t *testing.T) *site {
			s := newSite(t, resources)
			s.deployster("plan", "m.yaml", "-o", "m.plan")
			return s
		}
	}
	one, two, many := empty(steps), empty(three), empty(independent)
	for name, tc := range map[string]struct {
		begin       func(t *testing.T) *site
		command     string
		answers     []string
		asked, code int
		done        string
		says        []string // in this order
	}{
		"y is for one action":                           {one, "apply m.yaml", []string{"y"}, 4, 0, "ab", []string{"[y/N/a/p/q/?]"}},
		"a is for all actions of the resource":          {one, "apply m.yaml", []string{"a"}, 2, 0, "ab", nil},
		"yes is for a resource":                         {one, "apply m.yaml --confirm RESOURCE", []string{"yes"}, 2, 0, "ab", []string{"[y/N/p/q/?]"}},
		"n declines":                                    {one, "apply m.yaml", []string{"a", "n"}, 2, 1, "a", []string{"declined"}},
		"p shows the plan again":                        {one, "apply m.yaml", []string{"p", "a"}, 3, 0, "ab", []string{"Plan: 1 to change", "Plan: 1 to change"}},
		"? lists the answers":                           {one, "apply m.yaml", []string{"?", "a"}, 3, 0, "ab", []string{"y  do it", "n  decline it", "a  do it, and all further actions of this resource", "p  show the plan again", "q  quit"}},
		"an unknown answer is asked again":              {one, "apply m.yaml", []string{"maybe", "a"}, 3, 0, "ab", []string{"Please answer [y/N/a/p/q/?]"}},
		"q quits":                                       {one, "apply m.yaml", []string{"a", "q"}, 2, 1, "a", []string{"declined, with all that was still to begin"}},
		"q quits the whole run":                         {many, "apply m.yaml --keep-going --parallelism 2", []string{"q"}, 1, 1, "", []string{"the run was quit at"}},
		"the whole plan can be shown again":             {one, "apply m.yaml --confirm ONCE", []string{"p", "y"}, 2, 0, "ab", []string{"Apply it? [y/N/p/q/?]"}},
		"the whole plan can be quit":                    {one, "apply m.yaml --confirm ONCE", []string{"q"}, 1, 1, "", []string{"nothing was changed"}},
		"--yes asks nothing":                            {one, "apply m.yaml --yes --confirm NO", nil, 0, 0, "ab", nil},
		"the plan is shown before an action":            {two, "apply m.yaml --confirm ACTION --parallelism 1", []string{"n"}, 1, 1, "", []string{plan, "[y/N"}},
		"the plan is shown before a resource":           {two, "apply m.yaml --confirm RESOURCE --parallelism 1", []string{"n"}, 1, 1, "", []string{plan, "[y/N"}},
		"the plan is shown once":                        {two, "apply m.yaml --confirm ONCE", []string{""}, 1, 1, "", []string{plan, "[y/N"}},
		"the end of input declines":                     {two, "apply m.yaml --confirm ONCE", []string{eof}, 1, 1, "", nil},
		"the end of input declines an action":           {two, "apply m.yaml --confirm ACTION --parallelism 1", []string{eof}, 1, 1, "", nil},
		"an interrupt ends the run":                     {two, "apply m.yaml --confirm ONCE", []string{interrupt}, 1, 130, "", nil},
		"an interrupt ends the run at an action":        {two, "apply m.yaml --confirm ACTION --parallelism 1", []string{interrupt}, 1, 130, "", nil},
		"nothing is asked if nothing is to change":      {wholeSite, "apply m.yaml", nil, 0, 0, "abc", nil},
		"a removal is asked by action":                  {wholeSite, "destroy m.yaml --confirm ACTION", []string{"y"}, 3, 0, "", []string{"Plan: 3 to remove, 0 gone already.", "[y/N"}},
		"a removal is asked by resource":                {wholeSite, "destroy m.yaml --confirm RESOURCE", []string{"yes"}, 3, 0, "", nil},
		"a removal is asked once":                       {wholeSite, "destroy m.yaml --confirm ONCE", []string{"y"}, 1, 0, "", nil},
		"a removal is declined":                         {wholeSite, "destroy m.yaml --confirm ONCE", []string{"n"}, 1, 1, "abc", nil},
		"a removal is declined by action":               {wholeSite, "destroy m.yaml --confirm ACTION --parallelism 1", []string{""}, 1, 1, "abc", nil},
		"a removal is interrupted":                      {wholeSite, "destroy m.yaml --confirm ONCE", []string{interrupt}, 1, 130, "abc", nil},
		"nothing is asked if nothing is left":           {many, "destroy m.yaml --confirm ONCE", nil, 0, 0, "", []string{"nothing to remove: 3 gone already"}},
		"what a saved plan tells is not asked":          {planned("  a: {type: SLOW, config: {value: one}}"), "apply m.plan --confirm ACTION", nil, 0, 0, "a", nil},
		"what a saved plan leaves open is asked":        {planned(three), "apply m.plan --confirm ACTION", []string{"y"}, 1, 0, "abc", nil},
		"what a saved plan leaves open can be declined": {planned(three), "apply m.plan --confirm RESOURCE --keep-going", []string{"n"}, 1, 1, "ac", nil},
		"a saved plan is asked once":                    {planned(three), "apply m.plan --confirm ONCE", []string{"y"}, 1, 0, "abc", nil},
		"a saved plan is declined":                      {planned(three), "apply m.plan --confirm ONCE", []string{"n"}, 1, 1, "", nil},
		"a saved plan is not asked":                     {planned(three), "apply m.plan --confirm NO", nil, 0, 0, "abc", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.begin(t)
			screen, code := s.answering(append(tc.answers, "")[:max(1, len(tc.answers))], strings.Fields(tc.command)...)
			assert.Equal(t, tc.code, code, "exit code of what is on the screen:\n%s", screen)
			assert.Equal(t, tc.asked, strings.Count(screen, "[y/N"), "questions on the screen:\n%s", screen)
			assert.Equal(t, tc.done, s.done(), "what there is")
			rest := screen
			for _, want := range tc.says {
				_, after, found := strings.Cut(rest, want)
				assert.True(t, found, "%q is not said:\n%s", want, screen)
				rest = after
			}
		})
	}
}

func TestValuesAreShownWholeWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("abcdefghij", 20)
	s := newSite(t, "  a: {type: SLOW, config: {value: "+long+"}}")
	for _, verb := range []string{"plan", "apply"} {
		cut, _ := s.answering([]string{"n"}, verb, "m.yaml")
		require.NotContains(t, cut, long)
		assert.Contains(t, cut, "--full shows them whole", "%s does not cut, or does not say so", verb)
		whole, _ := s.answering([]string{"n"}, verb, "m.yaml", "--full")
		require.Contains(t, whole, long)
		assert.NotContains(t, whole, "--full", "%s --full does not show the value", verb)
	}
	again, _ := s.answering([]string{"p", "n"}, "apply", "m.yaml")
	_, after, _ := strings.Cut(again, "[y/N")
	assert.Contains(t, after, long, "the plan that is shown again is cut:\n%s", again)
}

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

// wholeSite is a site on which three is there, as an apply makes it.
func wholeSite(t *testing.T) *site {
	s := newSite(t, three)
	for name, value := range map[string]string{"a": "one", "b": "one", "c": "three"} {
		require.NoError(t, os.WriteFile(s.thing(name), []byte(value), 0o600))
	}
	return s
}

// wantNothing checks that all things of the site are gone, and that its log is
// truthful.
func (s *site) wantNothing() {
	s.Helper()
	left, err := filepath.Glob(s.thing("?")) // but not what an action left that was killed
	assert.NoError(s, err)
	assert.Empty(s, left)
	s.wantTruth()
	for _, name := range []string{"a", "b", "c"} {
		e, ok, err := s.log.Latest(s.Context(), deploylog.Target("resource/"+name), deploylog.Succeeded)
		assert.True(s, err == nil && ok && e.Revision == "", "by the log, %s is deployed: %+v, %v", name, e, err)
	}
}

func TestKilledAtAnyPointTheNextDestroyEndsWithAllGone(t *testing.T) {
	t.Parallel()
	killedAtAnyPoint(t, func(t *testing.T) *site {
		s := wholeSite(t)
		s.docker = ringtest.All() // without it no removal outlives its run, and is ended with that
		return s
	}, "destroy", (*site).wantNothing)
}

func TestAnApplyAndADestroyAtOnceTakeTurns(t *testing.T) {
	t.Parallel()
	s := wholeSite(t)
	s.hold("b")
	destroy := s.start("destroy", "m.yaml", "--confirm", "NO")
	s.untilBusy("b")
	apply := s.start("apply", "m.yaml", "--confirm", "NO")
	apply.out.until(t, "waits for another run")
	s.release("b")
	s.wantEnd(destroy, 0)
	s.exit(apply) // it may have found what was still there, or not
	s.wantTruth()
}
