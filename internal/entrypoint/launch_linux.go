package entrypoint

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The runtime's files below Request.Dir.
const (
	stateDir   = "state"
	pidFile    = "pid"
	configFile = "config.json"
)

// killed is the exit code of what was killed.
const killed = 128 + int(unix.SIGKILL)

// launch is the launcher's life. Its exit code reports whether it could report.
func launch() int {
	// Outside namespaces of its own it would change the machine's mounts.
	if os.Getpid() != 1 {
		return refuse("a launcher is started by deployster itself, as the first process of a process namespace")
	}
	control := os.NewFile(Control, "control")
	l := &launcher{reports: json.NewEncoder(control), orders: json.NewDecoder(control)}
	if err := l.orders.Decode(&l.request); err != nil {
		return 1 // the tool died before it sent the request
	}
	ended, err := l.container()
	report := Report{Ended: &ended}
	var failure *Failure
	if errors.As(err, &failure) {
		report = Report{Failed: failure}
	}
	if err := l.reports.Encode(report); err != nil {
		return 1
	}
	return 0
}

type launcher struct {
	request Request
	orders  *json.Decoder
	reports *json.Encoder
}

// Error makes a Failure an error.
func (f *Failure) Error() string { return f.Doing + ": " + f.Text }

func failed(doing string, err error) error {
	return &Failure{Doing: doing, Text: err.Error()}
}

// unsupported is failed for what older kernels cannot do: they have no such system
// call, or not this flag of it.
func unsupported(linux, doing string, err error) error {
	failure := &Failure{Doing: doing, Text: err.Error()}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		failure.Linux = linux
	}
	return failure
}

// container returns the exit code of the container's program, or a Failure.
func (l *launcher) container() (int, error) {
	// Only the standard streams are the container's.
	if err := unix.CloseRange(Control, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, unsupported("5.11", "keep files from the container", err)
	}
	unix.Umask(0o022) // what is made for the container is for its user, too
	if err := l.mount(); err != nil {
		return 0, err
	}
	if l.request.Runtime == "" {
		return 0, tryReadOnly()
	}
	if err := l.configure(); err != nil {
		return 0, err
	}
	if l.request.Steps {
		return l.steps()
	}
	return l.run()
}

// steps creates the container, and starts it on a Start. All runtimes can do
// that; it takes longer than running the container at once.
func (l *launcher) steps() (int, error) {
	var fill func() error
	if l.request.Whole {
		var err error
		if fill, err = inputLater(); err != nil {
			return 0, err
		}
	}
	if err := l.execute("create", "--bundle", l.request.Dir, "--pid-file", pidFile); err != nil {
		return 0, err
	}
	pid, err := leave()
	if err != nil {
		return 0, err
	}
	if err := l.reports.Encode(Report{Created: true}); err != nil {
		return 0, failed("report", err)
	}
	if err := l.orders.Decode(&Start{}); err != nil {
		os.Exit(killed) // the tool is gone, and with this process the container
	}
	if fill != nil {
		if err := fill(); err != nil {
			return 0, err
		}
	}
	if err := l.execute("start"); err != nil {
		return 0, err
	}
	return wait(pid)
}

// run runs the container, when its input is whole if it is to be. The runtime leaves it
// to itself then: what it would put between the container and the pipes would have to
// wake for all that goes through them, and cut them when it dies.
func (l *launcher) run() (int, error) {
	if l.request.Whole {
		if err := awaitWhole(0, 0); err != nil {
			return 0, failed("prepare the input", err)
		}
	}
	if err := l.execute("run", "--detach", "--bundle", l.request.Dir, "--pid-file", pidFile); err != nil {
		return 0, err
	}
	pid, err := leave()
	if err != nil {
		return 0, err
	}
	return wait(pid)
}

// leave leaves the streams to the container, whose process it returns.
func leave() (pid int, err error) {
	if pid, err = readPID(); err != nil {
		return 0, failed("find the container's process", err)
	}
	if err := releaseStreams(); err != nil {
		return 0, failed("leave the streams to the container", err)
	}
	return pid, nil
}

// inputLater gives the container that is to be created an empty input, into which
// fill puts what was framed.
func inputLater() (fill func() error, err error) {
	input, err := newInput()
	if err != nil {
		return nil, failed("prepare the input", err)
	}
	kept, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, Control+1)
	if err != nil {
		return nil, failed("prepare the input", err)
	}
	if err := unix.Dup3(int(input.Fd()), 0, 0); err != nil {
		return nil, failed("prepare the input", err)
	}
	return func() error {
		if err := fillInput(input, os.NewFile(uintptr(kept), "stdin")); err != nil {
			return failed("prepare the input", err)
		}
		return nil
	}, nil
}

// command is a command of the OCI runtime on the container.
func (l *launcher) command(name string, args ...string) []string {
	argv := []string{l.request.Runtime, "--root", path.Join(l.request.Dir, stateDir), "--log", l.request.Log, "--log-format", "json"}
	return slices.Concat(argv, l.request.Options, []string{name}, args, []string{l.request.ID})
}

// execute executes a command of the runtime as a process of its own.
func (l *launcher) execute(name string, args ...string) error {
	argv := l.command(name, args...)
	// Without this variable crun puts a file into /tmp for a moment, which is left there by
	// one that is killed. This directory is gone with the launcher.
	env := append(os.Environ(), "_LIBCONTAINER_STATEDIR="+l.request.Dir)
	process, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return failed("execute the runtime", err)
	}
	ended, err := process.Wait()
	if err != nil {
		return failed("wait for the runtime", err)
	}
	if ended.Success() {
		return nil
	}
	text := LastError(l.request.Log)
	if text == "" {
		text = ended.String()
	}
	return &Failure{Doing: name + " the container", Text: text, Runtime: true}
}

// LastError returns what a runtime logged last as an error, or "".
func LastError(file string) string {
	opened, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = opened.Close() }()
	var text string
	for lines := json.NewDecoder(io.LimitReader(opened, 1<<20)); ; {
		var line struct{ Level, Msg string }
		if lines.Decode(&line) != nil {
			return text
		}
		if strings.EqualFold(line.Level, "error") && line.Msg != "" {
			text = line.Msg
		}
	}
}

func readPID() (int, error) {
	content, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// releaseStreams replaces the standard streams, so that the container's ends of
// them are the only ones.
func releaseStreams() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	for stream := range 3 {
		if err := unix.Dup3(int(null.Fd()), stream, 0); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the container's first process. It is no child of this one by
// birth, but became one when the runtime that created it ended.
func wait(pid int) (int, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, failed("wait for the container", err)
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		case status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
