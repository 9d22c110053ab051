package work

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Hosts are those of an inventory file, as it is at the moment: the file is read
// again when it has changed. It is safe for concurrent use.
type Hosts struct {
	path  string
	fixed bool // they were read elsewhere, and stay as they are

	mu        sync.Mutex
	read      fileState
	version   int                  // how often it was read
	inventory *inventory.Inventory // the last that could be read
	where     string               // the path of its file
	err       error                // of the present file
	selected  map[string][]string  // by query, while the file stays as it is
}

// maxSelected is how many queries are remembered, some of definitions that are gone.
const maxSelected = 1000

// fileState differs when a file may have changed.
type fileState struct {
	size     int64
	modified time.Time
	there    bool
}

// NewHosts returns the hosts of an inventory file, which is read when it is first
// needed.
func NewHosts(path string) *Hosts { return &Hosts{path: path} }

// FixedHosts are those of an inventory that was read elsewhere, where it is known as identity,
// and stay as they are; err is why it could not be read.
func FixedHosts(identity string, hosts []inventory.Host, err error) *Hosts {
	h := &Hosts{fixed: true, where: identity, err: err, selected: map[string][]string{}}
	if err == nil {
		h.inventory = inventory.Of("", hosts)
	}
	return h
}

// Inventory is the inventory as it is now.
func (h *Hosts) Inventory() (*inventory.Inventory, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.load()
}

// load reads the file, if it has changed; h.mu is held.
func (h *Hosts) load() (*inventory.Inventory, error) {
	if h.fixed {
		return h.inventory, h.err
	}
	now := fileState{}
	if info, err := os.Stat(h.path); err == nil {
		now = fileState{info.Size(), info.ModTime(), true}
	}
	if now == h.read && (h.inventory != nil || h.err != nil) {
		return h.inventory, h.err
	}
	h.read = now
	h.version++
	v, err := ReadInventory(h.path)
	if h.err = err; err == nil { // else the hosts that are known stay
		h.inventory, h.where, h.selected = v, whole(h.path), map[string][]string{}
	}
	return h.inventory, h.err
}

// Identity is what the inventory is known as: the name that it gives itself or, where it
// gives none, the path of its file, so that a copy without a name is another inventory. It
// is that of the last one that could be read; "" is none.
func (h *Hosts) Identity() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = h.load() // what selects hosts reports what is wrong with it
	if h.inventory == nil {
		return ""
	}
	return cmp.Or(h.inventory.Name, h.where)
}

// whole is the path of a file from the root on, without symbolic links.
func whole(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

// ReadInventory reads an inventory file.
func ReadInventory(path string) (*inventory.Inventory, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no inventory %s: list the hosts in it, or name another with --inventory", path)
	case err == nil && !info.Mode().IsRegular(): // it is read again and again
		return nil, fmt.Errorf("the inventory %s is not a regular file", path)
	}
	text, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return inventory.Parse(path, text)
}

// Version is another number when the rest may answer differently.
func (h *Hosts) Version() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = h.load() // Selected returns what is wrong
	return h.version
}

// Selected are the names of the hosts that a query selects, which nobody changes.
func (h *Hosts) Selected(query string) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, err := h.load()
	if err != nil {
		return nil, err
	}
	return h.names(v, query)
}

// Members are the hosts of each group of a pipeline at present.
func (h *Hosts) Members(d *definition.Definition) (members map[string][]string, err error) {
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
	members = map[string][]string{}
	for _, g := range groups {
		if members[g.Name], err = h.names(v, g.Hosts); err != nil {
			return nil, fmt.Errorf("hosts of group %s: %w", g.Name, err)
		}
	}
	return members, nil
}

// names are those of the hosts of the present inventory that a query selects; h.mu
// is held.
func (h *Hosts) names(v *inventory.Inventory, query string) ([]string, error) {
	if names, known := h.selected[query]; known {
		return names, nil
	}
	q, err := inventory.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	if len(h.selected) >= maxSelected {
		clear(h.selected)
	}
	names := []string{}
	for _, host := range v.Select(q) {
		names = append(names, host.Name)
	}
	h.selected[query] = names
	return names, nil
}

// Known reports whether a host is in the inventory. Without an inventory that
// could be read, every host is taken to be.
func (h *Hosts) Known(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inventory == nil {
		return true
	}
	_, ok := h.inventory.Host(name)
	return ok
}

// Attribute is the value of an attribute of a host, the first of several, and "" where it
// has none.
func (h *Hosts) Attribute(name, attribute string) string {
	host, _ := h.host(name)
	if values := host.Attributes[attribute]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Slots is how many steps may run on a host at once.
func (h *Hosts) Slots(name string) int {
	host, _ := h.host(name)
	return max(1, host.Slots)
}

// host is one of the inventory that could be read last, or now where none was asked for before.
func (h *Hosts) host(name string) (inventory.Host, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inventory == nil && h.err == nil {
		_, _ = h.load() // what selects hosts reports what is wrong with it
	}
	if h.inventory == nil {
		return inventory.Host{}, false
	}
	return h.inventory.Host(name)
}

// attributes of a host as a manifest sees them: each is a text, or a list of
// texts.
func attributes(h inventory.Host) map[string]any {
	all := map[string]any{}
	for key, values := range h.Attributes {
		if len(values) == 1 {
			all[key] = values[0]
			continue
		}
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		all[key] = list
	}
	return all
}
