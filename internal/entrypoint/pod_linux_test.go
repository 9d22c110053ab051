package entrypoint_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// said is what a shim in a Pod says.
type said struct {
	answers        int
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
	take := func(kind entrypoint.Kind, content []byte) error {
		switch kind {
		case entrypoint.Attached:
			heard.answers++
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
			pod := entrypoint.Pod{Idle: time.Minute, Whole: c.whole}
			heard := talk(t, append(pod.Arguments(), self(t), "program"), calls, false, c.input)
			want := fmt.Sprintf("%q \n", []string{self(t), "program"}) + sent
			if heard.code != 42 || heard.ended != 42 || heard.answers != calls || heard.stdout != want || heard.stderr != "" {
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
	cut := func(to io.Writer) { _, _ = to.Write([]byte{0, 0, 0, 9, 'c', 'u', 't'}) }
	for name, c := range map[string]struct {
		pod   entrypoint.Pod
		argv  []string
		calls int
		dies  bool
		input func(io.Writer)
		says  string
	}{
		"no such program":            {entrypoint.Pod{}, []string{"/no/such/program"}, 1, false, framed(""), "/no/such/program"},
		"no program":                 {entrypoint.Pod{}, nil, 1, false, framed(""), "no program"},
		"no such user":               {entrypoint.Pod{User: "nobody-here"}, []string{"true"}, 1, false, framed(""), "nobody-here"},
		"an input that is cut short": {entrypoint.Pod{Whole: true}, []string{"touch", ran}, 1, true, cut, "unexpected EOF"},
		"a caller that dies":         {entrypoint.Pod{}, []string{"touch", ran}, 1, true, func(io.Writer) {}, "wait for the input"},
		"no caller":                  {entrypoint.Pod{}, []string{"touch", ran}, 0, true, func(io.Writer) {}, "wait for the caller"},
		"another caller":             {entrypoint.Pod{}, []string{"touch", ran}, 0, true, framed("x"), "something else"},
	} {
		c.pod.Idle = time.Minute
		heard := talk(t, append(c.pod.Arguments(), c.argv...), c.calls, c.dies, c.input)
		if heard.code != entrypoint.Failed || heard.ended != -1 || !strings.Contains(heard.refused, c.says) {
			t.Errorf("%s: %+v; want %q", name, heard, c.says)
		}
	}
	_, err := os.Stat(ran)
	assert.Error(t, err, "a program ran that was not to")
}

// However what a shim says is cut into pieces, it is taken apart into the same messages.
func TestMessagesArriveHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		var want, got []string
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			kind := rapid.SampledFrom([]byte("AOEF")).Draw(t, "kind")
			content := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "content")
			all = append(append(append(all, kind), 0, 0, 0, byte(len(content))), content...)
			want = append(want, string(kind)+string(content))
		}
		r := &entrypoint.Receiver{Take: func(kind entrypoint.Kind, content []byte) error {
			got = append(got, string(kind)+string(content))
			return nil
		}}
		for len(all) > 0 {
			n := rapid.IntRange(1, len(all)).Draw(t, "piece")
			written, err := r.Write(all[:n])
			require.True(t, err == nil && written == n, "wrote %d of %d: %v", written, n, err)
			all = all[n:]
		}
		require.True(t, slices.Equal(got, want), "took %q, want %q", got, want)
	})
}

func FuzzMessages(f *testing.F) {
	for _, text := range []string{"", "A\x00\x00\x00\x00", "X\x00\x00\x00\x04\x00\x00\x00\x07", "X\x00\x00\x00\x03abc", "O\xff\xff\xff\xff", "hello"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		taken := 0
		r := &entrypoint.Receiver{Take: func(kind entrypoint.Kind, content []byte) error {
			if taken += 5 + len(content); kind == entrypoint.Ended {
				_ = entrypoint.Code(content)
			}
			return nil
		}}
		_, _ = r.Write(text)
		assert.True(t, taken <= len(text), "%d bytes were taken of %d", taken, len(text))
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
