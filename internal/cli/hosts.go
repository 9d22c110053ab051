package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline"
)

// hosts are those of an inventory file, as it is at the moment. It is a
// pipelines.Hosts and an environments.Inventory.
type hosts struct {
	path string

	mu        sync.Mutex
	read      fileState
	version   int                                          // how often it was read
	inventory *inventory.Inventory                         // the last that could be read
	err       error                                        // of the present file
	members   map[*pipeline.Definition]map[string][]string // while the file stays as it is
}

// fileState tells whether a file may have changed.
type fileState struct {
	size     int64
	modified time.Time
	there    bool
}

func newHosts(path string) *hosts { return &hosts{path: path} }

func registerInventory(c *cobra.Command, into *string) {
	c.Flags().StringVarP(into, "inventory", "i", "inventory.yaml", "file that lists the hosts")
}

// load reads the file, if it has changed.
func (h *hosts) load() (*inventory.Inventory, error) {
	now := fileState{}
	if info, err := os.Stat(h.path); err == nil {
		now = fileState{info.Size(), info.ModTime(), true}
	}
	if now == h.read && (h.inventory != nil || h.err != nil) {
		return h.inventory, h.err
	}
	h.read = now
	h.version++
	v, err := readInventory(h.path)
	if h.err = err; err == nil { // else the hosts that are known stay
		h.inventory, h.members = v, map[*pipeline.Definition]map[string][]string{}
	}
	return h.inventory, h.err
}

func readInventory(path string) (*inventory.Inventory, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no inventory %s: list the hosts in it, or name another with --inventory", path)
	case err == nil && !info.Mode().IsRegular(): // it is read again and again
		return nil, fmt.Errorf("the inventory %s is not a regular file", path)
	}
	text, err := readNamed(path)
	if err != nil {
		return nil, err
	}
	return inventory.Parse(path, text)
}

// readNamed reads a file that somebody named, up to the size that files of
// Deployster may have.
func readNamed(path string) ([]byte, error) {
	sources, err := manifest.ReadFiles([]string{path})
	if err != nil {
		return nil, err
	}
	return sources[0].Data, nil
}

// Members implements pipelines.Hosts.
func (h *hosts) Members(d *pipeline.Definition) (map[string][]string, error) {
	groups := d.Groups()
	if len(groups) == 0 {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v, err := h.load()
	if err != nil {
		return nil, err
	}
	if known, ok := h.members[d]; ok {
		return known, nil
	}
	members := map[string][]string{}
	for _, g := range groups {
		q, err := inventory.ParseQuery(g.Hosts)
		if err != nil {
			return nil, fmt.Errorf("hosts of group %s: %w", g.Name, err)
		}
		members[g.Name] = []string{}
		for _, host := range v.Select(q) {
			members[g.Name] = append(members[g.Name], host.Name)
		}
	}
	clear(h.members) // of definitions that are gone
	h.members[d] = members
	return members, nil
}

// Version implements environments.Inventory.
func (h *hosts) Version() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = h.load() // Selected tells what is wrong
	return h.version
}

// Selected implements environments.Inventory.
func (h *hosts) Selected(query string) ([]string, error) {
	q, err := inventory.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v, err := h.load()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, host := range v.Select(q) {
		names = append(names, host.Name)
	}
	return names, nil
}

// Known implements environments.Inventory. Without an inventory that could be read,
// nobody can say that a host is gone.
func (h *hosts) Known(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inventory == nil {
		return true
	}
	_, ok := h.inventory.Host(name)
	return ok
}

// Slots implements pipelines.Hosts and environments.Inventory.
func (h *hosts) Slots(host string) int {
	if known, ok := h.host(host); ok {
		return known.Slots
	}
	return 1
}

func (h *hosts) host(name string) (inventory.Host, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inventory == nil {
		return inventory.Host{}, false
	}
	return h.inventory.Host(name)
}

func (a *app) hostCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "host",
		Short:   "List and check the hosts of the inventory",
		Example: "  deployster host list --query 'attribute:stack == beta'\n  deployster host check",
		Args:    noSuchSubcommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.hostListCommand(), a.hostCheckCommand())
	return c
}

// selected reads the inventory and selects hosts of it.
func selected(path, query string, names []string) ([]inventory.Host, error) {
	v, err := readInventory(path)
	if err != nil {
		return nil, &usageError{err}
	}
	list := v.Hosts
	if query != "" {
		q, err := inventory.ParseQuery(query)
		if err != nil {
			return nil, usage("--query: %w", err)
		}
		list = v.Select(q)
	}
	if len(names) == 0 {
		return list, nil
	}
	var chosen []inventory.Host
	for _, name := range names {
		h, ok := v.Host(name)
		if !ok {
			return nil, usage("there is no host %q in %s", name, path)
		}
		chosen = append(chosen, h)
	}
	return chosen, nil
}

// listedHost is a host in machine-readable output.
type listedHost struct {
	Name       string              `json:"name"`
	Engine     string              `json:"engine"`
	Endpoint   string              `json:"endpoint,omitempty"`
	Platforms  []string            `json:"platforms"`
	Slots      int                 `json:"slots"`
	Attributes map[string][]string `json:"attributes"`
}

func (a *app) hostListCommand() *cobra.Command {
	var path, query string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the hosts of the inventory",
		Long: `List the hosts of the inventory, or those that a query selects:

  attribute:stack == beta and platform in (linux/amd64, linux/arm64)
  name =~ "^web" or not attribute:old exists`,
		Example: "  deployster host list\n  deployster host list --query 'attribute:stack == beta'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			list, err := selected(path, query, nil)
			if err != nil {
				return err
			}
			if asJSON {
				out := []listedHost{}
				for _, h := range list {
					out = append(out, listedHost{h.Name, h.Engine, h.Endpoint, append([]string{}, h.Platforms...), h.Slots, h.Attributes})
				}
				return a.printJSON(map[string]any{"hosts": out})
			}
			if len(list) == 0 {
				return write(a.out, "no hosts\n")
			}
			rows := [][]string{{"NAME", "ENGINE", "ENDPOINT", "SLOTS", "PLATFORMS", "ATTRIBUTES"}}
			for _, h := range list {
				rows = append(rows, []string{h.Name, h.Engine, dash(h.Endpoint), fmt.Sprint(h.Slots), dash(strings.Join(h.Platforms, ",")), dash(attributeText(h))})
			}
			return a.table(rows)
		},
	}
	registerInventory(c, &path)
	c.Flags().StringVar(&query, "query", "", "only hosts that this query selects")
	return c
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

func attributeText(h inventory.Host) string {
	var all []string
	for key, values := range h.Attributes {
		all = append(all, key+"="+strings.Join(values, ","))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// checkedHost is what host check found.
type checkedHost struct {
	Name   string `json:"name"`
	Answer string `json:"answer,omitempty"` // its engine
	Error  string `json:"error,omitempty"`
}

func (a *app) hostCheckCommand() *cobra.Command {
	var path, query string
	c := &cobra.Command{
		Use:     "check [HOST…]",
		Short:   "Ask the engines of hosts whether they answer",
		Long:    "Ask the engines of hosts whether they answer, and whether they run the platforms\nthat the inventory says. Exits with 1 when one does not.",
		Example: "  deployster host check\n  deployster host check antworker001\n  deployster host check --query 'attribute:stack == prod'",
		RunE: func(c *cobra.Command, names []string) error {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			if len(names) > 0 && query != "" {
				return usage("name hosts, or say --query, not both")
			}
			list, err := selected(path, query, names)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.checkHosts(ctx, list, path, asJSON)
		},
	}
	registerInventory(c, &path)
	c.Flags().StringVar(&query, "query", "", "only hosts that this query selects")
	return c
}

// checkedAtOnce is how many hosts are asked at once.
const checkedAtOnce = 20

func (a *app) checkHosts(ctx context.Context, list []inventory.Host, path string, asJSON bool) error {
	found := make([]checkedHost, len(list))
	var group errgroup.Group
	group.SetLimit(checkedAtOnce)
	for i, h := range list {
		group.Go(func() (err error) {
			defer crash.Catch(&err, "asking the host "+h.Name)
			found[i] = a.checkHost(ctx, h, path)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	bad := 0
	rows := [][]string{{"NAME", "ANSWER"}}
	for _, f := range found {
		if f.Error != "" {
			bad++
			rows = append(rows, []string{f.Name, "✘ " + f.Error})
			continue
		}
		rows = append(rows, []string{f.Name, "✔ " + f.Answer})
	}
	var err error
	switch {
	case asJSON:
		err = a.printJSON(map[string]any{"hosts": found})
	case len(list) == 0:
		err = write(a.out, "no hosts\n")
	default:
		err = a.table(rows)
	}
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d of %s can not be deployed to", bad, count(len(list), "host"))
	}
	return err
}

func (a *app) checkHost(ctx context.Context, h inventory.Host, path string) checkedHost {
	found := checkedHost{Name: h.Name}
	e, info, err := a.openHost(ctx, h, path, a.err)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	defer func() { _ = e.Close() }()
	platform := info.OS + "/" + info.Arch
	found.Answer = fmt.Sprintf("%s %s, %s", info.Name, info.Version, platform)
	fits := func(p string) bool { return p == platform || strings.HasPrefix(p, platform+"/") }
	if len(h.Platforms) > 0 && !slices.ContainsFunc(h.Platforms, fits) {
		found.Error = fmt.Sprintf("it runs %s, and the inventory says %s", platform, strings.Join(h.Platforms, ", "))
	}
	return found
}
