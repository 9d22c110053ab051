package entrypoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pod is the shim's life in a Pod. Its caller learns why there is no program, or how that
// ended; so does the cluster, from its exit code.
func pod(args []string) int {
	var p Pod
	if len(args) < 1 || json.Unmarshal([]byte(args[0]), &p) != nil {
		return refuse("a Pod is started by deployster itself")
	}
	c := newCaller(p.Idle)
	err := c.hear()
	if err != nil {
		return c.fail(err)
	}
	program, err := p.program(args[1:])
	if err != nil {
		return c.fail(err)
	}
	framed, err := c.input()
	if err != nil {
		return c.fail(err)
	}
	run := &supervised{caller: c, program: program, patience: p.Idle}
	if p.Whole {
		err = run.fill(framed)
		framed = c.in
	} else {
		err = run.open()
	}
	if err == nil {
		err = c.say(Started, nil) // before it does: where nobody has said so, it never ran
	}
	if err == nil {
		err = run.start()
	}
	if err != nil {
		return c.fail(err)
	}
	return run.finish(framed)
}

func newLength(length uint32) io.Reader {
	return bytes.NewReader(binary.BigEndian.AppendUint32(nil, length))
}

// program is what is to be executed.
type program struct {
	path string
	argv []string
	attr syscall.ProcAttr
}

func (p Pod) program(argv []string) (*program, error) {
	if len(argv) == 0 {
		return nil, errors.New("there is no program")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	found := &program{path: path, argv: argv, attr: syscall.ProcAttr{Env: os.Environ()}}
	return found, p.become(&found.attr)
}

// become has a program run as its user, and with the home of that.
func (p Pod) become(attr *syscall.ProcAttr) error {
	if p.User == "" {
		return nil
	}
	root, err := os.Open("/")
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	found, err := lookUp(root, p.User)
	if err != nil {
		return fmt.Errorf("find user %q: %w", p.User, err)
	}
	if p.Home {
		attr.Env = slices.DeleteFunc(attr.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") })
		attr.Env = append(attr.Env, "HOME="+found.Home)
	}
	credential := &syscall.Credential{Uid: uint32(found.Uid), Gid: uint32(found.Gid)}
	for _, group := range found.Sgids {
		credential.Groups = append(credential.Groups, uint32(group))
	}
	attr.Sys = &syscall.SysProcAttr{Credential: credential}
	return nil
}

// supervised is a program that runs, and whose process is a child of this one: this has to
// be there after its end, to see that its output arrives.
type supervised struct {
	caller   *caller
	program  *program
	patience time.Duration // with a caller that does not say that it has read everything

	stdin *os.File // the program's end
	feed  *os.File // the other one; nil where the input is whole
	pid   int
	pumps sync.WaitGroup
}

// fill makes a file with all of the input.
func (s *supervised) fill(framed io.Reader) (err error) {
	if s.stdin, err = newInput(); err != nil {
		return err
	}
	return fillUnbuffered(s.stdin, framed, s.caller.answer)
}

// fillUnbuffered is fillInput for an input after which more comes.
func fillUnbuffered(input *os.File, framed io.Reader, answer func()) error {
	if err := unframePieces(io.NewOffsetWriter(input, 0), framed, answer); err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	return nil
}

// open makes a pipe for an input that goes on.
func (s *supervised) open() (err error) {
	s.stdin, s.feed, err = os.Pipe()
	return err
}

func (s *supervised) start() error {
	streams := []*os.File{s.stdin}
	var outputs []*os.File
	for range 2 {
		from, to, err := os.Pipe()
		if err != nil {
			return err
		}
		streams, outputs = append(streams, to), append(outputs, from)
	}
	for _, stream := range streams {
		s.program.attr.Files = append(s.program.attr.Files, stream.Fd())
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	var err error
	if s.pid, err = syscall.ForkExec(s.program.path, s.program.argv, &s.program.attr); err != nil {
		return fmt.Errorf("exec: %q: %w", s.program.argv[0], err)
	}
	go func() {
		for received := range signals {
			_ = syscall.Kill(s.pid, received.(syscall.Signal)) //nolint:forcetypeassert // Linux has no others
		}
	}()
	for _, stream := range streams {
		_ = stream.Close()
	}
	for i, kind := range []Kind{Stdout, Stderr} {
		s.pumps.Go(func() { s.pump(kind, outputs[i]) })
	}
	return nil
}

// pump sends what the program writes. An output that nobody takes is dropped: the container's
// stdout is always read.
func (s *supervised) pump(kind Kind, from *os.File) {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			_ = s.caller.say(kind, piece[:n])
		}
		if err != nil {
			return
		}
	}
}

// finish gives the program its input, waits for its end, tells the caller, and returns the
// program's exit code when it has read that. A caller whose connection stays, though nothing comes
// through it any more, is not waited for without end: what was said is in the log.
func (s *supervised) finish(framed io.Reader) int {
	s.caller.in.idle = 0 // a program may take its time
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		s.give(framed)
	}()
	code := s.wait()
	s.pumps.Wait()
	if s.caller.say(Ended, strconv.AppendInt(nil, int64(code), 10)) == nil {
		select {
		case <-heard:
		case <-time.After(s.patience):
		}
	}
	return code
}

// give copies the input to the program, and returns when the caller has read how that ended,
// or is gone.
func (s *supervised) give(framed io.Reader) {
	for {
		length, err := readLength(framed)
		switch {
		case err != nil, length == done:
			if s.feed != nil {
				_ = s.feed.Close()
			}
			return
		case length == keepAlive:
			s.caller.answer()
		case length == begin:
		case length == 0:
			if s.feed != nil {
				_ = s.feed.Close()
			}
		default:
			if _, err := io.CopyN(dropping{s.feed}, framed, int64(length)); err != nil {
				framed = strings.NewReader("")
			}
		}
	}
}

// dropping writes to a file as long as somebody reads that.
type dropping struct{ to *os.File }

func (d dropping) Write(p []byte) (int, error) {
	if d.to != nil {
		_, _ = d.to.Write(p)
	}
	return len(p), nil
}

// wait waits for the program, and then ends whatever else it has left, as the end of the
// first process of a container does.
func (s *supervised) wait() int {
	code := 128 + int(syscall.SIGKILL)
	first := os.Getpid() == 1
	for {
		var status syscall.WaitStatus
		which := s.pid
		if first {
			which = -1 // the orphans of a container are the first process's
		}
		pid, err := syscall.Wait4(which, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			break
		}
		if pid != s.pid {
			continue
		}
		if code = status.ExitStatus(); status.Signaled() {
			code = 128 + int(status.Signal())
		}
		break
	}
	if first {
		_ = syscall.Kill(-1, syscall.SIGKILL)
	}
	return code
}
