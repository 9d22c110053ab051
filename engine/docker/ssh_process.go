package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// helperTime is how long the pipes of an ssh process that has ended are read, or how long one
// may take to end. A helper of it, such as askpass, may outlive it and keep them open.
const helperTime = 500 * time.Millisecond

// sshProcess is an ssh command. It is in a session of its own, so that an interrupt typed at
// the terminal is not its. On Linux it ends with this process, however this process ends.
type sshProcess struct {
	end    context.CancelFunc // returns at once
	ended  chan struct{}      // closed once it has ended, when result holds
	result error
	said   *sayings
}

// startSSH starts the ssh command of PATH. Stdio is its input and output; nil is none.
func startSSH(arguments []string, stdio *os.File) (*sshProcess, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &sshProcess{end: cancel, ended: make(chan struct{}), said: newSayings()}
	command := sshCommand(ctx, arguments)
	command.Stderr = p.said
	if stdio != nil {
		command.Stdin, command.Stdout = stdio, stdio
	}
	started := make(chan error)
	go func() {
		defer crash.End(engine.StateDir, "waiting for ssh")
		defer cancel()
		// The kernel signals a parent's death when the thread ends that made the
		// child, so that thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			p.result = command.Wait()
			if errors.Is(p.result, exec.ErrWaitDelay) {
				p.result = nil // a helper holds a pipe: ssh itself has ended well
			}
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, startError(err)
	}
	return p, nil
}

// sshCommand prepares an ssh command that ends with its helpers when ctx is done.
func sshCommand(ctx context.Context, arguments []string) *exec.Cmd {
	command := exec.CommandContext(ctx, "ssh", arguments...)
	command.SysProcAttr = ownSession()
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = helperTime
	return command
}

// sshOutput runs an ssh command that makes no connection, and returns what it prints.
func sshOutput(ctx context.Context, within time.Duration, arguments []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	command := sshCommand(ctx, arguments)
	var output, said bytes.Buffer
	command.Stdout, command.Stderr = &output, &said
	err := command.Run()
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return output.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("`ssh %s` did not end within %s", strings.Join(arguments, " "), within)
	case command.Process == nil:
		return "", startError(err)
	}
	return "", explainSSH(said.String(), err)
}

func startError(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return &sshError{words: "there is no ssh command in PATH", remedy: "install it (Debian and Ubuntu: `apt-get install openssh-client`)"}
	}
	return fmt.Errorf("start ssh: %w", err)
}

// over reports whether the process has ended.
func (p *sshProcess) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// within waits until the process has ended, and reports whether it did.
func (p *sshProcess) within(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// failure explains the end of the process, which must have ended.
func (p *sshProcess) failure() *sshError { return explainSSH(p.said.text(0), p.result) }

// mostSaid is how many bytes of what an ssh command prints are kept: the last ones.
const mostSaid = 16 << 10

// sayings is what an ssh command has printed to stderr.
type sayings struct {
	mu      sync.Mutex
	kept    []byte
	dropped int           // bytes before those kept
	more    chan struct{} // closed when there is more
}

func newSayings() *sayings { return &sayings{more: make(chan struct{})} }

// Write implements io.Writer.
func (s *sayings) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p...)
	if over := len(s.kept) - mostSaid; over > 0 {
		s.kept = append([]byte(nil), s.kept[over:]...)
		s.dropped += over
	}
	close(s.more)
	s.more = make(chan struct{})
	return len(p), nil
}

// now is a mark for text: what was said before it.
func (s *sayings) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped + len(s.kept)
}

// text is what was said since a mark; 0 is all.
func (s *sayings) text(since int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.kept[min(max(since-s.dropped, 0), len(s.kept)):])
}

// line waits for a line that contains a text, and returns it; "" if there is none in time.
func (s *sayings) line(since int, with string, limit time.Duration) string {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		more := s.more
		s.mu.Unlock()
		for line := range strings.Lines(s.text(since)) {
			if strings.Contains(line, with) && strings.HasSuffix(line, "\n") {
				return strings.TrimSpace(line)
			}
		}
		select {
		case <-more:
		case <-timer.C:
			return ""
		}
	}
}
