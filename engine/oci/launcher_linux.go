package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// launcher is a launcher process of this tool.
type launcher struct {
	process *os.Process
	control *os.File
	orders  *json.Encoder
	reports *json.Decoder
	ended   chan struct{} // closed once process and namespace are gone, when state holds
	state   *os.ProcessState
}

// startLauncher starts a launcher with the container's streams, of which it gets
// ends of its own. It does nothing before it is sent its request, and dies if
// this process does.
func (e *Engine) startLauncher(stdin, stdout, stderr *os.File) (*launcher, error) {
	program, argv, err := entrypoint.Launch(e.dir.mountPoint())
	if err != nil {
		return nil, fmt.Errorf("start the launcher: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket to the launcher: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer func() { _ = theirs.Close() }()
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that closing it ends a read
		_ = unix.Close(pair[0])
		return nil, fmt.Errorf("make a socket to the launcher: %w", err)
	}
	l := &launcher{control: os.NewFile(uintptr(pair[0]), "control"), ended: make(chan struct{})}
	l.orders, l.reports = json.NewEncoder(l.control), json.NewDecoder(l.control)

	attributes := &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=" + os.Getenv("PATH")},
		Files: []*os.File{stdin, stdout, stderr, theirs},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID,
			Pdeathsig:  unix.SIGKILL,
			Setpgid:    true, // an interrupt typed at the tool is the tool's
		},
	}
	if e.rootless {
		attributes.Sys.Cloneflags |= unix.CLONE_NEWUSER
		attributes.Sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attributes.Sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	started := make(chan error)
	go func() {
		// The kernel signals a parent's death when the thread ends that made the
		// child, so that thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		l.process, err = os.StartProcess(program, argv, attributes)
		started <- err
		if err == nil {
			l.state, _ = l.process.Wait() // fails for no child of this process
			close(l.ended)
		}
	}()
	if err := <-started; err != nil {
		_ = l.control.Close()
		return nil, fmt.Errorf("start the launcher: %w", err)
	}
	return l, nil
}

// kill kills everything in the launcher's namespace.
func (l *launcher) kill() { _ = l.process.Kill() }

// report returns the launcher's next message; one that died has none.
func (l *launcher) report() entrypoint.Report {
	var report entrypoint.Report
	_ = l.reports.Decode(&report)
	return report
}

// close returns when the launcher is gone, by force if need be.
func (l *launcher) close() {
	l.kill()
	<-l.ended
	_ = l.control.Close()
}
