package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/inventory"
)

// Fleet is where a server has the jobs of build groups done.
type Fleet struct {
	Identity string           `json:"identity"` // what the inventory is known as; "" where there is none
	Platform string           `json:"platform"` // of the server
	Hosts    []inventory.Host `json:"hosts"`    // without how their engines are reached
}

// Workers are those of the server.
func (c *Client) Workers(ctx context.Context) (f Fleet, err error) {
	return f, c.get(ctx, "/v1/workers", nil, &f)
}

// Look has the server ask a worker for which platforms it builds.
func (c *Client) Look(ctx context.Context, worker string) ([]string, error) {
	var out struct {
		Platforms []string `json:"platforms"`
	}
	asked := request{method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(worker) + "/look"}
	err := c.again(ctx, func() error { return c.ask(ctx, asked, &out) })
	return out.Platforms, err
}

// Image has the server find out which content an image has on a worker, which may have to get
// it first.
func (c *Client) Image(ctx context.Context, worker, ref string, policy engine.PullPolicy) (engine.Image, error) {
	body, err := json.Marshal(map[string]string{"image": ref, "pull": string(policy)})
	if err != nil {
		return engine.Image{}, fmt.Errorf("asking for image %s: %w", ref, err)
	}
	var got image
	err = c.again(ctx, func() (err error) { // it is the same however often it is asked for
		got, err = c.image(ctx, worker, ref, body)
		return err
	})
	switch {
	case err != nil:
		return engine.Image{}, err
	case got.Problem != "":
		return engine.Image{}, errors.New(got.Problem)
	}
	return engine.Image{Ref: ref, ID: got.ID, Digest: got.Digest, OS: got.OS, Arch: got.Arch}, nil
}

// image is the content of an image on a worker, as the server says it.
type image struct{ ID, Digest, OS, Arch, Problem string }

// image asks for the content of an image once.
func (c *Client) image(ctx context.Context, worker, ref string, body []byte) (got image, err error) {
	ctx, idle, cancel := unlessIdle(ctx, c.idle)
	defer cancel()
	answer, err := c.do(ctx, request{method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(worker) + "/images", body: body, idle: idle})
	if err != nil {
		return got, err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	text, err := io.ReadAll(io.LimitReader(idle.progress(answer.Body), maxAnswer))
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("it has ended before it had the image")
	}
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		err = fmt.Errorf("server %s: asking for image %s: %w", c.server, ref, err)
	}
	return got, err
}
