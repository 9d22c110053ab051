package client_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/identity"
)

// The hosts that each of very many environments has, and who sends their commands.
const sharedHosts, commanders = 10, 4

// estate is a server with very many environments that have all hosts in common.
type estate struct {
	*testing.B
	dir     string
	process *exec.Cmd
	server  *client.Log
	log     deploylog.Log
	model   *definition.Definition

	recorded, active time.Duration
	command          float64 // ms of the processor, for one command beside all environments
	rest, memory     float64 // of a core, in percent, and MiB, while nothing happens
}

// manyEnvironments is how many there are; DEPLOYSTER_ENVIRONMENTS is another number.
func manyEnvironments(b *testing.B) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("DEPLOYSTER_ENVIRONMENTS"), "1000"))
	require.NoError(b, err)
	return n
}

// newEstate starts a server of a workspace with one environment, the model of the others.
func newEstate(b *testing.B, program string) *estate {
	e := &estate{B: b, dir: b.TempDir()}
	hosts := "hosts:\n"
	for i := range sharedHosts {
		hosts += fmt.Sprintf("  - {name: h%d, engine: oci, slots: 10, attributes: {stack: prod}}\n", i)
		require.NoError(b, os.MkdirAll(filepath.Join(e.dir, "hosts", fmt.Sprint("h", i)), 0o700))
	}
	for name, text := range map[string]string{
		"inventory.yaml": hosts,
		"task.yaml":      "plugs: {root: {path: \"hosts/{{ host }}\"}}\nresources:\n  daemon: {type: deployster/file, config: {path: \"{{ environment }}\", content: \"{{ image }}\\n\"}}\n",
		"model.yaml":     "name: model\ntask: {manifest: task.yaml, vars: {image: one}}\ninstance_group: {query: \"attribute:stack == prod\"}\ndeployment: {method: Replace, min_healthy_percent: 0, min_healthy_time: 0s}\n",
	} {
		require.NoError(b, os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600))
	}
	create := exec.Command(program, "env", "create", "-f", "model.yaml", "--engine", "oci")
	create.Dir = e.dir
	out, err := create.CombinedOutput()
	require.NoError(b, err, "%s", out)
	e.log, err = sqlite.Open(b.Context(), filepath.Join(e.dir, ".deployster/deployments.db"), sqlite.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = e.log.Close() })
	all := environments.New(e.log, time.Now)
	require.NoError(b, all.Follow(b.Context(), 0))
	e.model = all.States["model"].Revisions()[0].Definition

	e.process = exec.Command(program, "serve", "--engine", "oci", "--socket", "socket", "--socket-role", "root=admin", "--parallelism", "50")
	e.process.Dir, e.process.SysProcAttr = e.dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	e.process.Stdout, e.process.Stderr = &said, &said
	require.NoError(b, e.process.Start())
	b.Cleanup(func() {
		_ = e.process.Process.Signal(os.Interrupt)
		_ = e.process.Wait()
		if b.Failed() {
			b.Logf("%s wrote last:\n%s", program, said.Bytes()[max(0, said.Len()-4000):])
		}
	})
	c, err := client.New(client.Options{Server: "unix:" + filepath.Join(e.dir, "socket")})
	require.NoError(b, err)
	require.Eventually(b, func() bool {
		e.server, err = c.Open(b.Context())
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	return e
}

// commands creates an environment and deploys it.
func (e *estate) commands(ctx context.Context, name string) error {
	d := *e.model
	d.Name = name
	if _, err := e.server.Command(ctx, identity.Environments, name, environment.Create{Definition: &d}, 0); err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	if _, err := e.server.Command(ctx, identity.Environments, name, environment.Deploy{Revision: 1}, 0); err != nil {
		return fmt.Errorf("deploying %s: %w", name, err)
	}
	return nil
}

// begins has all environments created and deployed by some clients, and waits until all are active.
func (e *estate) begins(n int) {
	started := time.Now()
	var next atomic.Int64
	var clients errgroup.Group
	for range commanders {
		clients.Go(func() error {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := e.commands(e.Context(), fmt.Sprint("e", i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(e, clients.Wait())
	e.recorded = time.Since(started)
	finished := 0
	for event, err := range e.log.Watch(e.Context(), deploylog.Filter{Name: record.EnvironmentFinished}) {
		require.NoError(e, err)
		require.Positive(e, event.Seq)
		if finished++; finished == n {
			break
		}
	}
	e.active = time.Since(started)
}

// rests measures what the server and its containers need while nothing happens, and what a command
// costs more.
func (e *estate) rests() {
	const rest, commands = 30 * time.Second, 50
	<-time.After(70 * time.Second) // what began has ended, and each task was probed since
	before := e.used()
	<-time.After(rest)
	idle := e.used() - before
	e.rest, e.memory = 100*float64(idle)/float64(rest), e.resident()
	send := func(name string, command any) {
		_, err := e.server.Command(e.Context(), identity.Environments, name, command, 0)
		require.NoError(e, err)
	}
	send("e1", environment.Pause{}) // the first one reads all that was recorded since the last
	send("e1", environment.Resume{})
	before, began := e.used(), time.Now()
	for i := range commands {
		verb := any(environment.Pause{})
		if i%2 == 1 {
			verb = environment.Resume{}
		}
		send("e1", verb)
	}
	for i := range commands {
		d := *e.model
		d.Name = fmt.Sprint("later", i)
		send(d.Name, environment.Create{Definition: &d})
	}
	took := time.Since(began)
	spent := e.used() - before - time.Duration(float64(idle)*float64(took)/float64(rest))
	e.command = 1000 * spent.Seconds() / (2 * commands)
}

// used is how much time of the processor the server has used.
func (e *estate) used() (all time.Duration) {
	e.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", e.process.Process.Pid))
	require.NoError(e, err)
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		require.NoError(e, err)
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		require.NoError(e, err)
		all += time.Duration(ns)
	}
	return all
}

// resident is the memory of the server that is of no file, in MiB.
func (e *estate) resident() float64 {
	e.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.process.Process.Pid))
	require.NoError(e, err)
	_, after, found := strings.Cut(string(text), "RssAnon:")
	require.True(e, found)
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	require.NoError(e, err)
	return kib / 1024
}

// Four clients create and deploy 1,000 environments on the same ten hosts, which are directories:
// how long until all are recorded and all are active, what one more command costs, and what the
// server needs at rest. DEPLOYSTER_BEFORE is a program of an older revision, which does the same.
func BenchmarkManyEnvironments(b *testing.B) {
	program, err := filepath.Abs(cmp.Or(os.Getenv("DEPLOYSTER_PROGRAM"), "../../bin/deployster"))
	require.NoError(b, err)
	n := manyEnvironments(b)
	programs := map[string]string{"now": program}
	if older := os.Getenv("DEPLOYSTER_BEFORE"); older != "" {
		programs["before"] = older
	}
	for name, program := range programs {
		b.Run(name, func(b *testing.B) {
			e := newEstate(b, program)
			for b.Loop() {
				e.begins(n)
				b.StopTimer()
				e.rests()
				b.StartTimer()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(e.recorded.Seconds(), "recorded-s")
			b.ReportMetric(e.active.Seconds(), "active-s")
			b.ReportMetric(e.command, "cpu-ms/command")
			b.ReportMetric(e.rest, "rest-%")
			b.ReportMetric(e.memory, "MiB")
		})
	}
}
