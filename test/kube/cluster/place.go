package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// inside is the first argument of the process that is in the cluster's namespaces.
const inside = "inside"

// prefix begins the names of everything that is a cluster's and has no namespace.
const prefix = "deployster-kubetest-"

// patience is how long a cluster may take to be ready, on a machine that is busy.
const patience = 5 * time.Minute

// settings are what a kubelet changes for all of the machine.
var settings = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

// place is what a cluster has of this machine.
type place struct {
	Dir      string            // its files
	Kubetest string            // the program with the components
	Network  int               // the third byte of its addresses
	Token    string            // the administrator's
	Limited  string            // that of a user without rights
	Settings map[string]string // of the machine, before
	Made     []string          // directories that it lacked

	lock *os.File // held while it is in use

	once sync.Once
	http *http.Client // see client

	mu      sync.Mutex
	running map[int]component     // by their processes, in the cluster's namespaces
	killed  map[int]chan struct{} // closed when a process has ended that was to
}

func newPlace(kubetest string) (*place, error) {
	kubetest, err := filepath.Abs(kubetest)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", prefix) // short: sockets are in it
	if err != nil {
		return nil, err
	}
	p := &place{Dir: dir, Kubetest: kubetest, Token: random(), Limited: random(), Settings: map[string]string{}}
	if p.lock, err = lock(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for _, name := range settings {
		if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
			p.Settings[name] = string(bytes.TrimSpace(value))
		}
	}
	for _, dir := range own {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			p.Made = append(p.Made, dir)
		}
	}
	if err := p.write("place.json", p); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// lock takes the lock of a directory, which the kernel gives back.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (p *place) file(name string) string { return filepath.Join(p.Dir, name) }

func (p *place) name() string { return filepath.Base(p.Dir) }

func (p *place) write(name string, content any) error {
	encoded, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(p.file(name), encoded, 0o600)
}

func (p *place) link() string { return "kube" + p.name()[max(0, len(p.name())-10):] }
func (p *place) host() string { return fmt.Sprintf("10.203.%d.1", p.Network) }

// address is that of the API server, and of all nodes.
func (p *place) address() string { return fmt.Sprintf("10.203.%d.2", p.Network) }

// orders is the socket at which tests say what is to happen to components.
func (p *place) orders() string { return p.file("orders") }

// start starts the cluster in namespaces of its own. ended gets how the first of
// its processes ended; stop ends it and waits for that.
func (p *place) start() (ended <-chan error, stop func(), err error) {
	for _, dir := range p.Made {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, nil, err
		}
	}
	if err := p.makeGroups(); err != nil {
		return nil, nil, err
	}
	output, err := os.Create(p.file("inside.log"))
	if err != nil {
		return nil, nil, err
	}
	process := exec.Command("/proc/self/exe", inside, p.Dir)
	process.Stdout, process.Stderr = output, output
	process.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	release, err := process.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	started, result := make(chan error), make(chan error, 1)
	over := make(chan struct{})
	go func() {
		runtime.LockOSThread() // with the thread that started it, it would end
		started <- process.Start()
		if process.Process != nil {
			result <- process.Wait()
		}
		close(over)
	}()
	if err := <-started; err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = process.Process.Kill()
		<-over
	}
	if err := p.connect(process.Process.Pid); err != nil {
		stop()
		return nil, nil, err
	}
	if err := json.NewEncoder(release).Encode(p); err != nil {
		stop()
		return nil, nil, err
	}
	return result, stop, nil
}

// connect connects the cluster with this machine, by a network that nobody has yet.
func (p *place) connect(pid int) error {
	if err := ip("link", "add", p.link(), "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(pid)); err != nil {
		return err
	}
	taken, err := exec.Command("ip", "-o", "-4", "address", "show").Output()
	if err != nil {
		return err
	}
	for p.Network = 0; bytes.Contains(taken, []byte(p.host()+"/")); p.Network++ {
		if p.Network == 255 {
			return errors.New("there are 256 clusters already")
		}
	}
	return errors.Join(
		ip("address", "add", p.host()+"/24", "dev", p.link()),
		ip("link", "set", p.link(), "up"),
	)
}

func ip(args ...string) error {
	if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return nil
}

// await returns once the nodes are ready.
func (p *place) await(ended <-chan error) (Ready, error) {
	for begun := time.Now(); time.Since(begun) < patience; {
		select {
		case err := <-ended:
			return Ready{}, fmt.Errorf("the cluster did not start: %w\n%s", err, p.logs())
		case <-time.After(100 * time.Millisecond):
		}
		encoded, err := os.ReadFile(p.file("ready.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var ready Ready
		if err == nil {
			err = json.Unmarshal(encoded, &ready)
		}
		return ready, err
	}
	return Ready{}, fmt.Errorf("the cluster is not ready after %s\n%s", patience, p.logs())
}

// logs are the ends of what the components wrote.
func (p *place) logs() string {
	var all strings.Builder
	files, _ := filepath.Glob(p.file("*.log"))
	for _, file := range files {
		content, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&all, "--- %s\n%s\n", filepath.Base(file), strings.Join(lines[max(0, len(lines)-25):], "\n"))
	}
	return all.String()
}
