package entrypoint_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// The test binary is the gate, and the program behind it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "program":
			_, _ = fmt.Fprintf(os.Stdout, "%q %s\n", os.Args, os.Getenv("GATE_TEST"))
			_, _ = io.Copy(os.Stdout, os.Stdin)
			os.Exit(42)
		}
	}
	os.Exit(m.Run())
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// held starts a gate before the program argv.
func held(t *testing.T, argv ...string) (gated *exec.Cmd, stdin io.WriteCloser, stdout, stderr *bytes.Buffer) {
	t.Helper()
	return heldBy(t, entrypoint.Word, argv...)
}

func heldBy(t *testing.T, word string, argv ...string) (gated *exec.Cmd, stdin io.WriteCloser, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	gated = exec.CommandContext(t.Context(), self(t), append([]string{word}, argv...)...)
	gated.Stdout, gated.Stderr = stdout, stderr
	stdin, err := gated.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gated.Start(); err != nil {
		t.Fatal(err)
	}
	return gated, stdin, stdout, stderr
}

func TestTheProgramGetsEveryByte(t *testing.T) {
	gated, stdin, stdout, stderr := held(t, "mark", self(t), "program", "two words", "")
	sent := strings.Repeat("0123456789abcde\n", 1<<16)
	if _, err := io.WriteString(stdin, sent); err != nil {
		t.Fatal(err)
	}
	_ = stdin.Close()
	_ = gated.Wait()
	want := fmt.Sprintf("%q \n", []string{self(t), "program", "two words", ""}) + sent
	if gated.ProcessState.ExitCode() != 42 || stdout.String() != want || stderr.Len() > 0 {
		t.Errorf("%s; %d bytes, want %d; stderr %q", gated.ProcessState, stdout.Len(), len(want), stderr)
	}
}

func TestTheProgramIsFoundInPath(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(self(t)))
	t.Setenv("GATE_TEST", "passed on")
	name := filepath.Base(self(t))
	gated, stdin, stdout, stderr := held(t, "mark", name, "program")
	_, _ = io.WriteString(stdin, "x")
	_ = stdin.Close()
	_ = gated.Wait()
	if want := fmt.Sprintf("%q passed on\nx", []string{name, "program"}); stdout.String() != want {
		t.Errorf("stdout %q, want %q; stderr %q", stdout, want, stderr)
	}
}

func TestTheProgramDoesNotRun(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		argv  []string
		stdin string
		says  []string
	}{
		{"when stdin ends before anything came", []string{"mark", self(t), "program"}, "", []string{"mark", "stdin ended"}},
		{"when it is not there", []string{"mark", "/no/such/program"}, "x", []string{"markexec: ", "/no/such/program"}},
		{"when it is not in PATH", []string{"mark", "no-such-program"}, "x", []string{"markexec: ", "no-such-program", "$PATH"}},
		{"when it is a directory", []string{"mark", "/proc"}, "x", []string{"markexec: ", "/proc"}},
		{"when it is no program", []string{"mark", text}, "x", []string{"markexec: ", text, "exec format error"}},
		{"when there is none", []string{"mark"}, "x", []string{"wants"}},
		{"when there is not even a mark", nil, "x", []string{"wants"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gated, stdin, stdout, stderr := held(t, c.argv...)
			_, _ = io.WriteString(stdin, c.stdin)
			_ = stdin.Close()
			_ = gated.Wait()
			if gated.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 {
				t.Errorf("%s, stdout %q", gated.ProcessState, stdout)
			}
			for _, text := range c.says {
				if !strings.Contains(stderr.String(), text) {
					t.Errorf("stderr %q does not say %q", stderr, text)
				}
			}
		})
	}
}

func TestTheProgramGetsItsWholeInputOrDoesNotRun(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 64 << 10, 1 << 20} {
		sent := strings.Repeat("x", size)
		var framed bytes.Buffer
		if err := entrypoint.Frame(&framed, strings.NewReader(sent)); err != nil {
			t.Fatal(err)
		}
		for _, cut := range []int{0, 1, 4, 5, framed.Len() / 2, framed.Len() - 4, framed.Len() - 1, framed.Len()} {
			if cut > framed.Len() {
				continue
			}
			gated, stdin, stdout, stderr := heldBy(t, entrypoint.WholeWord, "1m", "mark", self(t), "program")
			_, _ = stdin.Write(framed.Bytes()[:cut])
			_ = stdin.Close()
			_ = gated.Wait()
			want, code := fmt.Sprintf("%q \n", []string{self(t), "program"})+sent, 42
			if cut < framed.Len() {
				want, code = "", entrypoint.Failed
			}
			if gated.ProcessState.ExitCode() != code || stdout.String() != want {
				t.Errorf("%d of %d bytes: %s, %d bytes of stdout, want %d; stderr %q", cut, framed.Len(), gated.ProcessState, stdout.Len(), len(want), stderr)
			}
			if cut < framed.Len() && !strings.HasPrefix(stderr.String(), "markread the input: ") {
				t.Errorf("%d of %d bytes: stderr %q", cut, framed.Len(), stderr)
			}
		}
	}
}

func TestWhatIsNotFramedIsRefused(t *testing.T) {
	gated, stdin, stdout, stderr := heldBy(t, entrypoint.WholeWord, "0s", "mark", self(t), "program")
	_, _ = io.WriteString(stdin, `{"name": "not framed"}`)
	_ = stdin.Close()
	_ = gated.Wait()
	if gated.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "none of ours") {
		t.Errorf("%s, stdout %q, stderr %q", gated.ProcessState, stdout, stderr)
	}
}

func TestTheGateGivesUpWhenNobodySends(t *testing.T) {
	gated, stdin, stdout, stderr := heldBy(t, entrypoint.WholeWord, "100ms", "mark", self(t), "program")
	defer func() { _ = stdin.Close() }()
	if err := entrypoint.Alive(stdin); err != nil {
		t.Fatal(err)
	}
	_ = gated.Wait()
	if gated.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "nothing came") {
		t.Errorf("%s, stdout %q, stderr %q", gated.ProcessState, stdout, stderr)
	}
}
