package client

import (
	"context"

	"github.com/deployster-go/deployster/inventory"
)

// Inventory is the hosts that queries of the server select from, and what that inventory is
// known as. How their engines are reached is not said.
func (c *Client) Inventory(ctx context.Context) (identity string, hosts []inventory.Host, err error) {
	var out struct {
		Identity string           `json:"identity"`
		Hosts    []inventory.Host `json:"hosts"`
	}
	err = c.get(ctx, "/v1/inventory", nil, &out)
	return out.Identity, out.Hosts, err
}
