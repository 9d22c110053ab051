package inventory

import (
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// The bounds of an inventory.
const (
	maxHosts      = 100_000
	maxAttributes = 100 // of a host, and values of an attribute
	maxPlatforms  = 20
	maxSlots      = 1000
	maxName       = 200  // bytes
	maxText       = 1000 // bytes, of a value, path or address
)

var (
	validName     = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)
	validContext  = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9_.+-]+$`) // as the docker command has it
	validPlatform = pattern.Lazy(`^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?$`)
)

const nameRule = "letters, digits, ., _ and - are possible, with a letter or digit at both ends"

// IsPlatform reports whether a text can be the platform of a host, as linux/amd64 is.
func IsPlatform(text string) bool { return validPlatform().MatchString(text) }

// Parse reads an inventory; name is what its messages call the file. It fails
// with a *yamlfile.Error that holds every problem of the file.
func Parse(name string, data []byte) (*Inventory, error) {
	v := &Inventory{byName: map[string]int{}}
	if err := yamlfile.Read(name, data, "an inventory needs a list hosts", v.read); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *Inventory) read(root *yamlfile.Node) {
	fields, ok := root.Fields("an inventory", "name", "hosts", "clusters")
	if !ok {
		return
	}
	if at := fields["name"]; at != nil {
		if text, ok := at.Line("the name of the inventory", maxName); ok && !validName().MatchString(text) {
			at.Fail("%q cannot be the name of an inventory: %s", text, nameRule)
		} else {
			v.Name = text
		}
	}
	if at := fields["clusters"]; at != nil {
		v.Clusters = readClusters(at)
	}
	if fields["hosts"] == nil && fields["clusters"] != nil {
		return
	}
	if fields["hosts"] == nil {
		root.Fail("there are no hosts; an inventory needs a list hosts")
		return
	}
	first := map[string]*yamlfile.Node{}
	for _, n := range fields["hosts"].List("hosts", maxHosts) {
		h, at := v.readHost(n)
		if at == nil {
			continue
		}
		if before := first[h.Name]; before != nil {
			at.Fail("duplicate host %q, first at %s", h.Name, before.Position)
			continue
		}
		first[h.Name] = at
		v.byName[h.Name] = len(v.Hosts)
		v.Hosts = append(v.Hosts, h)
	}
}

// readHost returns a host and where its name is; nil when it has none.
func (v *Inventory) readHost(n *yamlfile.Node) (h Host, named *yamlfile.Node) {
	fields, ok := n.Fields("a host", "name", "attributes", "engine", "endpoint", "context", "tls", "kubernetes", "platforms", "slots")
	if !ok {
		return h, nil
	}
	if at := fields["name"]; at == nil {
		n.Fail("the host has no name")
	} else if text, ok := at.Line("the name of a host", maxName); ok {
		if !validName().MatchString(text) {
			at.Fail("%q cannot be the name of a host: %s", text, nameRule)
		}
		h.Name, named = text, at
	}
	if at := fields["attributes"]; at != nil {
		h.Attributes = readAttributes(at)
	}
	v.readEngine(&h, n, fields)
	if at := fields["platforms"]; at != nil {
		for _, p := range at.List("platforms", maxPlatforms) {
			text, ok := p.Line("a platform such as linux/amd64", maxText)
			if ok && !IsPlatform(text) {
				p.Fail("%q is not a platform, as linux/amd64 or linux/arm/v7 are", text)
			}
			h.Platforms = append(h.Platforms, text)
		}
	}
	h.Slots = 1
	if at := fields["slots"]; at != nil {
		h.Slots = at.Integer("a number of steps that may run at once,", 1, maxSlots)
	}
	return h, named
}

func readAttributes(n *yamlfile.Node) map[string][]string {
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping of names to texts or lists of texts, not %s", n.Kind)
		return nil
	}
	if len(n.Members) > maxAttributes {
		n.Fail("has %d attributes; at most %d are possible", len(n.Members), maxAttributes)
		return nil
	}
	attributes := make(map[string][]string, len(n.Members))
	for _, a := range n.Members {
		if len(a.Name) > maxName || !validName().MatchString(a.Name) {
			a.FailName("%.60q cannot be the name of an attribute: %s", a.Name, nameRule)
		}
		values := []*yamlfile.Node{a}
		if a.Kind == yamlfile.List {
			if values = a.List("values", maxAttributes); len(a.Members) == 0 {
				a.Fail("has no values; leave the attribute out")
			}
		}
		for _, value := range values {
			if text, ok := value.Line("a text", maxText); ok {
				attributes[a.Name] = append(attributes[a.Name], text)
			}
		}
	}
	return attributes
}
