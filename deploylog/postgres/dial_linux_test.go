package postgres

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/must"
)

func TestConnectionsEndWhenTheServerIsGoneWithoutAWord(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	where := must.Get(parse("postgres://" + listener.Addr().String() + "/log"))(t)
	conn := must.Get(where.config.DialFunc(t.Context(), "tcp", listener.Addr().String()))(t)
	defer conn.Close()
	socket, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	option := func(level, name int) (value int) {
		failed := socket.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) })
		require.True(t, failed == nil && err == nil, "%v %v", failed, err)
		return value
	}
	ms := option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	assert.True(t, ms > 0 && ms <= 60_000, "what was sent may stay unanswered for %d ms", ms)
	idle, interval, count := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL), option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
	assert.True(t, option(unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 0 &&
		idle+interval*count <= 60, "a silent connection is asked about after %d s, every %d s, %d times", idle, interval, count)
}
