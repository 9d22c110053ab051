package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/proposal"
)

// Command implements reconcile.Commanded: the server decides what a command comes to.
func (l *Log) Command(ctx context.Context, kind, name string, command any, asOf int64) ([]deploylog.Event, error) {
	verb, body, err := proposal.Encode(kind, command)
	if err != nil {
		return nil, err
	}
	r := request{
		method: http.MethodPost, path: verb.Path(url.PathEscape(name)),
		body: body, header: http.Header{},
	}
	r.header.Set("Idempotency-Key", rand.Text())
	if asOf > 0 {
		r.header.Set("If-Match", strconv.Quote(strconv.FormatInt(asOf, 10)))
	}
	var out struct {
		Events []deploylog.Event `json:"events"`
	}
	err = l.again(ctx, func() error { return l.ask(ctx, r, &out) })
	var refused *Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed {
		return nil, reconcile.ErrMoved
	}
	return out.Events, err
}

// tries is how often a command is sent whose answer does not come, and firstPause how long the
// sender waits before the second time, which is doubled each time: a server may be restarted
// meanwhile.
const (
	tries      = 6
	firstPause = 250 * time.Millisecond
)

// again does what may be done again, as long as the connection is cut. A server that cannot be
// reached at all has not been asked.
func (c *Client) again(ctx context.Context, do func() error) error {
	pause := firstPause
	for n := 1; ; n++ {
		err := do()
		var refused *Refusal
		var unreached *net.OpError
		switch {
		case err == nil, ctx.Err() != nil, n == tries, errors.As(err, &refused), errors.Is(err, errForeign),
			n == 1 && errors.As(err, &unreached) && unreached.Op == "dial":
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

var _ reconcile.Commanded = (*Log)(nil)
