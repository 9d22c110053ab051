package postgres_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
	t.Helper()
	dir, err := os.MkdirTemp("", "c-") // short: the paths of sockets are bounded
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cable{dir: dir}
	c.parts.Store(whole)
	listener, err := net.Listen("unix", filepath.Join(c.dir, ".s.PGSQL.5432"))
	require.NoError(t, err)
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
