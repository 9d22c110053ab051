// Package host is the commands of the hosts of an inventory.
package host

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine/kubernetes"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/inventory"
)

// NewCommand returns the commands of the hosts of an inventory.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "host",
		Short:   "List and check the hosts of the inventory",
		Example: "  deployster host list --query 'attribute:stack == beta'\n  deployster host check",
	}
	c.AddCommand(newListCommand(a), newCheckCommand(a))
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
			return nil, exit.Usage("there is no host %q in %s", name, o.inventory)
		}
		chosen = append(chosen, h)
	}
	return chosen, nil
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

func newCheckCommand(a *app.App) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:     "check [HOST…]",
		Short:   "Check that the engines of hosts answer",
		Long:    "Check that the engines of hosts answer, and that they run the platforms that the\ninventory says. Of a cluster it also says which rights are missing, whether the\nnamespace exists, and whether Pods would be admitted there. Exits with 1 when\nsomething is not as it must be.",
		Example: "  deployster host check\n  deployster host check antworker001\n  deployster host check --query 'attribute:stack == prod'",
		RunE: func(c *cobra.Command, names []string) error {
			if len(names) > 0 && o.query != "" {
				return exit.Usage("name hosts, or say --query, not both")
			}
			o.names = names
			return runCheck(c.Context(), a, o)
		},
	}
	o.register(c)
	return c
}

// checkedHost is what host check found.
type checkedHost struct {
	Name   string `json:"name"`
	Answer string `json:"answer,omitempty"` // its engine
	Error  string `json:"error,omitempty"`

	Cluster *kubernetes.Checked `json:"cluster,omitempty"` // of a host that is a namespace of one
}

// checkedAtOnce is how many hosts are asked at once.
const checkedAtOnce = 20

func runCheck(ctx context.Context, a *app.App, o options) error {
	list, err := o.hosts()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	found := make([]checkedHost, len(list))
	var group errgroup.Group
	group.SetLimit(checkedAtOnce)
	for i, h := range list {
		group.Go(func() (err error) {
			defer crash.Catch(&err, "asking the host "+h.Name)
			found[i] = checkHost(ctx, a, h, o.inventory)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	bad := 0
	rows := [][]string{{"NAME", "ANSWER"}}
	for _, f := range found {
		answer := "✔ " + f.Answer
		if f.Error != "" {
			answer = "✘ " + f.Error
			bad++
		}
		rows = append(rows, []string{f.Name, answer})
	}
	err = a.List(map[string]any{"hosts": found}, "no hosts", rows)
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d of %s cannot be deployed to", bad, phrase.Count(len(list), "host"))
	}
	return err
}

func checkHost(ctx context.Context, a *app.App, h inventory.Host, path string) checkedHost {
	found := checkedHost{Name: h.Name}
	on, err := engines.Dial(a, path, a.Err, engines.Flags{})(ctx, h)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	defer func() { _ = on.Engine.Close() }()
	platform := on.Info.OS + "/" + on.Info.Arch
	found.Answer = fmt.Sprintf("%s %s, %s", on.Info.Name, on.Info.Version, platform)
	fits := func(p string) bool { return p == platform || strings.HasPrefix(p, platform+"/") }
	if len(h.Platforms) > 0 && !slices.ContainsFunc(h.Platforms, fits) {
		found.Error = fmt.Sprintf("it runs %s, and the inventory says %s", platform, strings.Join(h.Platforms, ", "))
	}
	cluster, is := on.Engine.(*kubernetes.Engine)
	if !is || found.Error != "" {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	checked, err := cluster.Check(ctx)
	if found.Cluster = &checked; err == nil {
		err = checked.Err()
	}
	if err != nil {
		found.Error = err.Error()
		return found
	}
	found.Answer += "; " + checked.Answer()
	return found
}
