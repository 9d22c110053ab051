package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/runner/report"
)

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

// What a terminal has no room for is cut, and says how it is shown whole.
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

// A plan whose apply was killed can be applied again: what was done stays, what
// was not is still as it was planned.
func TestASavedPlanIsAppliedAgainAfterAKill(t *testing.T) {
	t.Parallel()
	s := newSite(t, three)
	s.deployster("plan", "m.yaml", "-o", "m.plan")
	s.hold("c")
	first := s.start("apply", "m.plan", "--confirm", "NO")
	s.untilBusy("c")
	s.until(2, named(report.ResourceFinished)) // a and b
	s.kill(first)
	s.release("c")

	s.deployster("apply", "m.plan", "--confirm", "NO")
	s.wantWhole()
}
