package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
)

// started starts a server that was made, and removes it after the test.
func started(t *testing.T, s *pgtest.Server, err error) *pgtest.Server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// pair is a server, and a standby that has all that it has.
func pair(t *testing.T) (primary, standby *pgtest.Server) {
	t.Helper()
	primary, err := pgtest.New()
	primary = started(t, primary, err)
	standby, err = primary.Standby()
	standby = started(t, standby, err)
	wait(t, primary, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')")
	return primary, standby
}

// wait waits until a query says true.
func wait(t *testing.T, s *pgtest.Server, query string) {
	t.Helper()
	c := connected(t, s, "public")
	defer c.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	for done := false; !done; {
		if err := c.QueryRow(ctx, query).Scan(&done); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// Where the server waits for a standby, nothing that was acknowledged is lost with the server. Who
// had a lock of it appends nothing more.
func TestAFailoverToAStandbyLosesNothingThatWasAcknowledged(t *testing.T) {
	primary, standby := pair(t)
	sql(t, primary, "public", "ALTER SYSTEM SET synchronous_standby_names = '*'")
	sql(t, primary, "public", "SELECT pg_reload_conf()")
	wait(t, primary, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
	url := primary.URLWith(standby, "log")
	l, holder := open(t, url), open(t, url)
	if _, err := holder.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(chan string)
	go func() {
		defer close(acknowledged)
		for i := 0; ; i++ {
			deployment := fmt.Sprintf("d%d", i)
			if _, err := l.Append(context.Background(), event(deployment, "a")); err != nil {
				return
			}
			acknowledged <- deployment
		}
	}()
	written := map[string]bool{}
	for deployment := range acknowledged {
		if written[deployment] = true; len(written) == 50 {
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	sql(t, standby, "public", "SELECT pg_promote()")
	again := open(t, url)
	if _, err := again.Append(t.Context(), event("after", "a")); err != nil {
		t.Fatal(err)
	}
	for e, err := range again.Read(t.Context(), deploylog.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		delete(written, e.Deployment)
	}
	if len(written) > 0 {
		t.Errorf("acknowledged and lost: %v", written)
	}
	if _, err := holder.Append(t.Context(), event("holder", "a")); !refused(err) {
		t.Errorf("who had a lock appends: %v", err)
	}
	if v, err := again.Verify(t.Context()); err != nil || v.Events < 51 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A standby that is behind lacks the newest events. Who appended them, and goes on, continues the
// log that there is.
func TestAFailoverToAStandbyThatIsBehind(t *testing.T) {
	primary, standby := pair(t)
	l := open(t, primary.URLWith(standby, "log"))
	appended := func(deployment, host string) {
		t.Helper()
		if _, err := l.Append(t.Context(), event(deployment, host)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		appended("there", fmt.Sprint(i))
	}
	wait(t, standby, "SELECT to_regclass('log.events') IS NOT NULL")
	wait(t, standby, "SELECT count(*) = 10 FROM log.events")
	sql(t, standby, "public", "ALTER SYSTEM SET primary_conninfo = ''")
	sql(t, standby, "public", "SELECT pg_reload_conf()")
	wait(t, standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")
	for i := range 10 {
		appended("lost", fmt.Sprint(i))
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	sql(t, standby, "public", "SELECT pg_promote()")
	for i := range 10 {
		appended("lost", fmt.Sprint(i))
	}
	if v, err := l.Verify(t.Context()); err != nil || v.Events != 20 {
		t.Errorf("%+v, %v", v, err)
	}
}
