package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// started starts a server that was made, and removes it after the test.
func started(t *testing.T, s *pgtest.Server, err error) *pgtest.Server {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Remove()) })
	require.NoError(t, s.Start(pgtest.Cheap()...))
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

// configure changes a setting of a server that runs.
func configure(t *testing.T, s *pgtest.Server, setting string) {
	t.Helper()
	c := connected(t, s, "public")
	does(t, c, "ALTER SYSTEM SET "+setting)
	does(t, c, "SELECT pg_reload_conf()")
}

// wait waits until a query says true.
func wait(t *testing.T, s *pgtest.Server, query string) {
	t.Helper()
	c, ctx := connected(t, s, "public"), waittest.Context(t)
	defer c.Close(context.Background())
	for done := false; !done; {
		require.NoError(t, c.QueryRow(ctx, query).Scan(&done), query)
	}
}

// If the server waits for a standby, nothing that was acknowledged is lost with the server. Who
// had a lock of it appends nothing more. TestAServerThatIsStartedAgain is the test of this with one server.
func TestAFailoverToAStandbyLosesNothingThatWasAcknowledged(t *testing.T) {
	if !ringtest.All() {
		return
	}
	t.Parallel()
	primary, standby := pair(t)
	configure(t, primary, "synchronous_standby_names = '*'")
	wait(t, primary, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
	url := primary.URLWith(standby, "log")
	l, holder := open(t, url), open(t, url)
	require.NoError(t, errOf(holder.TryLock("stage")))
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
			require.NoError(t, primary.Kill())
		}
	}
	does(t, connected(t, standby, "public"), "SELECT pg_promote()")
	again := open(t, url)
	appends(t, again, event("after", "a"))
	all := read(t, again, deploylog.Filter{})
	for _, e := range all {
		delete(written, e.Deployment)
	}
	assert.Empty(t, written, "acknowledged and lost")
	assert.True(t, refused(errOf(holder.Append(t.Context(), event("holder", "a")))), "who had a lock appends")
	verified(t, again, max(51, len(all)))
}

// A standby that is behind lacks the newest events. Who appended them, and goes on, continues the
// log that there is. TestNothingIsRememberedOfAnotherServer is the test of this with one server.
func TestAFailoverToAStandbyThatIsBehind(t *testing.T) {
	if !ringtest.All() {
		return
	}
	t.Parallel()
	primary, standby := pair(t)
	l := open(t, primary.URLWith(standby, "log"))
	appends(t, l, hosts("there", 10)...)
	wait(t, standby, "SELECT to_regclass('log.events') IS NOT NULL")
	wait(t, standby, "SELECT count(*) = 10 FROM log.events")
	configure(t, standby, "primary_conninfo = ''")
	wait(t, standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")
	appends(t, l, hosts("lost", 10)...)
	require.NoError(t, primary.Kill())
	does(t, connected(t, standby, "public"), "SELECT pg_promote()")
	appends(t, l, hosts("lost", 10)...)
	verified(t, l, 20)
}

// A server that is started again is no failure for who was not appending, and locks are free.
func TestAServerThatIsStartedAgain(t *testing.T) {
	t.Parallel()
	s, err := pgtest.New()
	s = started(t, s, err)
	l, holder := open(t, s.URL("log")), open(t, s.URL("log"))
	appends(t, l, event("d", "a"))
	watching(t, l, 1)
	require.NoError(t, errOf(holder.TryLock("stage")))
	require.NoError(t, s.Kill())
	err = errOf(l.Append(t.Context(), event("d", "b")))
	assert.True(t, err != nil && !refused(err), "without a server: %v", err)
	assert.ErrorContains(t, notOpened(t, s.URL("log"), postgres.Options{}), "is the server running there?")
	require.NoError(t, s.Start(pgtest.Cheap()...))
	appends(t, l, event("d", "b"))
	require.NoError(t, errOf(l.TryLock("stage")), "the lock of a server that was killed")
	assert.True(t, refused(errOf(holder.Append(t.Context(), event("d", "c")))), "who had a lock appends")
	verified(t, l, 2)
}

// outcomes are what several who append were told.
type outcomes struct {
	acknowledged sync.Map     // deployments
	count        atomic.Int64 // of these
	failed       atomic.Int64 // appends
}

// appendsThroughout appends one event after the other through a log of its own. Where one failed, it waits until
// the server is up and appends the same event again, through a log that it opens anew where that
// is necessary. It ends when the server has been up for so many events.
func (o *outcomes) appendsThroughout(ctx context.Context, url, name string, up <-chan struct{}, more int) error {
	l, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	for i := 0; more > 0; i++ {
		select {
		case <-up:
			more--
		default:
		}
		deployment := fmt.Sprintf("%s-%d", name, i)
		for sent, done := false, false; !done; {
			_, err := l.Append(ctx, event(deployment, "a"), event(deployment, "b"))
			switch {
			case err == nil, sent && errors.Is(err, deploylog.ErrDuplicate):
				o.acknowledged.Store(deployment, true)
				o.count.Add(1)
				done = true
				continue
			case errors.Is(err, deploylog.ErrDuplicate):
				return fmt.Errorf("%s is there, and no append of it has succeeded or may have: %w", deployment, err)
			}
			sent = sent || refused(err) // events were on their way
			o.failed.Add(1)
			select {
			case <-up:
			case <-ctx.Done():
				return ctx.Err()
			}
			if !refused(err) {
				continue
			}
			_ = l.Close()
			if l, err = postgres.Open(ctx, url, postgres.Options{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// A server that crashes while many append loses nothing that it has acknowledged, and has nothing twice.
// What is said to be not on its way is not there, so it can be appended again. For one who appends
// TestWhereverTheConnectionIsCutNothingIsLostOrDoubled is the test of this.
func TestAServerThatCrashesWhileManyAppend(t *testing.T) {
	if !ringtest.All() {
		return
	}
	t.Parallel()
	s, err := pgtest.New()
	s = started(t, s, err)
	reader := open(t, s.URL("log"))
	told, up := &outcomes{}, make(chan struct{})
	ctx := waittest.Context(t)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() { assert.NoError(t, told.appendsThroughout(ctx, s.URL("log"), fmt.Sprint(n), up, 10)) })
	}
	wait(t, s, "SELECT count(*) >= 200 FROM log.events")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Start(pgtest.Cheap()...))
	close(up)
	all.Wait()
	assert.NotZero(t, told.failed.Load(), "no append failed")
	found, events := map[string]int{}, read(t, reader, deploylog.Filter{})
	for i, e := range events {
		assert.EqualValues(t, i+1, e.Seq)
		found[e.Deployment]++
	}
	for deployment, n := range found {
		_, acknowledged := told.acknowledged.Load(deployment)
		assert.True(t, n == 2 && acknowledged, "of %s there are %d events, acknowledged: %v", deployment, n, acknowledged)
	}
	assert.EqualValues(t, told.count.Load(), len(found))
	verified(t, reader, len(events))
}
