package entrypoint_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
)

// said is what a shim in a Pod says.
type said struct {
	answers        int
	started        bool
	cut            string
	stdout, stderr string
	ended          int // -1 is nothing of that
	refused        string
	code           int // of the shim
}

// talk is a caller that calls so often, gives an input, and reads everything. One that dies
// closes the input before it has read how the program ended.
func talk(t *testing.T, argv []string, calls int, dies bool, input func(io.Writer)) (heard said) {
	heard.ended = -1
	shim, stdin, out, errs := start(t, argv...)
	for range calls {
		require.NoError(t, entrypoint.KeepAlive(stdin))
	}
	input(stdin)
	if !dies {
		_ = entrypoint.Done(stdin)
	}
	_ = stdin.Close()
	_ = shim.Wait()
	assert.True(t, errs.Len() <= 0, "the shim itself writes %q", errs)
	var next uint64
	take := func(kind entrypoint.Kind, number uint64, content []byte) error {
		assert.Equal(t, next, number, "number of a message %c", kind)
		if kind != entrypoint.Attached {
			next++
		}
		switch kind {
		case entrypoint.Attached:
			heard.answers++
		case entrypoint.Started:
			heard.started = true
		case entrypoint.Cut:
			heard.cut = string(content)
		case entrypoint.Stdout:
			heard.stdout += string(content)
		case entrypoint.Stderr:
			heard.stderr += string(content)
		case entrypoint.Ended:
			heard.ended = entrypoint.Code(content)
		case entrypoint.Refused:
			heard.refused = string(content)
		}
		return nil
	}
	_, err := (&entrypoint.Receiver{Take: take}).Write(out.Bytes())
	assert.NoError(t, err, "the shim says %.100q", out)
	heard.code = shim.ProcessState.ExitCode()
	return heard
}

func framed(text string) func(io.Writer) {
	return func(to io.Writer) {
		_ = entrypoint.Send(to, strings.NewReader(text), true, func() error { return nil })
	}
}

func TestTheShimOfAPodAnswersAndRunsItsProgram(t *testing.T) {
	sent := strings.Repeat("0123456789abcde\n", 1<<14)
	goesOn := func(to io.Writer) {
		_ = entrypoint.Begin(to)
		_ = entrypoint.KeepAlive(to)
		framed(sent)(to)
	}
	for name, c := range map[string]struct {
		whole bool
		input func(io.Writer)
	}{"with all of its input": {true, framed(sent)}, "with an input that goes on": {false, goesOn}} {
		for _, calls := range []int{1, 3} {
			answers := calls
			if !c.whole {
				answers++ // to the call while the program runs
			}
			pod := entrypoint.Pod{Idle: time.Minute, Whole: c.whole}
			heard := talk(t, append(pod.Arguments(), self(t), "program"), calls, false, c.input)
			want := fmt.Sprintf("%q \n", []string{self(t), "program"}) + sent
			if heard.code != 42 || heard.ended != 42 || heard.answers != answers || heard.stdout != want || heard.stderr != "" {
				t.Errorf("%s, after %d calls: code %d, ended %d, %d answers, %d bytes of stdout", name, calls, heard.code, heard.ended, heard.answers, len(heard.stdout))
			}
		}
	}
}

func TestBothOutputsAndDeathsArriveThroughTheShim(t *testing.T) {
	pod := entrypoint.Pod{Idle: time.Minute, Whole: true}
	heard := talk(t, append(pod.Arguments(), "sh", "-c", "echo out; echo err >&2; kill -KILL $$"), 1, false, framed(""))
	assert.True(t, heard.stdout == "out\n" && heard.stderr == "err\n" && heard.ended == 128+9 && heard.code == 128+9, "heard %+v", heard)
	// A caller that dies is the end of an input, and the program goes on to its own.
	pod.Whole = false
	heard = talk(t, append(pod.Arguments(), "sh", "-c", "cat; exit 3"), 1, true, func(to io.Writer) { _ = entrypoint.Begin(to) })
	assert.True(t, heard.code == 3, "after its caller died: %+v", heard)
}

func TestTheShimOfAPodSaysWhyThereIsNoProgram(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	half := func(to io.Writer) { _, _ = to.Write([]byte{0, 0, 0, 9, 'c', 'u', 't'}) }
	for name, c := range map[string]struct {
		pod   entrypoint.Pod
		argv  []string
		calls int
		dies  bool
		input func(io.Writer)
		says  string
		cut   bool // and another Pod may run the program
	}{
		"no such program":            {entrypoint.Pod{}, []string{"/no/such/program"}, 1, false, framed(""), "/no/such/program", false},
		"no program":                 {entrypoint.Pod{}, nil, 1, false, framed(""), "no program", false},
		"no such user":               {entrypoint.Pod{User: "nobody-here"}, []string{"true"}, 1, false, framed(""), "nobody-here", false},
		"an input that is cut short": {entrypoint.Pod{Whole: true}, []string{"touch", ran}, 1, true, half, "unexpected EOF", true},
		"a caller that dies":         {entrypoint.Pod{}, []string{"touch", ran}, 1, true, func(io.Writer) {}, "wait for the input", true},
		"no caller":                  {entrypoint.Pod{}, []string{"touch", ran}, 0, true, func(io.Writer) {}, "wait for the caller", true},
		"another caller":             {entrypoint.Pod{}, []string{"touch", ran}, 0, true, framed("x"), "something else", false},
	} {
		c.pod.Idle = time.Minute
		heard := talk(t, append(c.pod.Arguments(), c.argv...), c.calls, c.dies, c.input)
		said := heard.refused
		if c.cut {
			said = heard.cut
		}
		if heard.code != entrypoint.Failed || heard.ended != -1 || heard.started || !strings.Contains(said, c.says) {
			t.Errorf("%s: %+v; want %q", name, heard, c.says)
		}
	}
	_, err := os.Stat(ran)
	assert.Error(t, err, "a program ran that was not to")
}

// A caller whose connection breaks gets nothing more, and the program that has its input goes on.
func TestTheShimOfAPodWaitsForNoCallerForEver(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	pod := entrypoint.Pod{Idle: 50 * time.Millisecond, Whole: true}
	shim, stdin, stdout, _ := start(t, append(pod.Arguments(), "touch", done)...)
	defer func() { _ = stdin.Close() }() // a connection that stays, though nobody says anything
	require.NoError(t, entrypoint.KeepAlive(stdin))
	framed("all")(stdin)
	_ = shim.Wait()
	_, err := os.Stat(done)
	assert.True(t, err == nil && shim.ProcessState.ExitCode() == 0, "%s, %v: %q", shim.ProcessState, err, stdout)
}

// Whoever calls a program that is at work is answered.
func TestTheShimOfAPodAnswersWhileItsProgramRuns(t *testing.T) {
	pod := entrypoint.Pod{Idle: time.Minute}
	heard := talk(t, append(pod.Arguments(), "cat"), 1, false, func(to io.Writer) {
		_ = entrypoint.Begin(to)
		for range 3 {
			_ = entrypoint.KeepAlive(to)
		}
		framed("all")(to)
	})
	assert.True(t, heard.answers == 4 && heard.started && heard.stdout == "all" && heard.ended == 0, "heard %+v", heard)
}

// kept is what a container's runtime keeps of an output in its log: containerd drops a carriage return
// at the end of a line.
func kept(output string) string { return strings.ReplaceAll(output, "\r\n", "\n") }

// heardAll takes an output in pieces of the given sizes, the last of which repeats.
func heardAll(r *entrypoint.Receiver, output string, sizes ...int) error {
	for len(output) > 0 {
		n := min(max(sizes[0], 1), len(output))
		if _, err := r.Write([]byte(output[:n])); err != nil {
			return err
		}
		if output = output[n:]; len(sizes) > 1 {
			sizes = sizes[1:]
		}
	}
	return nil
}

// written is what a shim writes whose program writes the texts.
func written(t *testing.T, texts ...string) string {
	argv := append(entrypoint.Pod{Idle: time.Minute}.Arguments(), self(t), "say")
	for _, text := range texts {
		argv = append(argv, strconv.Quote(text))
	}
	shim, stdin, stdout, _ := start(t, argv...)
	require.NoError(t, entrypoint.KeepAlive(stdin))
	require.NoError(t, entrypoint.Begin(stdin))
	framed("")(stdin)
	require.NoError(t, entrypoint.Done(stdin))
	_ = shim.Wait()
	return stdout.String()
}

func TestMessagesArriveHoweverTheyAreCut(t *testing.T) {
	text := "a\r\nb\x10\r\x10.\x10d\r\n\x10A1 \n\n\x00\xff\r"
	output := written(t, text, "next\n", text)
	assert.NotContains(t, output, "\r", "a log drops it")
	rapid.Check(t, func(t *rapid.T) {
		var got string
		code := -1
		r := &entrypoint.Receiver{Take: func(kind entrypoint.Kind, _ uint64, content []byte) error {
			switch kind { //nolint:exhaustive // the others say nothing of the program
			case entrypoint.Stdout:
				got += string(content)
			case entrypoint.Ended:
				code = entrypoint.Code(content)
			}
			return nil
		}}
		sizes := rapid.SliceOfN(rapid.IntRange(1, len(output)), 1, 20).Draw(t, "pieces")
		require.NoError(t, heardAll(r, kept(output), sizes...))
		require.True(t, got == text+"next\n"+text && code == 0, "took %q and %d", got, code)
	})
}

// A log that was begun anew begins within a message, and its numbers say what is missing.
func TestMessagesAreFoundInWhatIsLeftOfALog(t *testing.T) {
	output := written(t, "first\nline\x10\n", "second")
	for at := range len(output) {
		var others string
		numbers := []uint64{}
		r := &entrypoint.Receiver{
			Take: func(_ entrypoint.Kind, number uint64, _ []byte) error {
				numbers = append(numbers, number)
				return nil
			},
			Other: func(text []byte) { others += string(text) },
		}
		require.NoError(t, heardAll(r, output[at:], 7))
		assert.True(t, slices.IsSorted(numbers), "from %d on: %v", at, numbers)
		whole := strings.Count(output[at:], "\x10.\n")
		// The content of a message may end with a line feed, and then its end begins a line.
		begins := at == 0 || output[at-1] == '\n' && output[at] == '\x10' && output[at+1] != '.'
		if !begins && whole > 0 {
			whole-- // the rest of one
		}
		if len(numbers) < whole {
			t.Errorf("from %d on: %d messages, want %d; others %q", at, len(numbers), whole, others)
		}
	}
	r := &entrypoint.Receiver{Take: func(entrypoint.Kind, uint64, []byte) error { return nil }}
	assert.Error(t, heardAll(r, output[1:], 7), "what is attached begins with a message")
}

func FuzzMessages(f *testing.F) {
	for _, text := range []string{"", "\x10A0 \x10.\n", "\x10X0 7\x10.\n", "\x10X0 abc\x10.", "\x10O", "\x10O0 a\x10r\n\x10d\x10.", "hello"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, other := range []func([]byte){nil, func([]byte) {}} {
			taken := 0
			r := &entrypoint.Receiver{Other: other, Take: func(kind entrypoint.Kind, _ uint64, content []byte) error {
				if taken += 5 + len(content); kind == entrypoint.Ended {
					_ = entrypoint.Code(content)
				}
				return nil
			}}
			_, _ = r.Write(text)
			assert.True(t, taken <= len(text), "%d bytes were taken of %d", taken, len(text))
		}
	})
}

// archive is a tar; files have the text "text", as far as they have one.
func archive(t *testing.T, headers ...tar.Header) string {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
		if h.Size > 0 {
			_, _ = io.WriteString(w, "text")
		}
	}
	_ = w.Close()
	return packed.String()
}

func preparing(t *testing.T) (dir string, p entrypoint.Prepare) {
	dir = t.TempDir()
	p = entrypoint.Prepare{Idle: time.Minute, Shim: filepath.Join(dir, "shim"), Files: filepath.Join(dir, "files")}
	require.NoError(t, os.Mkdir(p.Files, 0o700))
	return dir, p
}

func TestAPodIsPreparedWithTheShimAndFiles(t *testing.T) {
	dir, prepare := preparing(t)
	packed := archive(t,
		tar.Header{Name: "0/", Typeflag: tar.TypeDir, Mode: 0o555}, tar.Header{Name: "0/file", Typeflag: tar.TypeReg, Mode: 0o640, Size: 4},
		tar.Header{Name: "0/link", Typeflag: tar.TypeSymlink, Linkname: "file"}, tar.Header{Name: "1", Typeflag: tar.TypeReg, Mode: 0o600},
	)
	heard := talk(t, prepare.Arguments(), 1, false, framed(packed))
	require.True(t, heard.code == 0 && heard.answers == 1 && heard.refused == "", "heard %+v", heard)
	content, err := os.ReadFile(filepath.Join(prepare.Files, "0", "link"))
	assert.True(t, err == nil && string(content) == "text", "the file says %q (%v)", content, err)
	for file, mode := range map[string]os.FileMode{"files/0": os.ModeDir | 0o555, "files/0/file": 0o640, "files/1": 0o600, "shim": 0o755} {
		info, err := os.Stat(filepath.Join(dir, file))
		assert.True(t, err == nil && info.Mode() == mode, "%s is %v (%v), want %s", file, info, err, mode)
	}
	assert.NoError(t, os.Chmod(filepath.Join(prepare.Files, "0"), 0o700))
}

func TestFilesOfAPodStayWhereTheyAreToBe(t *testing.T) {
	file := tar.Header{Name: "f", Typeflag: tar.TypeReg}
	for name, headers := range map[string][]tar.Header{
		"a file above":           {{Name: "../evil", Typeflag: tar.TypeReg}},
		"an absolute path":       {{Name: "/tmp/deployster-evil", Typeflag: tar.TypeReg}},
		"a file through a link":  {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "l/evil", Typeflag: tar.TypeReg}},
		"a device":               {{Name: "d", Typeflag: tar.TypeBlock}},
		"a hard link to another": {{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"a file twice":           {file, file},
	} {
		dir, prepare := preparing(t)
		heard := talk(t, prepare.Arguments(), 1, false, framed(archive(t, headers...)))
		assert.True(t, heard.code == entrypoint.Failed && strings.Contains(heard.refused, "receive files"), "%s: heard %+v", name, heard)
		left, err := os.ReadDir(dir)
		assert.True(t, err == nil && len(left) == 2, "%s: left %v (%v)", name, left, err)
	}
	// An input that is cut short is no whole one, though its tar is.
	_, prepare := preparing(t)
	packed := archive(t, file)
	heard := talk(t, prepare.Arguments(), 1, true, func(to io.Writer) {
		_, _ = to.Write(append([]byte{0, 0, byte(len(packed) >> 8), byte(len(packed))}, packed...))
	})
	assert.True(t, heard.code == entrypoint.Failed, "heard %+v", heard)
}

func TestRolesOfPodsAreArgumentsAlone(t *testing.T) {
	pod := entrypoint.Pod{Idle: time.Second, User: "a\"b"}
	argv := pod.Arguments()
	var back entrypoint.Pod
	err := json.Unmarshal([]byte(argv[2]), &back)
	assert.True(t, err == nil && back == pod, "%q is %+v, %v", argv, back, err)
}

// The test binary is the shim, and the program behind it.
func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "program":
			_, _ = fmt.Fprintf(os.Stdout, "%q %s\n", os.Args, os.Getenv("SHIM_TEST"))
			_, _ = io.Copy(os.Stdout, os.Stdin)
			os.Exit(42)
		case "say":
			for _, quoted := range os.Args[2:] {
				text, _ := strconv.Unquote(quoted)
				_, _ = os.Stdout.WriteString(text)
			}
			os.Exit(0)
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
	if len(argv) > 0 {
		argv = append(entrypoint.Await(argv[0], entrypoint.Expected{}), argv[1:]...)
	} else {
		argv = []string{entrypoint.Word, "await"}
	}
	return start(t, argv...)
}

// awaitWhole starts a shim that awaits a whole input before the program argv.
func awaitWhole(t *testing.T, idle time.Duration, argv ...string) (shim *exec.Cmd, stdin io.WriteCloser, stdout, stderr *bytes.Buffer) {
	return start(t, append(entrypoint.AwaitWhole("mark", idle, entrypoint.Expected{}), argv...)...)
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

// run runs this test binary as the shell would, with argv[0] as it was typed.
func run(t *testing.T, file string, argv []string, env ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	command := exec.CommandContext(t.Context(), file)
	command.Args, command.Env, command.Stdout, command.Stderr = argv, append(os.Environ(), env...), &out, &errs
	_ = command.Run()
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestNoRoleIsTakenByAccident(t *testing.T) {
	named := filepath.Join(t.TempDir(), entrypoint.LauncherName)
	require.NoError(t, os.Symlink(self(t), named))
	for name, c := range map[string]struct {
		file string
		argv []string
		env  []string
	}{
		"by the name of a launcher":               {self(t), []string{entrypoint.LauncherName, "program"}, nil},
		"by a file that is named like a launcher": {named, []string{named, "program"}, nil},
		"by a later argument":                     {self(t), []string{"deployster", "program", entrypoint.Word, "launch"}, nil},
		"by the environment":                      {self(t), []string{"deployster", "program"}, []string{entrypoint.Word + "=launch", "_=" + entrypoint.Word}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.file, c.argv, c.env...)
			assert.True(t, code == 42 && stderr == "", "exit code %d, stdout %q, stderr %q; want the program", code, stdout, stderr)
		})
	}
}

func TestARoleThatIsAskedForByHandDoesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no role":         {nil, "for deployster itself"},
		"an unknown role": {[]string{"other"}, "no role other"},
		"a launcher":      {[]string{"launch", t.TempDir()}, "started by deployster itself"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, self(t), append([]string{"deployster", entrypoint.Word}, c.args...))
			if code != entrypoint.Failed || stdout != "" || !strings.Contains(stderr, c.says) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, entrypoint.Failed, c.says)
			}
		})
	}
}

// A signal, such as that of a terminal whose size changes, is no sign of life.
func TestTheShimGivesUpThoughSignalsCome(t *testing.T) {
	shim, stdin, stdout, stderr := awaitWhole(t, 500*time.Millisecond, self(t), "program")
	defer func() { _ = stdin.Close() }()
	_ = entrypoint.KeepAlive(stdin) // it may have given up by now
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = shim.Wait()
	}()
	signals, tooLong := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer signals.Stop()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-signals.C:
			_ = shim.Process.Signal(syscall.SIGWINCH) // it may have ended
		case <-tooLong:
			t.Error("it still waits")
			_ = shim.Process.Kill()
			tooLong = nil
		}
	}
	if shim.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "no input for") {
		t.Errorf("%s, stdout %q, stderr %q", shim.ProcessState, stdout, stderr)
	}
}
