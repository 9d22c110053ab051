package killloop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// world is a workspace with a log and hosts, and who is at work there.
type world struct {
	*testing.T
	*rand.Rand
	dir     string
	url     string // of the log, where that is in a database
	image   int    // under the tag of the type
	hosts   []string
	others  map[string][]string // hosts of stages that the inventory always has
	workers []*worker
	killed  int
	said    []string // what was done, for who has to find out why a round failed
}

// rounds runs rounds of at most perRound kills until so many were made as are asked for.
func rounds(t *testing.T, perRound int, round func(w *world, kills int)) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano()) % 1_000_000
	}
	for left, n := *kills, first; left > 0; n++ {
		these := min(left, perRound)
		t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			w := newWorld(t, n)
			round(w, these)
			w.leftNothing()
			w.summary()
		})
		left -= these
	}
}

// summary says how much the round tried.
func (w *world) summary() {
	w.Helper()
	named := map[string]int{}
	for _, e := range w.events() {
		named["events"]++
		d := w.details(e)
		switch {
		case e.Name == "run-started" || e.Name == "pipeline-started" || e.Name == "environment-started":
			named[e.Name]++
		case e.Name == "run-failed" && d.Abandoned:
			named["runs whose process died"]++
		case e.Name == "action-failed" && d.Abandoned:
			named["actions whose end is not known"]++
		}
	}
	w.Logf("%d kills, %d lines of the journal, %v", w.killed, len(w.journal()), named)
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir()}
	for _, below := range []string{"home", "tmp", "all"} {
		require.NoError(t, os.Mkdir(w.path(below), 0o700))
	}
	w.moveTag(0)
	t.Cleanup(func() {
		for _, one := range w.workers {
			_ = one.Process.Kill()
			<-one.done
		}
		if t.Failed() {
			t.Logf("seed %d; what was done:\n%s", seed, strings.Join(w.said, "\n"))
			t.Logf("what runs: %s", strings.Join(w.processes(), "; "))
			w.keep()
		}
	})
	return w
}

// keep copies the workspace of a round that failed, where the environment says to which
// directory.
func (w *world) keep() {
	to := os.Getenv("KILL_LOOPS_KEEP")
	if to == "" {
		w.Log("to keep the workspace, say KILL_LOOPS_KEEP=DIRECTORY")
		return
	}
	to = filepath.Join(to, strings.NewReplacer("/", "-", "=", "-").Replace(w.Name()))
	if out, err := exec.Command("cp", "-a", w.dir, to).CombinedOutput(); err != nil {
		w.Logf("keeping the workspace: %v\n%s", err, out)
	}
	w.Logf("the workspace is kept in %s", to)
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

func (w *world) write(name, text string) {
	w.Helper()
	require.NoError(w, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	if err := os.Remove(w.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be a link
		w.Fatal(err)
	}
	require.NoError(w, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *world) say(format string, args ...any) {
	w.said = append(w.said, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(shared.binary, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"),
		"XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME"), "DOCKER_HOST=unix://" + w.path("no-docker"), "USER=tester",
	}
	if w.url != "" {
		cmd.Env = append(cmd.Env, "DEPLOYSTER_LOG="+w.url)
	}
	return cmd
}

// run runs a command to its end, which may be a refusal, but nothing else.
func (w *world) run(args ...string) (out string, ok bool) {
	w.Helper()
	cmd := w.command(args...)
	late := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // says where it hangs
	defer late.Stop()
	text, err := cmd.CombinedOutput()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		w.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	w.say("%s: exit %d, %s", strings.Join(args, " "), code, lines[max(0, len(lines)-1)])
	assert.False(w, code != 0 && code != 1 && code != 3, "deployster %s exited with %d\n%s", strings.Join(args, " "), code, text)
	return string(text), code == 0
}

// must is run of what is not refused.
func (w *world) must(args ...string) string {
	w.Helper()
	out, ok := w.run(args...)
	require.True(w, ok, "deployster %s failed\n%s", strings.Join(args, " "), out)
	return out
}

// worker is a scheduler or controller.
type worker struct {
	*exec.Cmd
	args []string
	log  string
	done chan error

	foreign bool // it has another inventory, and nothing to do
}

func (w *world) work(args ...string) {
	one := &worker{Cmd: w.command(args...), args: args, done: make(chan error, 1)}
	f := must.Get(os.CreateTemp(w.dir, "worker-*.log"))(w)
	one.log, one.Stdout, one.Stderr = f.Name(), f, f
	one.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(w, one.Start())
	_ = f.Close()
	go func() { one.done <- one.Wait() }()
	w.workers = append(w.workers, one)
	w.say("%s: process %d", strings.Join(args, " "), one.Process.Pid)
}

// kill kills one of the first two workers, or all, at a random moment, and starts others in their
// place.
func (w *world) kill(most time.Duration) {
	w.Helper()
	first, n := w.IntN(min(2, len(w.workers))), 1
	if w.IntN(3) == 0 {
		<-time.After(time.Duration(w.Int64N(int64(most))))
	} else {
		w.busy(most)
		first = max(0, w.atWork())
	}
	if w.IntN(3) == 0 {
		first, n = 0, len(w.workers)
	}
	dead := slices.Clone(w.workers[first : first+n])
	w.workers = slices.Delete(w.workers, first, first+n)
	for _, one := range dead {
		w.end(one)
	}
	others := w.workers
	w.workers = nil
	for _, one := range dead {
		w.work(one.args...)
		w.workers[len(w.workers)-1].foreign = one.foreign
	}
	w.workers = append(w.workers, others...)
}

func (w *world) end(one *worker) {
	w.Helper()
	select {
	case err := <-one.done:
		text, _ := os.ReadFile(one.log)
		w.Errorf("%s ended by itself: %v\n%.4000s", strings.Join(one.args, " "), err, text)
	default:
		_ = one.Process.Kill()
		<-one.done
		w.say("killed process %d", one.Process.Pid)
	}
	if !one.foreign {
		w.killed++
	}
}

// busy waits until something is being done on a host, and a moment more.
func (w *world) busy(most time.Duration) {
	size := func() int64 {
		info, err := os.Stat(w.path("all", "journal"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for before, until := size(), time.Now().Add(most); size() == before && time.Now().Before(until); {
		<-time.After(time.Millisecond)
	}
	<-time.After(time.Duration(w.IntN(150)) * time.Millisecond)
}

// atWork is which of the workers has begun the newest run; -1 is none of them.
func (w *world) atWork() int {
	pid := ""
	w.openLog(func(log deploylog.Log) error {
		for e, err := range log.Read(context.Background(), deploylog.Filter{Name: "run-started", Last: 1}) {
			if err != nil {
				return err
			}
			pid = w.details(e).Details.PID
		}
		return nil
	})
	return slices.IndexFunc(w.workers, func(one *worker) bool { return fmt.Sprint(one.Process.Pid) == pid })
}

// stop ends the workers as a person would.
func (w *world) stop() {
	w.Helper()
	for _, one := range w.workers {
		_ = one.Process.Signal(syscall.SIGTERM)
	}
	for _, one := range w.workers {
		waittest.Receive(w, one.done, fmt.Sprintf("the end of process %d", one.Process.Pid))
	}
	w.workers = nil
}

func (w *world) openLog(do func(deploylog.Log) error) {
	var log deploylog.Log
	var err error
	if w.url != "" {
		log, err = postgres.Open(context.Background(), w.url, postgres.Options{})
	} else {
		log, err = sqlite.Open(context.Background(), w.path(".deployster", "deployments.db"), sqlite.Options{})
	}
	if err == nil {
		err = errors.Join(do(log), log.Close())
	}
	require.NoError(w, err)
}

// leftNothing checks that no process, container, mount or file is left of what was killed.
func (w *world) leftNothing() {
	w.Helper()
	w.openLog(func(log deploylog.Log) error {
		return w.engine(func(e *oci.Engine) error {
			left, err := e.Containers(context.Background(), map[string]string{invoke.LabelLog: log.ID()})
			for _, c := range left {
				w.Errorf("container left: %v", c.Labels)
			}
			return err
		})
	})
	waittest.Until(w, func() bool { return len(w.processes()) == 0 }, "all processes of the workspace to end")
	text, err := os.ReadFile("/proc/self/mountinfo")
	assert.True(w, err == nil && !strings.Contains(string(text), w.dir), "mounts left in %s (%v)", w.dir, err)
	below := []string{"tmp"}
	if w.url == "" {
		below = append(below, filepath.Join(".deployster", "deployments.db.heartbeats"))
	}
	for _, below := range below {
		entries, err := os.ReadDir(w.path(below))
		assert.NoError(w, err)
		for _, entry := range entries {
			w.Errorf("%s/%s is left", below, entry.Name())
		}
	}
	_, err = os.Stat(w.path(".deployster", "deployments.db"))
	assert.Equal(w, (w.url == ""), (err == nil), "the file of the log: %v", err)
	w.must("log", "verify")
}

// processes are those that have to do with the workspace, by what they were started with,
// where they are and what they see.
func (w *world) processes() (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	own := fmt.Sprintf("/proc/%d", os.Getpid())
	for _, p := range all {
		if p == own {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		mounts, _ := os.ReadFile(filepath.Join(p, "mountinfo"))
		if ofKilledDocker(p, string(command)) {
			continue
		}
		if strings.Contains(string(command)+cwd+string(mounts), w.dir) {
			found = append(found, filepath.Base(p)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// ofKilledDocker reports whether a process is what a Docker Engine leaves that is killed between
// making a container and starting it: it waits, and no program of the container has begun.
func ofKilledDocker(process, command string) bool {
	if command != "runc\x00init\x00" {
		return false
	}
	status, _ := os.ReadFile(filepath.Join(process, "status"))
	_, rest, _ := strings.Cut(string(status), "\nPPid:\t")
	parent, _, _ := strings.Cut(rest, "\n")
	shim, _ := os.ReadFile(filepath.Join("/proc", parent, "cmdline"))
	return strings.Contains(string(shim), "containerd-shim")
}

func (w *world) events() (all []deploylog.Event) {
	w.openLog(func(log deploylog.Log) error {
		for e, err := range log.Read(context.Background(), deploylog.Filter{}) {
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	return all
}

var (
	kills = flag.Int("kills", ringtest.Cases(0, 5), "how many times each loop kills")
	seed  = flag.Uint64("seed", 0, "seed of the first round; 0 is another one each time")
)

// images is how many images of the type there are, which tests put under its tag.
const images = 3

// shared is what all rounds use: the program, and the cache with the images.
var shared struct{ dir, binary string }

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	flag.Parse()
	if *kills == 0 {
		return // as in "make test": see the comment of the package
	}
	code, err := prepared(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepared(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "deployster-kill-loop-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	shared.dir, shared.binary = dir, filepath.Join(dir, "deployster")
	program := filepath.Join(dir, "journaltype")
	for to, pkg := range map[string]string{shared.binary: "../../cmd/deployster", program: "./testdata/journaltype"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("building %s: %w\n%s", pkg, err, out)
		}
	}
	for i := range images {
		image, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Entrypoint: []string{"/journaltype"}, Env: []string{fmt.Sprintf("IMAGE=%d", i)}})
		if err != nil {
			return 1, err
		}
		tar, err := enginetest.ImageTar("journal:1", image)
		if err != nil {
			return 1, err
		}
		if err := os.WriteFile(imageFile(i), tar, 0o600); err != nil {
			return 1, err
		}
	}
	if err := os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func imageFile(i int) string { return filepath.Join(shared.dir, fmt.Sprintf("image%d.tar", i)) }

func (w *world) moveTag(i int) {
	tar := must.Get(os.ReadFile(imageFile(i)))(w)
	require.NoError(w, w.engine(func(e *oci.Engine) error { return e.Load(context.Background(), bytes.NewReader(tar)) }))
	w.image = i
}

func (w *world) engine(do func(*oci.Engine) error) error {
	e, err := oci.Open(context.Background(), oci.Options{})
	if err != nil {
		return err
	}
	return errors.Join(do(e), e.Close())
}

// line is what the type writes into its journal.
type line struct{ Event, Action, Host, File, For, Content string }

func (w *world) journal() (all []line) {
	text := must.Get(os.ReadFile(w.path("all", "journal")))(w)
	for l := range strings.Lines(string(text)) {
		var one line
		require.NoError(w, json.Unmarshal([]byte(l), &one))
		all = append(all, one)
	}
	return all
}

// checkJournal checks that nothing was done twice at once, nor for two revisions at once
// where one may be, and that every host of a revision got the bytes that it was released
// with.
func (w *world) checkJournal(released map[string]string) {
	w.Helper()
	for _, l := range w.journal() {
		want := strings.ReplaceAll(released[l.For+" "+l.File], "HOST", l.Host)
		if released[l.For+" "+l.File] == "" {
			want = strings.ReplaceAll(released[l.For], "HOST", l.Host)
		}
		switch {
		case l.Event == "twice" || strings.HasPrefix(l.Event, "beside"):
			w.Errorf("%s of %s on %s for %s: %s", l.Action, l.File, l.Host, l.For, l.Event)
		case l.Content != want:
			w.Errorf("%s of %s on %s for %s with %q, which was released with %q", l.Action, l.File, l.Host, l.For, l.Content, want)
		}
	}
}

// file is what a host has; "" is none.
func (w *world) file(host, name string) string {
	text, _ := os.ReadFile(w.path("hosts", host, name))
	return string(text)
}

func answer[T any](w *world, args ...string) (t T) {
	out, err := w.command(append(args, "--output", "json")...).Output()
	require.NoError(w, err, "deployster %s: %v\n%s", strings.Join(args, " "), err, out)
	err = json.Unmarshal(out, &t)
	require.NoError(w, err, "deployster %s: %v\n%s", strings.Join(args, " "), err, out)
	return t
}
