package postgres

import (
	"net"
	"time"

	"github.com/deployster-go/deployster/internal/keepalive"
)

// silence is how long a server may leave unanswered what was sent to it before it is taken for gone. A
// server that is there says that something has come, however long it works on that; it may have no
// room for more while a statement lasts, which is at most as long.
const silence = time.Minute

// connectTime is how long one of the servers of a URL may take until it is connected, where the URL
// does not say.
const connectTime = 10 * time.Second

// dialer makes connections that end within a minute when the machine of the server, or the network,
// is gone without a word.
func dialer(timeout time.Duration) *net.Dialer {
	return keepalive.Dialer(timeout, 5*time.Second, silence)
}
