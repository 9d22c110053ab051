package environments_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/must"
)

// crowd is very many environments, whose tasks are always well.
type crowd struct {
	*world
	hosts  map[string][]string
	probes atomic.Int64
}

func (c *crowd) Start(context.Context, tasks.Task) (tasks.ProbeResult, error) {
	return tasks.ProbeResult{Health: tasks.Healthy}, nil
}
func (*crowd) Check(context.Context, tasks.Task) error                { return nil }
func (*crowd) Verify(context.Context, environment.Verification) error { return nil }
func (c *crowd) Terminate(context.Context, tasks.Task) error          { return nil }
func (c *crowd) Observe(context.Context, tasks.Task) tasks.ProbeResult {
	c.probes.Add(1)
	return tasks.ProbeResult{Health: tasks.Healthy}
}
func (c *crowd) Things(tasks.Task) []tasks.Thing               { return nil }
func (c *crowd) Watch(ctx context.Context, _ string, _ func()) { <-ctx.Done() }
func (c *crowd) Attribute(string, string) string               { return "" }
func (c *crowd) Version() int                                  { return 1 }
func (c *crowd) Selected(query string) ([]string, error)       { return c.hosts[query], nil }
func (c *crowd) Known(string) bool                             { return true }
func (c *crowd) Notice(text string)                            { c.Error(text) }

func newCrowd(b *testing.B, store logtest.Store, n int, active bool, at func(i int) time.Time) *crowd {
	c := &crowd{world: newWorld(b, store), hosts: map[string][]string{}}
	c.options.Tasks, c.options.Inventory, c.options.Observer = c, c, c
	var batch []deploylog.Event
	seq := int64(0)
	flush := func(most int) {
		if len(batch) <= most {
			return
		}
		must.Get(c.DeployLog.Append(context.Background(), batch...))(b)
		batch = nil
	}
	for i := range n {
		name, now := fmt.Sprintf("env%05d", i), at(i)
		for h := range 10 {
			c.hosts[name] = append(c.hosts[name], fmt.Sprintf("h%04d", (i+h*199)%2000))
		}
		state := environment.New(name)
		do := func(events []deploylog.Event, err error) {
			require.NoError(b, err)
			for _, e := range events {
				seq++
				e.Seq, e.CreatedAt = seq, now.UTC()
				state.Apply(e)
				batch = append(batch, e)
			}
		}
		do(state.Propose(environment.Create{Definition: daemon(name)}, now))
		do(state.Propose(environment.Deploy{Revision: 1, Hosts: c.hosts[name]}, now))
		for active && !state.Idle() {
			for s := range state.Decide(now, environment.Can{Disrupt: true}) {
				do(s.Events, nil)
				if s.Kind != tasks.Record {
					do(state.Completed(s, tasks.ProbeResult{Health: tasks.Healthy}, nil), nil)
				}
			}
		}
		flush(5000)
	}
	flush(0)
	return c
}

func (c *crowd) run() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- environments.NewController(c.options).Run(ctx) }()
	return func() { cancel(); <-ended }
}

func report(b *testing.B, what string, late []time.Duration) {
	slices.Sort(late)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(late[len(late)/2]), what+"-p50-ms")
	b.ReportMetric(ms(late[len(late)*99/100]), what+"-p99-ms")
	b.ReportMetric(ms(late[len(late)-1]), what+"-max-ms")
}

// Another process tells something of one of 10,000 environments, whose 100,000 tasks
// are all probed every 30 s at the same time; the controller decides.
func BenchmarkControllerDecides(b *testing.B) {
	const many = 10_000
	now := time.Now()
	c := newCrowd(b, reconciletest.InFile(b), many, true, func(int) time.Time { return now })
	c.environments = environments.New(c.Open(), time.Now)
	decided := make(chan time.Time, 1)
	c.OnRecorded = func(e deploylog.Event) {
		if e.Name == record.EnvironmentFinished {
			decided <- time.Now()
		}
	}
	defer c.run()()
	deploy := func(i int) (took time.Duration) {
		name := fmt.Sprintf("env%05d", i%many)
		c.do(name, environment.Deploy{Revision: 1, Hosts: c.hosts[name]})
		from := time.Now()
		return (<-decided).Sub(from)
	}
	for c.probes.Load() < 10*many { // until the first probes are over
		<-time.After(10 * time.Millisecond)
	}
	var late []time.Duration
	for i := 0; b.Loop(); i++ {
		<-time.After(100 * time.Millisecond) // until it has nothing to do
		late = append(late, deploy(i*7919))
	}
	b.StopTimer()
	report(b, "decision", late)
}

// The progress deadlines of 10,000 environments pass, a thousand each second.
func BenchmarkControllerDeadlines(b *testing.B) {
	const many = 10_000
	for b.Loop() {
		b.StopTimer()
		base := time.Now().Add(15*time.Second - 10*time.Minute)
		c := newCrowd(b, reconciletest.InFile(b), many, false, func(i int) time.Time { return base.Add(time.Duration(i) * time.Millisecond) })
		c.slots = 0 // so that nothing goes on
		var late []time.Duration
		done := make(chan bool)
		c.OnRecorded = func(e deploylog.Event) {
			if e.Name == record.EnvironmentStuck {
				var i int
				_, _ = fmt.Sscanf(string(e.Target), "environment/env%d", &i)
				late = append(late, e.CreatedAt.Sub(base.Add(time.Duration(i)*time.Millisecond+10*time.Minute)))
				if len(late) == many {
					close(done)
				}
			}
		}
		b.StartTimer()
		end := c.run()
		<-done
		b.StopTimer()
		end()
		report(b, "deadline", late)
		b.StartTimer()
	}
}

// fellow is the observer of one controller of several, which say how many they are.
type fellow struct{ *crowd }

func (fellow) Inform(string) {}
func (fellow) Notice(string) {}

// cluster is a server of PostgreSQL, and who asks it who controls how many environments.
type cluster struct {
	*testing.B
	url string
	sql *pgx.Conn
}

func newCluster(b *testing.B) *cluster {
	must := func(err error) { require.NoError(b, err) }
	server, err := pgtest.New()
	must(err)
	b.Cleanup(func() { assert.NoError(b, server.Remove()) })
	must(server.Start())
	url := server.URL("shared")
	sql, err := pgx.Connect(b.Context(), strings.Replace(url, "schema=", "search_path=", 1))
	must(err)
	b.Cleanup(func() { _ = sql.Close(context.Background()) })
	return &cluster{b, url, sql}
}

func (c *cluster) open() deploylog.Log {
	log := must.Get(postgres.Open(context.Background(), c.url, postgres.Options{}))(c)
	c.Cleanup(func() { _ = log.Close() })
	return log
}

// until waits until so many controllers live and all environments are controlled, and, for so long,
// by the same ones, which is the case since the time that it returns.
func (c *cluster) until(controllers, all int, settled time.Duration) (since time.Time) {
	var last []int
	for since = time.Now(); ; <-time.After(10 * time.Millisecond) {
		rows, err := c.sql.Query(c.Context(), `SELECT count(*) FROM locks WHERE starts_with(name, '"environment/') AND session IN
			(SELECT session FROM (SELECT DISTINCT session FROM locks) each WHERE alive(session)) GROUP BY session ORDER BY session`)
		var counts []int
		if err == nil {
			counts, err = pgx.CollectRows(rows, pgx.RowTo[int])
		}
		require.NoError(c, err)
		sum := 0
		for _, n := range counts {
			sum += n
		}
		if !slices.Equal(counts, last) {
			since, last = time.Now(), counts
		}
		if len(counts) == controllers && sum == all && time.Since(since) >= settled {
			return since
		}
	}
}

// Three controllers, as servers on three machines, share 10,000 environments in PostgreSQL. Another process tells
// something of one of them, and whoever controls it decides. The third joins when the two others control all, and they
// hand over its part; in the end one dies, and the two others take over what it controlled.
func BenchmarkThreeControllersDecide(b *testing.B) {
	const many = 10_000
	now := time.Now()
	on := newCluster(b)
	c := newCrowd(b, on.open, many, true, func(int) time.Time { return now })
	c.environments = environments.New(on.open(), time.Now)
	decided := make(chan time.Time, 1)
	c.OnRecorded = func(e deploylog.Event) {
		if e.Name == record.EnvironmentFinished {
			decided <- time.Now()
		}
	}
	c.options.Observer = fellow{c}
	var logs []deploylog.Log
	join := func(name string) (end func()) {
		log := on.open()
		c.options.Log, c.options.Name, logs = log, name, append(logs, log)
		return c.run()
	}
	defer join("a")()
	defer join("b")()
	on.until(2, many, 3*time.Second)
	joined := time.Now()
	defer join("c")()
	handedOver := on.until(3, many, 3*time.Second).Sub(joined)
	deploy := func(i int) (took time.Duration) {
		name := fmt.Sprintf("env%05d", i%many)
		c.do(name, environment.Deploy{Revision: 1, Hosts: c.hosts[name]})
		from := time.Now()
		return (<-decided).Sub(from)
	}
	deploy(1)
	var late []time.Duration
	for i := 0; b.Loop(); i++ {
		<-time.After(100 * time.Millisecond) // until it has nothing to do
		late = append(late, deploy(i*7919))
	}
	b.StopTimer()
	report(b, "decision", late)
	died := time.Now()
	_ = logs[0].Close()
	on.until(2, many, 0)
	b.ReportMetric(time.Since(died).Seconds(), "takeover-s")
	b.ReportMetric(handedOver.Seconds(), "handover-s")
}
