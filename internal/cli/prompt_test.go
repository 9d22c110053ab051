package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
)

const steps = `
  a: {type: SLOW, config: {value: one, steps: 2}}
  b: {type: SLOW, dependencies: {a: a}, config: {value: "{{ a.state.value }}", steps: 2}}
`

// answering runs deployster on a pseudo terminal and gives one answer after the
// other, the last one again and again.
func (s *site) answering(answers []string, args ...string) (screen string, code int) {
	s.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=1")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 80})
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	var seen strings.Builder
	buffer := make([]byte, 4096)
	for asked := 0; ; {
		n, err := tty.Read(buffer)
		seen.Write(buffer[:n])
		for strings.Count(seen.String(), "[y/N") > asked {
			if _, err := tty.WriteString(answers[min(asked, len(answers)-1)] + "\n"); err != nil {
				s.Fatal(err)
			}
			asked++
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	return seen.String(), cmd.ProcessState.ExitCode()
}

// Who is asked about an action has seen all that is to be done.
func TestThePlanIsShownBeforeTheFirstQuestion(t *testing.T) {
	for _, mode := range []string{"ACTION", "RESOURCE", "ONCE"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, three)
			screen, code := s.answering([]string{"n"}, "apply", "m.yaml", "--confirm", mode, "--parallelism", "1")
			before, _, asked := strings.Cut(screen, "[y/N")
			if code != 1 || !asked || !strings.Contains(before, "Plan: 2 to change, 0 unchanged, 1 known after apply.") {
				t.Errorf("exit %d, before the question was\n%s", code, before)
			}
		})
	}
	s := wholeSite(t)
	screen, code := s.answering([]string{"n"}, "destroy", "m.yaml")
	before, _, asked := strings.Cut(screen, "[y/N")
	if code != 1 || !asked || !strings.Contains(before, "Plan: 3 to remove, 0 gone already.") {
		t.Errorf("destroy: exit %d, before the question was\n%s", code, before)
	}
	screen, code = s.answering([]string{"n"}, "apply", "m.yaml")
	if code != 0 || strings.Contains(screen, "[y/N") || strings.Contains(screen, "Plan:") {
		t.Errorf("nothing is to be done: exit %d\n%s", code, screen)
	}
}

func TestAnswersToQuestions(t *testing.T) {
	for _, tc := range []struct {
		name        string
		answers     []string
		flags       []string
		asked, code int
		done        string
		says        []string
	}{
		{"y is for one action", []string{"y"}, nil, 4, 0, "ab", []string{"[y/N/a/p/q/?]"}},
		{"a is for all actions of the resource", []string{"a"}, nil, 2, 0, "ab", nil},
		{"a is for whole resources, too, where they are asked for", []string{"y"}, []string{"--confirm", "RESOURCE"}, 2, 0, "ab", []string{"[y/N/p/q/?]"}},
		{"n declines", []string{"a", "n"}, nil, 2, 1, "a", []string{"declined"}},
		{"p shows the plan again", []string{"p", "a"}, nil, 3, 0, "ab", []string{"Plan: 1 to change", "Plan: 1 to change"}},
		{"? lists the answers", []string{"?", "a"}, nil, 3, 0, "ab", []string{"y  do it", "n  decline it", "a  do it, and all further actions of this resource", "p  show the plan again", "q  quit"}},
		{"what is no answer is asked again", []string{"maybe", "a"}, nil, 3, 0, "ab", []string{"Please answer [y/N/a/p/q/?]"}},
		{"q quits", []string{"a", "q"}, nil, 2, 1, "a", []string{"declined, with all that was still to begin"}},
		{"the whole plan can be shown again", []string{"p", "y"}, []string{"--confirm", "ONCE"}, 2, 0, "ab", []string{"Apply it? [y/N/p/q/?]"}},
		{"the whole plan can be quit", []string{"q"}, []string{"--confirm", "ONCE"}, 1, 1, "", []string{"nothing was changed"}},
		{"yes is no question", nil, []string{"--yes"}, 0, 0, "ab", nil},
		{"yes and NO are the same", nil, []string{"--yes", "--confirm", "NO"}, 0, 0, "ab", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, steps)
			screen, code := s.answering(tc.answers, append([]string{"apply", "m.yaml"}, tc.flags...)...)
			if asked := strings.Count(screen, "[y/N"); code != tc.code || asked != tc.asked {
				t.Errorf("exit %d, want %d; asked %d times, want %d\n%s", code, tc.code, asked, tc.asked, screen)
			}
			done := ""
			for _, name := range []string{"a", "b"} {
				if _, err := os.Stat(s.thing(name)); err == nil {
					done += name
				}
			}
			if done != tc.done {
				t.Errorf("done is %q, want %q", done, tc.done)
			}
			rest := screen
			for _, want := range tc.says {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q is not said:\n%s", want, screen)
				}
				rest = after
			}
		})
	}
}

// Whoever quits is asked nothing more, and nothing more begins, also where a
// failure would not have stopped the others.
func TestQuittingEndsAllQuestions(t *testing.T) {
	s := newSite(t, "\n  a: {type: SLOW, config: {value: one}}\n  b: {type: SLOW, config: {value: two}}\n  c: {type: SLOW, config: {value: three}}\n")
	screen, code := s.answering([]string{"q"}, "apply", "m.yaml", "--keep-going", "--parallelism", "2")
	if asked := strings.Count(screen, "[y/N"); code != 1 || asked != 1 {
		t.Errorf("exit %d, asked %d times\n%s", code, asked, screen)
	}
	if !strings.Contains(screen, "the run was quit at") {
		t.Errorf("it does not say why the rest was skipped:\n%s", screen)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := os.Stat(s.thing(name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

// What a terminal has no room for is cut, and says how it is shown whole.
func TestValuesAreShownWholeWhereThatIsAskedFor(t *testing.T) {
	long := strings.Repeat("abcdefghij", 20)
	s := newSite(t, "  a: {type: SLOW, config: {value: "+long+"}}")
	for _, verb := range []string{"plan", "apply"} {
		cut, _ := s.answering([]string{"n"}, verb, "m.yaml")
		if strings.Contains(cut, long) || !strings.Contains(cut, "--full shows them whole") {
			t.Errorf("%s does not cut, or does not say so:\n%s", verb, cut)
		}
		whole, _ := s.answering([]string{"n"}, verb, "m.yaml", "--full")
		if !strings.Contains(whole, long) || strings.Contains(whole, "--full") {
			t.Errorf("%s --full does not show the value:\n%s", verb, whole)
		}
	}
	again, _ := s.answering([]string{"p", "n"}, "apply", "m.yaml")
	if _, after, _ := strings.Cut(again, "[y/N"); !strings.Contains(after, long) {
		t.Errorf("the plan that is shown again is cut:\n%s", again)
	}
}
