package environments_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
)

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
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	server, err := pgtest.New()
	must(err)
	b.Cleanup(func() {
		if err := server.Remove(); err != nil {
			b.Error(err)
		}
	})
	must(server.Start())
	url := server.URL("shared")
	sql, err := pgx.Connect(b.Context(), strings.Replace(url, "schema=", "search_path=", 1))
	must(err)
	b.Cleanup(func() { _ = sql.Close(context.Background()) })
	return &cluster{b, url, sql}
}

// open opens the log, as a server on another machine does.
func (c *cluster) open() deploylog.Log {
	log, err := postgres.Open(context.Background(), c.url, postgres.Options{})
	if err != nil {
		c.Fatal(err)
	}
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
		if err != nil {
			c.Fatal(err)
		}
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

// Three controllers, as servers on three machines, share 10,000 environments in PostgreSQL. Another
// process tells something of one of them, and whoever controls it decides. The third joins when the
// two others control all, and they hand over its part; in the end one dies, and the two others take
// over what it controlled.
func BenchmarkThreeControllersDecide(b *testing.B) {
	const many = 10_000
	now := time.Now()
	on := newCluster(b)
	c := newCrowd(b, on.open, many, true, func(int) time.Time { return now })
	c.environments = environments.New(on.open(), time.Now)
	decided := make(chan time.Time, 1)
	c.recorded = func(e deploylog.Event) {
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
