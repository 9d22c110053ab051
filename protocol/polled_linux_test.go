package protocol

import (
	"bufio"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// What stdin of a container is: a pipe, whose reads block. A process that serves waits in
// none of them, and answers what comes in pieces and until its end.
func TestServingFromAPipeThatBlocks(t *testing.T) {
	var ends [2]int
	require.NoError(t, syscall.Pipe2(ends[:], syscall.O_CLOEXEC))
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
		must.Get(io.WriteString(requests, piece))(t)
		if !strings.HasSuffix(piece, "\n") {
			continue
		}
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), `"exit":0`)
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(ends[0]), syscall.F_GETFL, 0)
	assert.EqualValues(t, 0, errno)
	assert.NotEqualValues(t, 0, flags&syscall.O_NONBLOCK)
	require.NoError(t, requests.Close())
	assert.False(t, lines.Scan())
	assert.Equal(t, 0, <-served, "exit code")
}

// A file is read as it is, and one that is no pipe stays as others have it.
func TestPolledLeavesFilesAlone(t *testing.T) {
	file := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
	defer file.Close()
	assert.NotEqual(t, io.ReadCloser(file), polled(file), "it would be closed")
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_GETFL, 0)
	assert.EqualValues(t, 0, errno)
	assert.EqualValues(t, 0, flags&syscall.O_NONBLOCK)
}
