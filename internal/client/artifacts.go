package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// HasArtifact reports whether the server has an artifact, which then stays there until a group
// that is submitted carries it.
func (c *Client) HasArtifact(ctx context.Context, digest string) (bool, error) {
	var refused *Refusal
	err := c.get(ctx, "/v1/artifacts/"+digest, nil, nil)
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// SendArtifact brings an artifact of a store to the server, unless that has it. What breaks off
// is sent again.
func (c *Client) SendArtifact(ctx context.Context, from *artifacts.Store, digest string) error {
	return c.again(ctx, func() error {
		if has, err := c.HasArtifact(ctx, digest); has || err != nil {
			return err
		}
		body, layer, err := from.Open(ctx, digest)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // it is read only
		ctx, idle, cancel := unlessIdle(ctx, c.idle)
		defer cancel()
		answer, err := c.do(ctx, request{
			method: http.MethodPut, path: "/v1/artifacts/" + digest, query: url.Values{"layer": {layer.Digest}},
			stream: body, length: layer.Size, kind: "application/octet-stream", idle: idle,
			header: http.Header{"Expect": {"100-continue"}}, // what is refused need not be sent
		})
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
		return errors.Join(err, answer.Body.Close())
	})
}
