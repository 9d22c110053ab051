package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// own are the directories of the machine in whose place the cluster has empty ones.
var own = []string{
	"/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", "/var/log/pods", "/run/netns", "/run/containerd", "/etc/cni",
}

// runInside is the life of the first process in the cluster's namespaces: it starts the
// components, and all end with it.
func runInside(dir string) error {
	if dir == "pause" {
		signal.Ignore(syscall.SIGINT)
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		<-ended
		return nil
	}
	if os.Getpid() != 1 {
		return errors.New("this is for the program itself")
	}
	p := place{running: map[int]component{}, killed: map[int]chan struct{}{}}
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		return fmt.Errorf("learn what to do: %w", err)
	}
	if err := errors.Join(p.isolate(), p.configure()); err != nil {
		return err
	}
	for _, c := range p.first() {
		if err := p.run(c); err != nil {
			return err
		}
	}
	for _, n := range p.nodes() {
		if err := n.importPause(); err != nil { // before the processes of others are waited for
			return err
		}
	}
	orders, err := net.Listen("unix", p.orders())
	if err != nil {
		return err
	}
	failed := make(chan error)
	go p.reap(failed)
	for _, c := range p.then() {
		if err := p.run(c); err != nil {
			return err
		}
	}
	go p.attendAccounts()
	go func() { failed <- p.takeOrders(orders) }()
	go func() {
		var err error
		for _, n := range p.nodes() {
			err = errors.Join(err, n.whenReady())
		}
		if err == nil {
			err = p.publish()
		}
		if err != nil {
			failed <- err
		}
	}()
	return <-failed
}

// isolate makes the mounts of the cluster its own, and connects it.
func (p *place) isolate() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, dir := range own {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
		}
	}
	// Kubelets share what they mount with containers and the other way round.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts in the cluster: %w", err)
	}
	if err := syscall.Sethostname([]byte("localhost")); err != nil {
		return err
	}
	return errors.Join(
		ip("link", "set", "lo", "up"),
		ip("address", "add", p.address()+"/24", "dev", "eth0"),
		ip("link", "set", "eth0", "up"),
		ip("route", "add", "default", "via", p.host()),
	)
}

// component is a program that runs as long as the cluster.
type component struct {
	name string
	argv []string
}

func (p *place) run(c component) error {
	output, err := os.OpenFile(p.file(c.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	program, err := exec.LookPath(c.argv[0])
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	p.mu.Lock() // until it is known that the process is a component's
	defer p.mu.Unlock()
	process, err := os.StartProcess(program, c.argv, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, output, output}})
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	p.running[process.Pid] = c
	return nil
}

// reap waits for all processes that end, as the first process has to. That of a component
// is the end of the cluster, unless it was ordered.
func (p *place) reap(failed chan<- error) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
			switch ended, ours, ordered := p.ended(pid); {
			case !ours:
			case ordered != nil:
				close(ordered)
			default:
				failed <- fmt.Errorf("%s ended with status %#x", ended.name, status)
			}
		}
		<-children
	}
}

// ended forgets the process of a component. ordered is who waits for an end that was ordered.
func (p *place) ended(pid int) (c component, ours bool, ordered chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ours = p.running[pid]
	ordered = p.killed[pid]
	delete(p.running, pid)
	delete(p.killed, pid)
	return c, ours, ordered
}

// process is that of a component that runs; 0 is none.
func (p *place) process(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, c := range p.running {
		if c.name == name {
			return pid
		}
	}
	return 0
}

// publish says that the cluster is ready.
func (p *place) publish() error {
	ready := Ready{
		Kubeconfig: p.file("kubeconfig"), Server: p.server(), Second: p.second(), Authority: p.authority(), Token: p.Token, Limited: p.Limited, Host: p.host(), Registry: p.registry(), Private: p.private(), Orders: p.orders(),
	}
	if err := p.write("ready.tmp", ready); err != nil {
		return err
	}
	return os.Rename(p.file("ready.tmp"), p.file("ready.json"))
}
