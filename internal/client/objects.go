package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/deployster-go/deployster/internal/objects"
)

// Objects are those that the revisions of the log of a server carry.
type Objects struct{ client *Client }

// Objects are those of a server.
func (c *Client) Objects() Objects { return Objects{c} }

// Load implements objects.Remote. Its caller makes sure that it is what was asked for.
func (o Objects) Load(hash string) ([]byte, error) {
	ctx, idle, cancel := unlessIdle(context.Background(), o.client.idle)
	defer cancel()
	answer, err := o.client.do(ctx, request{method: http.MethodGet, path: "/v1/objects/" + hash, idle: idle})
	var refused *Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil, fmt.Errorf("at server %s it %w", o.client.server, objects.ErrMissing)
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	content, err := io.ReadAll(io.LimitReader(idle.progress(answer.Body), objects.MaxSize+1))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("server %s: %w", o.client.server, err)
	}
	return content, nil
}

// Keep implements objects.Remote. What is cut off is sent again: it is the same however often it is kept.
func (o Objects) Keep(hash string, content []byte) error {
	return o.client.again(context.Background(), func() error {
		ctx, idle, cancel := unlessIdle(context.Background(), o.client.idle)
		defer cancel()
		answer, err := o.client.do(ctx, request{method: http.MethodPut, path: "/v1/objects/" + hash, body: content, kind: "application/octet-stream", idle: idle})
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

// Salt implements objects.Remote.
func (o Objects) Salt() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), shortly)
	defer cancel()
	var out struct {
		Salt string `json:"salt"`
	}
	err := o.client.again(ctx, func() error {
		return o.client.ask(ctx, request{method: http.MethodPost, path: "/v1/salt"}, &out)
	})
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(out.Salt)
}
