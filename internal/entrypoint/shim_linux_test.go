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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
)

// The test binary is the shim, and the program behind it.
func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "program":
			_, _ = fmt.Fprintf(os.Stdout, "%q %s\n", os.Args, os.Getenv("SHIM_TEST"))
			_, _ = io.Copy(os.Stdout, os.Stdin)
			os.Exit(42)
		}
	}
	os.Exit(m.Run())
}

func self(t *testing.T) string {
	path := must.Get(os.Executable())(t)
	return path
}

// await starts a shim that awaits the first byte of input before argv: a mark, the
// program and its arguments.
func await(t *testing.T, argv ...string) (shim *exec.Cmd, stdin io.WriteCloser, stdout, stderr *bytes.Buffer) {
	return start(t, append([]string{entrypoint.Word, "await"}, argv...)...)
}

// awaitWhole starts a shim that awaits a whole input before the program argv.
func awaitWhole(t *testing.T, idle time.Duration, argv ...string) (shim *exec.Cmd, stdin io.WriteCloser, stdout, stderr *bytes.Buffer) {
	return start(t, append(entrypoint.AwaitWhole("mark", idle), argv...)...)
}

func start(t *testing.T, argv ...string) (shim *exec.Cmd, stdin io.WriteCloser, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	shim = exec.CommandContext(t.Context(), self(t), argv...)
	shim.Stdout, shim.Stderr = stdout, stderr
	stdin = must.Get(shim.StdinPipe())(t)
	require.NoError(t, shim.Start())
	return shim, stdin, stdout, stderr
}

func TestTheProgramGetsEveryByte(t *testing.T) {
	shim, stdin, stdout, stderr := await(t, "mark", self(t), "program", "two words", "")
	sent := strings.Repeat("0123456789abcde\n", 1<<16)
	must.Get(io.WriteString(stdin, sent))(t)
	_ = stdin.Close()
	_ = shim.Wait()
	want := fmt.Sprintf("%q \n", []string{self(t), "program", "two words", ""}) + sent
	if shim.ProcessState.ExitCode() != 42 || stdout.String() != want || stderr.Len() > 0 {
		t.Errorf("%s; %d bytes, want %d; stderr %q", shim.ProcessState, stdout.Len(), len(want), stderr)
	}
}

func TestTheProgramIsFoundInPath(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(self(t)))
	t.Setenv("SHIM_TEST", "passed on")
	name := filepath.Base(self(t))
	shim, stdin, stdout, stderr := await(t, "mark", name, "program")
	_, _ = io.WriteString(stdin, "x")
	_ = stdin.Close()
	_ = shim.Wait()
	want := fmt.Sprintf("%q passed on\nx", []string{name, "program"})
	assert.Equal(t, want, stdout.String(), "stdout %q, want %q; stderr %q", stdout, want, stderr)
}

func TestTheProgramDoesNotRun(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program\n"), 0o755))
	for _, c := range []struct {
		name  string
		argv  []string
		stdin string
		says  []string
	}{
		{"when stdin ends before any input", []string{"mark", self(t), "program"}, "", []string{"mark", "stdin ended"}},
		{"when it is not there", []string{"mark", "/no/such/program"}, "x", []string{"markexec: ", "/no/such/program"}},
		{"when it is not in PATH", []string{"mark", "no-such-program"}, "x", []string{"markexec: ", "no-such-program", "$PATH"}},
		{"when it is a directory", []string{"mark", "/proc"}, "x", []string{"markexec: ", "/proc"}},
		{"when it is no program", []string{"mark", text}, "x", []string{"markexec: ", text, "exec format error"}},
		{"when there is none", []string{"mark"}, "x", []string{"needs a mark"}},
		{"when there is not even a mark", nil, "x", []string{"needs a mark"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			shim, stdin, stdout, stderr := await(t, c.argv...)
			_, _ = io.WriteString(stdin, c.stdin)
			_ = stdin.Close()
			_ = shim.Wait()
			require.Equal(t, entrypoint.Failed, shim.ProcessState.ExitCode())
			assert.Zero(t, stdout.Len(), "%s, stdout %q", shim.ProcessState, stdout)
			for _, text := range c.says {
				assert.True(t, strings.Contains(stderr.String(), text), "stderr %q does not say %q", stderr, text)
			}
		})
	}
}

func TestTheProgramGetsItsWholeInputOrDoesNotRun(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 64 << 10, 1 << 20} {
		sent := strings.Repeat("x", size)
		var framed bytes.Buffer
		require.NoError(t, entrypoint.Send(&framed, strings.NewReader(sent), true, func() error { return nil }))
		for _, cut := range []int{0, 1, 4, 5, framed.Len() / 2, framed.Len() - 4, framed.Len() - 1, framed.Len()} {
			if cut > framed.Len() {
				continue
			}
			shim, stdin, stdout, stderr := awaitWhole(t, time.Minute, self(t), "program")
			_, _ = stdin.Write(framed.Bytes()[:cut])
			_ = stdin.Close()
			_ = shim.Wait()
			want, code := fmt.Sprintf("%q \n", []string{self(t), "program"})+sent, 42
			if cut < framed.Len() {
				want, code = "", entrypoint.Failed
			}
			if shim.ProcessState.ExitCode() != code || stdout.String() != want {
				t.Errorf("%d of %d bytes: %s, %d bytes of stdout, want %d; stderr %q", cut, framed.Len(), shim.ProcessState, stdout.Len(), len(want), stderr)
			}
			if cut < framed.Len() && !strings.HasPrefix(stderr.String(), "markread the input: ") {
				t.Errorf("%d of %d bytes: stderr %q", cut, framed.Len(), stderr)
			}
		}
	}
}

func TestWhatIsNotFramedIsRefused(t *testing.T) {
	shim, stdin, stdout, stderr := awaitWhole(t, 0, self(t), "program")
	_, _ = io.WriteString(stdin, `{"name": "not framed"}`)
	_ = stdin.Close()
	_ = shim.Wait()
	if shim.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "invalid frame") {
		t.Errorf("%s, stdout %q, stderr %q", shim.ProcessState, stdout, stderr)
	}
}

func TestTheShimGivesUpWhenNobodySends(t *testing.T) {
	shim, stdin, stdout, stderr := awaitWhole(t, 100*time.Millisecond, self(t), "program")
	defer func() { _ = stdin.Close() }()
	_ = entrypoint.KeepAlive(stdin) // it may have given up by now
	_ = shim.Wait()
	if shim.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "no input for") {
		t.Errorf("%s, stdout %q, stderr %q", shim.ProcessState, stdout, stderr)
	}
}
