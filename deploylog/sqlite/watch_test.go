package sqlite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

func numbered(from, n int, size int) (events []deploylog.Event) {
	for i := range n {
		data := fmt.Appendf(nil, `{"n":%d,"pad":%q}`, from+i, strings.Repeat("x", size))
		events = append(events, deploylog.Event{
			Deployment: "d", Target: "place/a", Name: fmt.Sprintf("place-noted-%d", from+i), Data: data,
		})
	}
	return events
}

// What is watched is every event, once and in order, whoever appended it and however much at once.
func TestWatchHasNoGaps(t *testing.T) {
	path := newPath(t)
	here, elsewhere := openLog(t, path), openLog(t, path)
	ctx := waittest.Context(t)
	const rounds = 60
	next := 0
	got := make(chan deploylog.Event, rounds*(keptEvents+1))
	failed := make(chan error, 1)
	go func() {
		for e, err := range here.Watch(ctx, deploylog.Filter{}) {
			if err != nil {
				failed <- err
				return
			}
			got <- e
		}
	}()
	for i := range rounds {
		by, n, size := here, 1+i%3, 0
		if i%4 == 3 {
			by = elsewhere
		}
		switch i % 20 {
		case 5:
			n = keptEvents + 1
		case 10:
			n, size = 3, keptBytes/2
		}
		require.NoError(t, errOf(by.Append(ctx, numbered(next, n, size)...)))
		next += n
	}
	for want := range next {
		select {
		case e := <-got:
			var says struct{ N int }
			err := json.Unmarshal(e.Data, &says)
			require.True(t, err == nil && says.N == want && e.Seq == int64(want+1), "event %d is %d of %.60s (%v), want %d", want+1, e.Seq, e.Data, err, want)
		case err := <-failed:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatalf("event %d did not come", want+1)
		}
	}
}

// What this process appends a watch is given without its being read, and as it was when it was
// appended: whose event it was may do with it what they like.
func TestWatchIsGivenWhatIsAppendedHere(t *testing.T) {
	l := newLog(t)
	ctx := waittest.Context(t)
	grown := l.writer.growth()
	sent := numbered(0, 2, 0)
	want := string(sent[1].Data)
	written := must.Get(l.Append(ctx, sent...))(t)
	clear(sent[1].Data)
	written[1].Name = "other"
	select {
	case <-grown.over:
	case <-ctx.Done():
		t.Fatal("nobody was told")
	}
	require.True(t, grown.from == 0 && grown.through == 2 && len(grown.events) == 2, "told of (%d, %d], %d events", grown.from, grown.through, len(grown.events))
	e := grown.events[1]
	assert.True(t, string(e.Data) == want && e.Name == "place-noted-1" && e.Seq == 2, "told of %+v", e)
	for read, err := range l.Read(ctx, deploylog.Filter{After: 1}) {
		assert.True(t, err == nil && fmt.Sprintf("%+v", read) == fmt.Sprintf("%+v", e), "read %+v (%v), told of %+v", read, err, e)
	}
	after := l.writer.growth().after
	assert.True(t, after == 2, "what comes next is after %d", after)
}

func TestWatchSelects(t *testing.T) {
	l := newLog(t)
	ctx := waittest.Context(t)
	got := make(chan deploylog.Event, 10)
	ready := make(chan struct{})
	go func() {
		for e, err := range l.Watch(ctx, deploylog.Filter{Target: "place/", Name: "place-noted-3"}) {
			if err != nil {
				return
			}
			if e.Attempt == 1 {
				close(ready)
				continue
			}
			got <- e
		}
	}()
	first := numbered(3, 1, 0)
	require.NoError(t, errOf(l.Append(ctx, first...)))
	<-ready
	other := first[0]
	other.Target, other.Attempt = "other/a", 2
	for _, e := range []deploylog.Event{numbered(4, 1, 0)[0], other, {Deployment: "d", Target: "place/b", Name: "place-noted-3", Attempt: 3}} {
		require.NoError(t, errOf(l.Append(ctx, e)))
	}
	select {
	case e := <-got:
		assert.True(t, e.Target == "place/b" && e.Seq == 4, "watched %+v", e)
	case <-ctx.Done():
		t.Error("nothing came")
	}
}

// What a watch looks into is a log that may have been written since it looked the last time.
func TestAWatchLooksIntoALogThatWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.db-wal")
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wrote := func(content string, at time.Duration) {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		require.NoError(t, os.Chtimes(file, began.Add(at), began.Add(at)))
	}
	w := writes{file: file}
	looks := func(at time.Duration, want bool, why string) {
		t.Helper()
		assert.Equal(t, want, w.again(began.Add(at)), why)
	}
	looks(0, true, "there is no file")
	looks(50*time.Millisecond, true, "there is still none")
	wrote("a", 60*time.Millisecond)
	looks(100*time.Millisecond, true, "it was written")
	looks(150*time.Millisecond, true, "what was written may not be synced yet")
	looks(1100*time.Millisecond, true, "nor is it now, perhaps")
	looks(1150*time.Millisecond, false, "it was written long ago")
	wrote("ab", 60*time.Millisecond)
	looks(1200*time.Millisecond, true, "it has grown")
	looks(1250*time.Millisecond, false, "it was written long ago")
	looks(2200*time.Millisecond, true, "it is looked into once in a second in any case")
	wrote("ab", 2210*time.Millisecond)
	looks(2250*time.Millisecond, true, "it was written again")
	require.NoError(t, os.Rename(file, file+"-old"))
	wrote("ab", 60*time.Millisecond)
	looks(2300*time.Millisecond, true, "it is another file")
}

// Nobody looks at a log all the time that is not written: the system tells of the next write, also if the
// file was exchanged.
func TestAWatchRestsUntilTheNextWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.db-wal")
	w := newWrites(file)
	defer w.close()
	rests := func(want bool, why string) {
		t.Helper()
		w.again(time.Now())
		assert.Equal(t, want, w.rests(), why)
	}
	rests(false, "there is no file")
	for range 2 {
		require.NoError(t, os.WriteFile(file, []byte("a"), 0o600))
		rests(false, "it was written just now")
		long := time.Now().Add(-time.Minute)
		require.NoError(t, os.Chtimes(file, long, long))
		rests(false, "what was written before the system tells of it was not seen yet")
		rests(true, "the system tells of the next write")
		require.NoError(t, os.WriteFile(file, []byte("b"), 0o600))
		select {
		case <-w.notify.Events:
		case <-waittest.Context(t).Done():
			t.Fatal("nobody tells of the write")
		}
		rests(false, "it was written just now")
		require.NoError(t, os.Rename(file, file+"-old"))
		rests(false, "there is no file again")
	}
	w = &writes{file: file + "-old", info: must.Get(os.Stat(file + "-old"))(t), at: time.Now().Add(time.Hour)}
	assert.False(t, w.rests(), "the system tells nothing")
}

func heartbeats(t *testing.T, log *Log) []deploylog.Heartbeat {
	all := must.Get(log.Heartbeats())(t)
	slices.SortFunc(all, func(a, b deploylog.Heartbeat) int { return a.PID - b.PID })
	return all
}

func TestAHeartbeatIsSeenAsLongAsItsLoopLives(t *testing.T) {
	path := newPath(t)
	log, reader := openLog(t, path), openLog(t, path)
	assert.Empty(t, heartbeats(t, reader), "before the first there")
	one := must.Get(log.Heart())(t)
	two := must.Get(reader.Heart())(t)
	beat := func(h deploylog.Heart, pid int, controls ...string) {
		require.NoError(t, h.Beat(deploylog.Heartbeat{Kind: "pipeline", Role: "scheduler", PID: pid, Host: "h", Controls: controls}))
	}
	beat(one, 1, "web")
	beat(two, 2)
	before := time.Now().Add(-time.Hour)
	files := must.Get(filepath.Glob(path + ".heartbeats/*.json"))(t)
	require.Len(t, files, 2)
	for _, file := range files {
		require.NoError(t, os.Chtimes(file, before, before))
	}
	beat(one, 1, "web")
	all := heartbeats(t, reader)
	assert.True(t, len(all) == 2 && time.Since(all[0].Last) <= time.Minute && time.Since(all[1].Last) >= time.Minute &&
		all[0].Controls[0] == "web" && all[0].Serves == nil, "there are %+v", all)
	beat(one, 1, "web", "shop")
	one.Stop()
	one.Stop()
	all = heartbeats(t, reader)
	assert.True(t, len(all) == 1 && all[0].PID == 2, "after its end there are %+v", all)
	for _, file := range files {
		_ = os.Remove(file)
	}
	beat(two, 2)
	assert.Len(t, heartbeats(t, reader), 1, "after somebody removed it there")
	two.Stop()
}

// What stands there may be anybody's, or that of a process that was killed.
func TestWhatIsNoHeartbeatIsLeftOut(t *testing.T) {
	path := newPath(t)
	log := openLog(t, path)
	live := must.Get(log.Heart())(t)
	require.NoError(t, live.Beat(deploylog.Heartbeat{PID: 1}))
	defer live.Stop()
	at := func(name string) string { return filepath.Join(path+".heartbeats", name) }
	for _, name := range []string{"dead.json", "other.txt", ".heartbeat-new"} {
		require.NoError(t, os.WriteFile(at(name), []byte(`{"pid":2}`), 0o600))
	}
	for _, err := range []error{syscall.Mkfifo(at("pipe.json"), 0o600), os.Symlink("/dev/zero", at("link.json")), os.Mkdir(at("dir.json"), 0o700)} {
		require.NoError(t, err)
	}
	for name, text := range map[string]string{"garbage.json": "\x00\x1b[31m", "list.json": "[]", "empty.json": ""} {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
		f := must.Get(os.Open(at(name)))(t)
		t.Cleanup(func() { _ = f.Close() })
		require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	}
	all := heartbeats(t, log)
	assert.True(t, len(all) == 1 && all[0].PID == 1, "there are %+v", all)
	another := must.Get(log.Heart())(t)
	another.Stop()
	assert.Error(t, errOf(os.Stat(at("dead.json"))), "what a dead process left stays")
	assert.NoError(t, errOf(os.Stat(at("garbage.json"))), "what a living process has was removed")
}

// Many of one process who want a lock at once each get it, none beside another, and those of
// another process, which here is another handle, are not kept from it.
func TestManyTakeALockByTurns(t *testing.T) {
	path := newPath(t)
	open := func() *Log {
		l := must.Get(Open(t.Context(), path, Options{}))(t)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	log, other := open(), open()
	var holders, got, gotOther int
	var mu sync.Mutex
	hold := func(l *Log, counts *int) {
		unlock, err := l.Lock(t.Context(), "pipelines")
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		holders++
		*counts++
		assert.True(t, holders <= 1, "two hold the lock")
		mu.Unlock()
		<-time.After(100 * time.Microsecond)
		mu.Lock()
		holders--
		mu.Unlock()
		unlock()
		unlock()
	}
	over, end := context.WithCancel(t.Context())
	var many sync.WaitGroup
	for range 16 {
		many.Go(func() {
			for over.Err() == nil {
				hold(log, &got)
			}
		})
	}
	for range 3 { // which never ends where the others leave it nothing
		hold(other, &gotOther)
	}
	end()
	many.Wait()
	assert.True(t, gotOther == 3 && got >= 3, "one process got it %d times, the other %d times", got, gotOther)
	left := log.turns.Waiting()
	assert.True(t, left <= 0, "%d turns are left", left)
}

func TestWhoWaitsForATurnGivesUpInTime(t *testing.T) {
	log := must.Get(Open(t.Context(), newPath(t), Options{}))(t)
	unlock := must.Get(log.Lock(t.Context(), "pipelines"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := log.Lock(ctx, "pipelines")
	assert.True(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, deploylog.ErrLocked), "%v", err)
	waiting := make(chan error)
	go func() { _, err := log.Lock(context.Background(), "pipelines"); waiting <- err }()
	assert.NoError(t, log.Close())
	assert.ErrorIs(t, <-waiting, errClosed)
	unlock()
}

// roleVariable makes the test binary act as another process on a log: "append" appends until its input ends and prints
// the id of each event once it is acknowledged; "die" does so until it is killed between its fifth commit and the
// anchor; "die deciding" appends once, with what follows, and is killed while it decides that the next time; "append
// once" appends one event, "read" verifies the log and prints how many it has; "lock" takes a lock, says so, and holds
// on; "contend" takes and releases a lock while it prunes the locks, and fails when somebody else has it, too; "snap"
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
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
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

func dieDeciding(l *Log, name string) error {
	for i := 1; ; i++ {
		e := deploylog.Event{Deployment: name, Target: "host/h", Name: "host-started", Attempt: i}
		written, err := l.AppendThen(context.Background(), []deploylog.Event{e}, func([]deploylog.Event) []deploylog.Event {
			if i == 2 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if e.Name == "host-failed" {
				return nil
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
	p := &process{cmd: exec.Command(os.Args[0], path, name)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	p.cmd.Stderr = os.Stderr
	stdin := must.Get(p.cmd.StdinPipe())(t)
	stdout := must.Get(p.cmd.StdoutPipe())(t)
	p.stdin, p.stdout = stdin, bufio.NewReader(stdout)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

func (p *process) line(t *testing.T) string {
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

// wantAnchored holds the anchor to what was acknowledged so far: lines of a number and an id.
func wantAnchored(t *testing.T, path, acknowledged string) {
	newest := int64(0)
	for line := range strings.Lines(acknowledged) {
		number, _, _ := strings.Cut(line, " ")
		seq := must.Get(strconv.ParseInt(number, 10, 64))(t)
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
	unlock := must.Get(l.Lock(t.Context(), "resource/db"))(t)
	unlock()
}
