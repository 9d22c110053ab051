// Package dockerdtest starts Docker Engines for tests, each with its own socket and data: hosts
// that can go away and come back.
package dockerdtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/waittest"
)

// Engine is a Docker Engine.
type Engine struct {
	test   testing.TB
	dir    string
	killed bool // its containers may go on, of which the next one makes an end
	daemon *exec.Cmd
	done   chan struct{} // closed when the daemon has ended
	failed error         // of what, once it is
}

// New returns an engine that answers, and is gone with the test.
func New(t testing.TB) *Engine {
	t.Helper()
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "engine")
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{test: t, dir: dir}
	t.Cleanup(func() {
		e.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	e.Start()
	return e
}

// Address is where it answers.
func (e *Engine) Address() string { return "unix://" + e.below("socket") }

func (e *Engine) below(name string) string { return filepath.Join(e.dir, name) }

// Start returns when the engine answers.
func (e *Engine) Start() {
	e.test.Helper()
	log, err := os.OpenFile(e.below("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.test.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	e.daemon = exec.Command("dockerd", "--host", e.Address(), "--data-root", e.below("data"), "--exec-root", e.below("exec"),
		"--pidfile", e.below("pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false")
	e.daemon.Stdout, e.daemon.Stderr = log, log
	// In a network of its own, so that the bridges of others are left alone.
	e.daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	if e.killed { // its containerd was killed with it; process ids are used again, and linger
		_, _ = os.Remove(e.below("pid")), os.Remove(e.below("exec/containerd/containerd.pid"))
	}
	if err := e.daemon.Start(); err != nil {
		e.daemon = nil
		e.test.Fatal(err)
	}
	e.killed, e.done = false, make(chan struct{})
	go func(daemon *exec.Cmd, done chan<- struct{}) {
		e.failed = daemon.Wait()
		close(done)
	}(e.daemon, e.done)
	// Nothing tells when a daemon is ready but that it answers.
	for late := time.Now().Add(waittest.Limit); !e.answers(); {
		select {
		case <-e.done:
			e.daemon = nil
			e.test.Fatalf("dockerd has ended: %v\n%s", e.failed, e.said())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(late) {
			e.test.Fatalf("dockerd does not answer\n%s", e.said())
		}
	}
}

func (e *Engine) answers() bool {
	api := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.below("socket"))
		},
	}}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		e.test.Fatal(fmt.Errorf("ask a Docker Engine whether it is there: %w", err))
	}
	answer, err := api.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func (e *Engine) said() []byte {
	text, _ := os.ReadFile(e.below("log"))
	return text
}

// Stop ends the engine and all that it runs.
func (e *Engine) Stop() {
	e.test.Helper()
	if e.killed {
		e.Start() // ends the containers that the killed one left
	}
	if e.daemon == nil {
		return
	}
	_ = e.daemon.Process.Signal(syscall.SIGTERM)
	<-e.done
	e.daemon = nil
	// One that was killed has left this mount, which the next one takes for another's.
	_ = syscall.Unmount(e.below("data"), 0)
	e.killLeft()
}

// killLeft ends what a killed engine was just making: its containers that were not started yet are
// of no other engine, and wait without end.
func (e *Engine) killLeft() {
	of := map[int]int{} // parents
	var shims []int
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		command, _ := os.ReadFile(path)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok {
			if fields := bytes.Fields(rest); len(fields) > 1 {
				of[pid], _ = strconv.Atoi(string(fields[1]))
			}
		}
		if bytes.Contains(command, []byte("containerd-shim")) && bytes.Contains(command, []byte(e.dir+"/")) {
			shims = append(shims, pid)
		}
	}
	for pid, parent := range of {
		if slices.Contains(shims, parent) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, pid := range shims {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Kill kills the engine as nobody could expect. What it runs goes on, and ends when the engine
// is started again.
func (e *Engine) Kill() {
	e.test.Helper()
	_ = e.daemon.Process.Kill()
	<-e.done
	e.daemon, e.killed = nil, true
}
