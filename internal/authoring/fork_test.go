package authoring

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/deployster-go/deployster/engine"
)

// forks returns the socket of testdata/fork.py, one process from which all runs of types in Python
// are forked. To start Python for each of the thousands of runs took most of the time of the tests.
// The process ends when the tests do, which closes the socket.
var forks = sync.OnceValues(func() (int, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	requests := os.NewFile(uintptr(pair[1]), "requests")
	defer requests.Close()
	cmd := exec.Command(interpreter(), append(python()[1:], "testdata/fork.py")...)
	cmd.Stdin, cmd.Stderr = requests, os.Stderr
	return pair[0], cmd.Start()
})

// fork does what execute does with a script in Python, in a process that is forked from forks.
func fork(ctx context.Context, words []string, dir string, env []string, streams engine.IO) (syscall.WaitStatus, error) {
	requests, err := forks()
	if err != nil {
		return 0, fmt.Errorf("starting testdata/fork.py: %w", err)
	}
	environment := map[string]string{}
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		environment[name] = value
	}
	request, err := json.Marshal([]any{words[len(python()):], dir, environment})
	if err != nil {
		return 0, err
	}
	var ours, theirs [4]*os.File // stdin, stdout, stderr and the answer
	var passed []int
	for i := range ours {
		reads, writes, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		ours[i], theirs[i] = reads, writes
		if i == 0 {
			ours[i], theirs[i] = writes, reads
		}
		defer ours[i].Close()
		passed = append(passed, int(theirs[i].Fd()))
	}
	err = syscall.Sendmsg(requests, request, syscall.UnixRights(passed...), nil, 0)
	for _, file := range theirs {
		_ = file.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("asking testdata/fork.py for a process: %w", err)
	}
	go func() { // which may outlive the process
		_, _ = io.Copy(ours[0], streams.Stdin)
		_ = ours[0].Close()
	}()
	var copying sync.WaitGroup
	for i, to := range map[int]io.Writer{1: streams.Stdout, 2: streams.Stderr} {
		copying.Go(func() {
			_, _ = io.Copy(to, ours[i])
			_ = ours[i].Close() // so that the process does not wait for a reader that has given up
		})
	}
	var pid, status int
	answer := bufio.NewReader(ours[3])
	if _, err := fmt.Fscanln(answer, &pid); err != nil {
		return 0, fmt.Errorf("testdata/fork.py has forked no process: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	_, err = fmt.Fscanln(answer, &status)
	stop()
	copying.Wait()
	return syscall.WaitStatus(status), err
}
