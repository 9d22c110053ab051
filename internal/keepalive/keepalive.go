// Package keepalive makes connections that end when the machine at the other side, or the network, is gone
// without a word. TCP alone takes a quarter of an hour to find out.
package keepalive

import (
	"net"
	"time"
)

// Dialer returns a dialer that takes up to timeout for a connection. TCP asks about a silent one after 15 seconds,
// and again three times, every so often. It ends if what was sent is not acknowledged within the silence.
func Dialer(timeout, every, silence time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: every, Count: 3},
		Control:         notSilent(silence),
	}
}
