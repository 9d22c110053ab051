package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// counted makes names that were not used before.
var counted atomic.Int64

func uncounted() deploylog.Event { return event(fmt.Sprint(counted.Add(1)), "a") }

// whole is more parts than any test sends over a cable.
const whole = 1 << 40

// ends says whether the part at which a connection is cut still reaches the server. It does in make test, where
// the client knows least of what came of it; make test-all cuts before as well.
func ends() []bool {
	if ringtest.All() {
		return []bool{true, false}
	}
	return []bool{true}
}

// next is the part after so many at which a connection is cut: make test leaves out each second one of
// those after the first few.
func next(parts int64) int64 {
	if parts < 4 || ringtest.All() {
		return parts + 1
	}
	return parts + 2
}

// eachCut does something again and again, and cuts the connection at one message after the other, before
// it reaches the server or after, until it is done before the cut. What it was to do is checked
// with the connection whole again; a cut that was not survived has to say what was attempted.
func eachCut(t *testing.T, schema, says string, try func(t *testing.T, url string, cut func()) error, check func(t *testing.T, url string, failed error)) {
	for _, after := range ends() {
		failures := 0
		for parts, more := int64(0), true; more; parts = next(parts) {
			sound := t.Run(fmt.Sprintf("after %d parts (the last reaches the server: %v)", parts, after), func(t *testing.T) {
				c, url := newCable(t, schema)
				c.after.Store(after)
				err := try(t, url, func() { c.parts.Store(parts) })
				left := c.parts.Swap(whole)
				if err != nil {
					failures++
					assert.ErrorContains(t, err, says)
					assert.NotContains(t, err.Error(), "\n")
				}
				check(t, url, err)
				more = left <= 0 || left >= whole
			})
			if !sound {
				return
			}
		}
		assert.GreaterOrEqual(t, failures, 3, "cuts that were noticed")
	}
}

// Wherever the connection is cut while locks are taken, and taken over, a process has all of them or
// none, and whoever tries next has them.
func TestWhereverTheConnectionIsCutLocksAreTakenWhollyOrNot(t *testing.T) {
	t.Parallel()
	const schema = "cut_locks"
	names := []string{"one", "two", "new"}
	other := open(t, server.URL(schema))
	var l *postgres.Log
	eachCut(t, schema, "lock \"", func(t *testing.T, url string, cut func()) error {
		leave(t, schema, names[:2]...)
		l = open(t, url)
		l.SetAttendPause(time.Hour) // what is sent beside what is cut would be cut, too
		l.SetPatience(time.Hour)
		cut()
		var failed []error
		for _, one := range l.TryLocks(names...) {
			if one.Err != nil {
				failed = append(failed, one.Err)
			}
		}
		assert.True(t, len(failed) == 0 || len(failed) == len(names), "of %d locks these are not taken: %v", len(names), failed)
		return errors.Join(failed[:min(len(failed), 1)]...)
	}, func(t *testing.T, _ string, failed error) {
		if failed == nil {
			for i, one := range other.TryLocks(names...) {
				assert.ErrorIs(t, one.Err, deploylog.ErrLocked, "somebody else has %s, too", names[i])
			}
			l.UnlockAll(names...)
		}
		ctx := waittest.Context(t)
		for _, next := range []*postgres.Log{l, other} {
			var unlock []func()
			for _, name := range names {
				one, err := next.Lock(ctx, name)
				require.NoError(t, err, "afterwards")
				unlock = append(unlock, one)
			}
			assert.NoError(t, errOf(next.Append(t.Context(), uncounted())), "an append afterwards")
			for _, one := range unlock {
				one()
			}
		}
		assert.NoError(t, l.Close())
	})
}

func TestWhereverTheConnectionIsCutObjectsAreKeptWhollyOrNot(t *testing.T) {
	t.Parallel()
	const schema = "cut_objects"
	other := objects.Via(open(t, server.URL(schema)).Objects())
	var content []byte
	var store objects.Store
	eachCut(t, schema, "storing object ", func(t *testing.T, url string, cut func()) error {
		content = fmt.Append(bytes.Repeat([]byte("x"), 100<<10), counted.Add(1))
		store = objects.Via(open(t, url).Objects())
		cut()
		_, err := store.Keep(content)
		return err
	}, func(t *testing.T, _ string, failed error) {
		got, err := other.Load(objects.Hash(content))
		missing := failed != nil && errors.Is(err, objects.ErrMissing)
		assert.True(t, missing || err == nil && bytes.Equal(got, content), "there are %d bytes: %v", len(got), err)
		assert.NoError(t, errOf(store.Keep(content)), "again")
		loads(t, other, content)
	})
}

func loads(t *testing.T, store objects.Store, content []byte) {
	got, err := store.Load(objects.Hash(content))
	assert.NoError(t, err)
	assert.True(t, bytes.Equal(got, content), "there are %d of %d bytes", len(got), len(content))
}

// Wherever the connection is cut while an object is fetched, nobody gets a part of it, or is told
// that it is missing, and it can be fetched again.
func TestWhereverTheConnectionIsCutObjectsAreFetchedWhollyOrNot(t *testing.T) {
	t.Parallel()
	const schema = "cut_fetches"
	content := bytes.Repeat([]byte("x"), 100<<10)
	hash := must.Get(objects.Via(open(t, server.URL(schema)).Objects()).Keep(content))(t)
	var store objects.Store
	eachCut(t, schema, "object "+hash, func(t *testing.T, url string, cut func()) error {
		store = objects.Via(open(t, url).Objects())
		cut()
		got, err := store.Load(hash)
		assert.True(t, (err != nil || bytes.Equal(got, content)) && !errors.Is(err, objects.ErrMissing) &&
			!errors.Is(err, objects.ErrAltered), "there are %d bytes: %v", len(got), err)
		return err
	}, func(t *testing.T, _ string, _ error) { loads(t, store, content) })
}

func TestWhereverTheConnectionIsCutALogIsMadeWhollyOrNot(t *testing.T) {
	t.Parallel()
	for schema, c := range map[string]struct{ attempt, before, none string }{
		"cut_new": {"create the log: ", "DROP SCHEMA cut_new CASCADE", "0 tables, 0 triggers, version 0"},
		"cut_old": {"bring the log to version 2: ", firstVersion, "3 tables, 2 triggers, version 1"},
	} {
		t.Run(schema, func(t *testing.T) {
			require.NoError(t, open(t, server.URL(schema)).Close())
			said := 0
			eachCut(t, schema, "open deployment log: ", func(t *testing.T, url string, cut func()) error {
				sql(t, schema, c.before)
				cut()
				err := notOpened(t, url, postgres.Options{})
				if err != nil && strings.Contains(err.Error(), c.attempt) {
					said++
				}
				return err
			}, func(t *testing.T, url string, failed error) {
				state := made(t, schema)
				assert.True(t, state == "6 tables, 2 triggers, version 2" || failed != nil && state == c.none, "%v, and there are %s", failed, state)
				assert.NoError(t, errOf(open(t, url).Append(t.Context(), uncounted())), "the next command")
			})
			assert.GreaterOrEqual(t, said, ringtest.Cases(2, 3), "errors that say what was attempted")
		})
	}
}

func made(t *testing.T, schema string) string {
	t.Helper()
	var tables, triggers, version int64
	c := connected(t, server, schema)
	defer c.Close(context.Background())
	does(t, c, "BEGIN ISOLATION LEVEL REPEATABLE READ") // the server may be about to commit
	require.NoError(t, c.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = $1),
		(SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text IN ('log', 'events') AND tgenabled = 'O')`, schema).Scan(&tables, &triggers))
	if tables > 0 {
		require.NoError(t, c.QueryRow(t.Context(), "SELECT version FROM log").Scan(&version))
	}
	return fmt.Sprintf("%d tables, %d triggers, version %d", tables, triggers, version)
}

// cable is a way to the server that can be cut.
type cable struct {
	dir   string
	parts atomic.Int64 // that the client may still send; the next one cuts the connection that sends it
	after atomic.Bool  // the part that cuts reaches the server
	held  atomic.Bool  // nothing reaches the server
	rate  atomic.Int64 // bytes a second that reach it; 0 is no limit
	mu    sync.Mutex
	all   []net.Conn
}

// cancels is how a client begins that has the server end what a connection was at, which is lost, too.
var cancels = []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}

// newCable makes a way to a server, whose URL is returned.
func newCable(t *testing.T, schema string) (*cable, string) {
	dir, err := os.MkdirTemp("", "c-") // short: the paths of sockets are bounded
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cable{dir: dir}
	c.parts.Store(whole)
	listener := must.Get(net.Listen("unix", filepath.Join(c.dir, ".s.PGSQL.5432")))(t)
	there := server.URL(schema)
	from := there[strings.Index(there, "host=")+len("host=") : strings.Index(there, "&")]
	socket := filepath.Join(strings.ReplaceAll(from, "%2F", "/"), ".s.PGSQL.5432")
	var copying sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		c.cut()
		copying.Wait()
	})
	copying.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil {
				_ = near.Close()
				continue
			}
			c.mu.Lock()
			c.all = append(c.all, near, far)
			c.mu.Unlock()
			copying.Go(func() { c.copy(far, near, true) })
			copying.Go(func() { c.copy(near, far, false) })
		}
	})
	return c, strings.Replace(there, from, strings.ReplaceAll(c.dir, "/", "%2F"), 1)
}

func (c *cable) copy(to, from net.Conn, counted bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	part := make([]byte, 64<<10)
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		if counted && (c.held.Load() || bytes.Equal(part[:min(n, 8)], cancels)) {
			continue
		}
		if rate := c.rate.Load(); counted && rate > 0 {
			<-time.After(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if counted && c.parts.Add(-1) < 0 {
			if c.after.Load() {
				_, _ = to.Write(part[:n])
			}
			return
		}
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		_ = conn.Close()
	}
}

func sized(host string, bytes int) deploylog.Event {
	e := event("d", host)
	e.Data = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
	return e
}

// What is many times what a slow link takes within the time for an answer comes into the log all the same: that is
// about the link, and not about the server. Nor does that take who sends for somebody who hangs, however large one
// event is. TestRowsAreInsertedInParts and TestManySmallEventsAreAppendedInParts are the tests of this in make test.
func TestMuchIsAppendedOverASlowLink(t *testing.T) {
	if !ringtest.All() {
		return
	}
	t.Parallel()
	c, url := newCable(t, "slow")
	l := open(t, url)
	l.SetAnswerTime(10 * time.Second)
	l.SetTurnTime(10 * time.Second)
	appends(t, l, event("d", "first"))
	c.rate.Store(64 << 10)
	assert.NoError(t, errOf(l.Append(t.Context(), sized("one", deploylog.MaxData), sized("two", 200<<10), sized("three", 200<<10))))
	c.rate.Store(0)
	verified(t, l, 4)
}

func TestManySmallEventsAreAppendedInParts(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("small"))
	events := make([]deploylog.Event, 3000)
	for i := range events {
		events[i] = event(fmt.Sprintf("%0500d", i), "a")
	}
	for range 2 {
		if _, err := l.Append(t.Context(), event("d", "first")); !errors.Is(err, deploylog.ErrDuplicate) {
			require.NoError(t, err)
		}
		_, err := l.AppendThen(t.Context(), []deploylog.Event{event("d", "last")}, func(unread []deploylog.Event) []deploylog.Event {
			if len(unread) == 1 {
				return events
			}
			return nil
		})
		if !errors.Is(err, deploylog.ErrDuplicate) {
			require.NoError(t, err)
		}
	}
	assert.ErrorIs(t, errOf(l.Append(t.Context(), event("d", "other"), events[2000])), deploylog.ErrDuplicate, "one that is there")
	verified(t, l, 3002)
}

// A server that does not answer is waited for no longer for all that was sent to it before, which
// would be for longer than this one hangs.
func TestAServerThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	const schema = "hangs"
	l := open(t, server.URL(schema))
	sql(t, schema, `CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(50); RETURN NEW; END $$;
		CREATE TRIGGER hang BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.target = 'host/last') EXECUTE FUNCTION hang()`)
	all := []deploylog.Event{sized("first", 600<<10), sized("second", 600<<10), event("d", "last")}
	assert.ErrorIs(t, errOf(l.AppendThen(t.Context(), all, func([]deploylog.Event) []deploylog.Event {
		l.SetAnswerTime(time.Second)
		return nil
	})), deploylog.ErrUnwritten)
	verified(t, open(t, server.URL(schema)), 0)
}

func started(t *testing.T, s *pgtest.Server, err error) *pgtest.Server {
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Remove()) })
	require.NoError(t, s.Start(pgtest.Cheap()...))
	return s
}

func pair(t *testing.T) (primary, standby *pgtest.Server) {
	t.Helper()
	primary, err := pgtest.New()
	primary = started(t, primary, err)
	standby, err = primary.Standby()
	standby = started(t, standby, err)
	wait(t, primary, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')")
	return primary, standby
}

func configure(t *testing.T, s *pgtest.Server, setting string) {
	t.Helper()
	c := connected(t, s, "public")
	does(t, c, "ALTER SYSTEM SET "+setting)
	does(t, c, "SELECT pg_reload_conf()")
}

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
