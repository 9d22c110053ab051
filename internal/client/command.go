package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

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
		method: http.MethodPost, path: "/v1/" + kind + "/" + url.PathEscape(name) + "/commands/" + verb.Name,
		body: body, header: http.Header{},
	}
	if asOf > 0 {
		r.header.Set("If-Match", strconv.Quote(strconv.FormatInt(asOf, 10)))
	}
	var out struct {
		Events []deploylog.Event `json:"events"`
	}
	err = l.ask(ctx, r, &out)
	var refused *Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed {
		return nil, reconcile.ErrMoved
	}
	return out.Events, err
}

var _ reconcile.Commanded = (*Log)(nil)
