package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// roleVariable makes the test binary act as another process on a log:
// "append" appends until its input ends and prints the id of each event once
// it is acknowledged; "die" does so until it is killed between its fifth commit
// and the anchor; "die deciding" appends once, with what follows, and is killed while it
// decides that the next time; "append once" appends one event, "read" verifies the log and
// prints how many it has; "lock" takes a lock, says so, and holds on; "contend" takes and
// releases a lock while it prunes the locks, and fails when somebody else has it, too; "snap"
// keeps snapshots until it is killed.
const roleVariable = "DEPLOYLOG_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := act(context.Background(), role, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func act(ctx context.Context, role, path, name string) error {
	s := settings{busyTimeout: defaultBusyTimeout}
	if commits := 0; role == "die" {
		s.committed = func() {
			if commits++; commits == 5 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
	}
	l, err := open(ctx, path, Options{}, s)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	switch role {
	case "append once":
		_, err := l.Append(context.Background(), deploylog.Event{Deployment: name, Target: "host/h", Name: "host-deployed"})
		return err
	case "read":
		v, err := l.Verify(context.Background())
		_, said := fmt.Fprintln(os.Stdout, v.Events, "events")
		return errors.Join(err, said)
	}
	if role == "die deciding" {
		return dieDeciding(l, name)
	}
	if role == "snap" {
		return snap(ctx, l, name)
	}
	if role == "contend" {
		return contend(ctx, l, name)
	}
	if role == "lock" {
		if _, err := l.Lock(ctx, name); err != nil {
			return err
		}
		if _, err := os.Stdout.WriteString("locked\n"); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	for i := 1; ctx.Err() == nil; i++ {
		batch := make([]deploylog.Event, 1+i%3)
		for j := range batch {
			batch[j] = deploylog.Event{Deployment: name, Target: deploylog.Target(fmt.Sprintf("host/h%d", j)), Name: "host-deployed", Attempt: i}
		}
		appended, err := l.Append(context.Background(), batch...)
		if err != nil {
			return err
		}
		var line strings.Builder
		for _, e := range appended {
			fmt.Fprintf(&line, "%d %s\n", e.Seq, e.ID)
		}
		if _, err := os.Stdout.WriteString(line.String()); err != nil {
			return err
		}
	}
	return nil
}

// dieDeciding is killed while it decides what follows its second append.
func dieDeciding(l *Log, name string) error {
	for i := 1; ; i++ {
		e := deploylog.Event{Deployment: name, Target: "host/h", Name: "host-started", Attempt: i}
		written, err := l.AppendThen(context.Background(), []deploylog.Event{e}, func([]deploylog.Event) []deploylog.Event {
			if i == 2 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			e.Name = "host-failed"
			return []deploylog.Event{e}
		})
		for _, e := range written {
			_, said := fmt.Fprintln(os.Stdout, e.Seq, e.ID)
			err = errors.Join(err, said)
		}
		if err != nil {
			return err
		}
	}
}

// process is the test binary in a role.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

func start(t *testing.T, role, path, name string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], path, name)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdin, p.stdout = stdin, bufio.NewReader(stdout)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	require.NoError(t, err, "the other process says nothing")
	return line
}

// rest is what the process has printed in whole lines until its end.
func (p *process) rest() string {
	b, _ := io.ReadAll(p.stdout)
	return string(b[:1+strings.LastIndexByte(string(b), '\n')])
}

func TestProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "log.db") // they race to create it, too
	var all []*process
	for i := range 4 {
		all = append(all, start(t, "append", path, fmt.Sprintf("d%d", i)))
	}
	acknowledged := ""
	for range ringtest.Cases(40, 100) {
		for _, p := range all {
			acknowledged += p.line(t)
		}
	}
	// The first dies in the midst of its work, the others come to an end.
	require.NoError(t, all[0].cmd.Process.Kill())
	acknowledged += all[0].rest()
	wantAnchored(t, path, acknowledged)
	for range ringtest.Cases(20, 50) {
		for _, p := range all[1:] {
			acknowledged += p.line(t)
		}
	}
	for _, p := range all[1:] {
		require.NoError(t, p.stdin.Close())
		acknowledged += p.rest()
		assert.NoError(t, p.cmd.Wait(), "a process failed")
	}

	wantAnchored(t, path, acknowledged)
	l := openLog(t, path)
	seqs := map[string]int64{}
	next := int64(1)
	for e, err := range l.Read(t.Context(), deploylog.Filter{}) {
		require.NoError(t, err)
		require.True(t, e.Seq == next, "event %d follows %d", e.Seq, next-1)
		seqs[e.ID] = e.Seq
		next++
	}
	lines := strings.Fields(acknowledged)
	for i := 0; i+1 < len(lines); i += 2 {
		if fmt.Sprint(seqs[lines[i+1]]) != lines[i] {
			t.Fatalf("event %s was acknowledged as %s but is number %d", lines[i+1], lines[i], seqs[lines[i+1]])
		}
	}
	v, err := l.Verify(t.Context())
	assert.NoError(t, err)
	a, _, err := readAnchor(path)
	assert.True(t, err == nil && a.seq == v.Events && fmt.Sprintf("%x", a.hash) == v.Head && a.log == l.ID(), "the anchor is %+v, %v; want the head %+v", a, err, v)
}

// wantAnchored holds the anchor to what was acknowledged so far: lines of a
// number and an id.
func wantAnchored(t *testing.T, path, acknowledged string) {
	t.Helper()
	newest := int64(0)
	for line := range strings.Lines(acknowledged) {
		number, _, _ := strings.Cut(line, " ")
		seq, err := strconv.ParseInt(number, 10, 64)
		require.NoError(t, err)
		newest = max(newest, seq)
	}
	a, ok, err := readAnchor(path)
	assert.True(t, err == nil && ok && a.seq >= newest, "event %d was acknowledged, but the anchor is at %d, %v", newest, a.seq, err)
}

// TestKilledBetweenCommitAndAnchor leaves an anchor that is behind the log.
func TestKilledBetweenCommitAndAnchor(t *testing.T) {
	path := newPath(t)
	p := start(t, "die", path, "d")
	acknowledged := p.rest()
	_ = p.cmd.Wait()
	a, ok, err := readAnchor(path)
	require.True(t, err == nil && ok, "%v", err)
	l := openLog(t, path)
	v, err := l.Verify(t.Context())
	assert.True(t, err == nil && v.Events > a.seq, "%+v, %v; want more events than the anchor's %d", v, err, a.seq)
	wantAnchored(t, path, acknowledged)
	wantNext(t, l, 0, v.Events+1)
}

func TestLockOfDeadProcess(t *testing.T) {
	path := newPath(t)
	p := start(t, "lock", path, "resource/db")
	p.line(t)
	l := openLog(t, path)
	wantError(t, errOf(l.TryLock("resource/db")), deploylog.ErrLocked, fmt.Sprintf("process %d", p.cmd.Process.Pid))
	require.NoError(t, p.cmd.Process.Kill())
	unlock, err := l.Lock(t.Context(), "resource/db")
	require.NoError(t, err)
	unlock()
}
