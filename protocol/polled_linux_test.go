package protocol

import (
	"bufio"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// What stdin of a container is: a pipe, whose reads block. A process that serves waits in
// none of them, and answers what comes in pieces and until its end.
func TestServingFromAPipeThatBlocks(t *testing.T) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	stdin, requests := os.NewFile(uintptr(ends[0]), "stdin"), os.NewFile(uintptr(ends[1]), "requests")
	defer stdin.Close()
	defer requests.Close()
	answers, stdout := io.Pipe()
	served := make(chan int, 1)
	go func() {
		code := lamp(new(string)).Run(t.Context(), []string{"serve"}, stdin, stdout, io.Discard)
		_ = stdout.Close()
		served <- code
	}()
	lines := bufio.NewScanner(answers)
	for _, piece := range []string{`{"id":1,"in`, `put":{}}` + "\n", `{"id":2,"input":{}}` + "\n"} {
		if _, err := io.WriteString(requests, piece); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(piece, "\n") {
			continue
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), `"exit":0`) {
			t.Fatalf("answered %q (%v)", lines.Text(), lines.Err())
		}
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(ends[0]), syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_NONBLOCK == 0 {
		t.Errorf("a thread waits in its reads: flags %#x, %v", flags, errno)
	}
	if err := requests.Close(); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("answered %q to the end", lines.Text())
	}
	if code := <-served; code != 0 {
		t.Errorf("exit code %d at the end of stdin", code)
	}
}

// A file is read as it is, and one that is no pipe stays as others have it.
func TestPolledLeavesFilesAlone(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := polled(file); got == io.ReadCloser(file) {
		t.Error("it would be closed")
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v", flags, errno)
	}
}
