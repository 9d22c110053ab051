package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/internal/proposal"
)

// ErrNotFollowed is wrapped where a server does not, or not any more, carry out a run: of how
// it ended the log may know.
var ErrNotFollowed = errors.New("the server does not carry it out")

// BeginRun has a server begin a run, once.
func (c *Client) BeginRun(ctx context.Context, r proposal.Run) (begun proposal.Begun, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return begun, fmt.Errorf("encoding the run: %w", err)
	}
	asked := request{method: http.MethodPost, path: "/v1/runs", body: body, header: http.Header{"Idempotency-Key": {rand.Text()}}}
	err = c.where(ctx, func() error { return c.again(ctx, func() error { return c.ask(ctx, asked, &begun) }) })
	return begun, err
}

// BeginPlan has a server plan a run, which changes nothing.
func (c *Client) BeginPlan(ctx context.Context, r proposal.Run) (proposal.Begun, error) {
	return c.beginLook(ctx, "/v1/plans", r)
}

// BeginDrift has a server look whether resources are as they are configured.
func (c *Client) BeginDrift(ctx context.Context, r proposal.Run) (proposal.Begun, error) {
	return c.beginLook(ctx, "/v1/drifts", r)
}

func (c *Client) beginLook(ctx context.Context, path string, r proposal.Run) (begun proposal.Begun, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return begun, fmt.Errorf("encoding the run: %w", err)
	}
	asked := request{method: http.MethodPost, path: path, body: body}
	err = c.again(ctx, func() error { return c.ask(ctx, asked, &begun) }) // one that nobody follows changes nothing either
	return begun, err
}

// Plan is what a server has planned, as it sends it.
func (c *Client) Plan(ctx context.Context, run string) (text json.RawMessage, err error) {
	err = c.where(ctx, func() error { return c.get(ctx, "/v1/plans/"+url.PathEscape(run), nil, &text) })
	return text, err
}

// SavedPlan is what a server has planned, as it sends it to be saved.
func (c *Client) SavedPlan(ctx context.Context, run string) (text json.RawMessage, err error) {
	err = c.where(ctx, func() error { return c.get(ctx, "/v1/plans/"+url.PathEscape(run)+"/saved", nil, &text) })
	return text, err
}

// Drift is what a server saw of resources, as it sends it.
func (c *Client) Drift(ctx context.Context, run string) (text json.RawMessage, err error) {
	err = c.where(ctx, func() error { return c.get(ctx, "/v1/drifts/"+url.PathEscape(run), nil, &text) })
	return text, err
}

// StopRun has a server begin nothing new of a run.
func (c *Client) StopRun(ctx context.Context, run string) error {
	asked := request{method: http.MethodPost, path: "/v1/runs/" + url.PathEscape(run) + "/stop"}
	return c.where(ctx, func() error { return c.again(ctx, func() error { return c.ask(ctx, asked, nil) }) })
}

// others is how often in a row a server may say that it does not have a run or a plan until that is
// believed, and otherPause is between.
const (
	others     = 8
	otherPause = 50 * time.Millisecond
)

// where does what one server of a log can do alone, because it carries out a run or has a plan.
// Behind a load balancer another one may be asked, and each time a different one.
func (c *Client) where(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		var refused *Refusal
		if n == others || !errors.As(err, &refused) || refused.Status != http.StatusNotFound && refused.Status != http.StatusGone {
			return err
		}
		c.http.CloseIdleConnections() // each leads to the same server as before
		select {
		case <-ctx.Done():
			return err
		case <-time.After(otherPause):
		}
	}
}

// followTries is how often in a row a server is asked in vain how a run goes on: it may be
// restarted meanwhile.
const followTries = 60

// FollowRun observes a run until it has ended. Where the connection ends it goes on with a new
// one, behind what it has observed.
func (c *Client) FollowRun(ctx context.Context, run string, observe func(proposal.Observed)) (end proposal.End, err error) {
	after := int64(0)
	for failures := 0; ; {
		var last proposal.End
		err := c.where(ctx, func() (err error) {
			last, err = c.observeRun(ctx, run, after, func(o proposal.Observed) {
				after, failures = o.N, 0
				observe(o)
			})
			return err
		})
		var refused *Refusal
		switch {
		case err == nil:
			return last, nil
		case ctx.Err() != nil:
			return end, ctx.Err()
		case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
			return end, fmt.Errorf("run %s: %w", run, ErrNotFollowed)
		case errors.As(err, &refused) && refused.lasts(), errors.Is(err, errForeign):
			return end, err
		}
		if failures++; failures == followTries {
			return end, err
		}
		select {
		case <-ctx.Done():
			return end, ctx.Err()
		case <-time.After(rewatch):
		}
	}
}

// observeRun observes a run over one connection.
func (c *Client) observeRun(ctx context.Context, run string, after int64, observe func(proposal.Observed)) (end proposal.End, err error) {
	ctx, idle, cancel := unlessIdle(ctx, quiet)
	defer cancel()
	failed := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("following run %s at server %s: %w", run, c.server, err)
	}
	answer, err := c.do(ctx, request{
		method: http.MethodGet, path: "/v1/runs/" + url.PathEscape(run) + "/events", query: url.Values{"after": {strconv.FormatInt(after, 10)}}, once: true,
	})
	if err != nil {
		return end, err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	lines := bufio.NewReaderSize(idle.progress(answer.Body), 64<<10)
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return end, failed(io.ErrUnexpectedEOF)
		case err != nil:
			return end, failed(err)
		case len(line) <= 1: // it is alive
			continue
		}
		var o proposal.Observed
		if err := json.Unmarshal(line, &o); err != nil {
			return end, failed(err)
		}
		if o.End != nil {
			return *o.End, nil
		}
		observe(o)
	}
}
