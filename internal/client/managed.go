package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/deployster-go/deployster/control/managed"
)

// mostThings are asked for at once.
const mostThings = 1000

// Managed is what runs of the server's log made and is still there: all, or what is of a manifest, or orphans alone.
func (c *Client) Managed(ctx context.Context, manifest string, orphans bool) (rows []managed.Row, err error) {
	query := url.Values{"limit": {strconv.Itoa(mostThings)}}
	if manifest != "" {
		query.Set("manifest", manifest)
	}
	if orphans {
		query.Set("orphans", "true")
	}
	for {
		var part struct {
			Items []managed.Row `json:"items"`
			Next  string        `json:"next"`
		}
		if err := c.get(ctx, "/v1/things", query, &part); err != nil {
			return nil, err
		}
		rows = append(rows, part.Items...)
		if part.Next == "" {
			return rows, nil
		}
		query.Set("cursor", part.Next)
	}
}
