// Package host is the commands of the hosts of an inventory.
package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/inventory"
)

// NewCommand returns the commands of the hosts of an inventory.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "host",
		Short: "List, check and trust hosts of the inventory",
		Long: `List, check and trust hosts of the inventory.

The inventory is a YAML file of hosts, each with the endpoint or the docker context of its
engine. "deployster schema inventory" prints its format. DOCKER_HOST and DOCKER_CONTEXT do
not count for its hosts: they name the engine of "deployster plan" and "deployster apply".`,
		Example: "  deployster host list --query 'attribute:stack == beta'\n  deployster host check\n  deployster host trust",
	}
	c.AddCommand(newListCommand(a), newCheckCommand(a), newTrustCommand(a))
	return c
}

// options choose hosts of an inventory.
type options struct {
	inventory, query string
	names            []string // none are all that the query selects
}

func (o *options) register(c *cobra.Command) {
	arguments.RegisterInventory(c, &o.inventory)
	c.Flags().StringVar(&o.query, "query", "", "only hosts that this query selects")
}

// hosts reads the inventory and returns the chosen hosts.
func (o *options) hosts() ([]inventory.Host, error) {
	v, err := work.ReadInventory(o.inventory)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	list := v.Hosts
	if o.query != "" {
		q, err := inventory.ParseQuery(o.query)
		if err != nil {
			return nil, exit.Usage("--query: %w", err)
		}
		list = v.Select(q)
	}
	if len(o.names) == 0 {
		return append([]inventory.Host{}, list...), nil
	}
	var chosen []inventory.Host
	for _, name := range o.names {
		h, ok := v.Host(name)
		if !ok {
			return nil, exit.Usage("there is no host %q in %s%s", name, o.inventory, known(v, name))
		}
		chosen = append(chosen, h)
	}
	return chosen, nil
}

// known names the host that was meant, or the hosts that there are.
func known(v *inventory.Inventory, name string) string {
	var names []string
	for _, h := range v.Hosts {
		names = append(names, h.Name)
	}
	switch meant := suggest.Closest(name, names); {
	case meant != "":
		return fmt.Sprintf(", did you mean %q?", meant)
	case len(names) == 0:
		return ", which has no hosts"
	default:
		return ", which has " + phrase.First(names, 5)
	}
}

func newListCommand(a *app.App) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "list",
		Short: "List the hosts of the inventory",
		Long: `List the hosts of the inventory, or those that a query selects:

  attribute:stack == beta and platform in (linux/amd64, linux/arm64)
  name =~ "^web" or not attribute:old exists`,
		Example: "  deployster host list\n  deployster host list --query 'attribute:stack == beta'",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runList(a, o) },
	}
	a.RegisterWhole(c)
	o.register(c)
	return c
}

func runList(a *app.App, o options) error {
	list, err := o.hosts()
	if err != nil {
		return err
	}
	rows := [][]string{{"NAME", "ENGINE", "ENDPOINT", "SLOTS", "PLATFORMS", "ATTRIBUTES"}}
	for i, h := range list {
		list[i].Platforms = append([]string{}, h.Platforms...) // programs find a list, not null
		rows = append(rows, []string{h.Name, h.Engine, output.Dash(h.Where()), fmt.Sprint(h.Slots), output.Dash(strings.Join(h.Platforms, ",")), output.Dash(attributeText(h))})
	}
	return a.Listing(map[string]any{"hosts": list}, "no hosts", rows)
}

func attributeText(h inventory.Host) string {
	var all []string
	for key, values := range h.Attributes {
		all = append(all, key+"="+strings.Join(values, ","))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
