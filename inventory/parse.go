package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

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
	validName     = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)
	validPlatform = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?$`)
)

const nameRule = "letters, digits, ., _ and - are possible, with a letter or digit at both ends"

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
	fields, ok := root.Fields("an inventory", "hosts")
	if !ok {
		return
	}
	if fields["hosts"] == nil {
		root.Fail("there are no hosts; an inventory needs a list hosts")
		return
	}
	first := map[string]*yamlfile.Node{}
	for _, n := range fields["hosts"].List("hosts", maxHosts) {
		h, at := readHost(n)
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
func readHost(n *yamlfile.Node) (h Host, named *yamlfile.Node) {
	fields, ok := n.Fields("a host", "name", "attributes", "engine", "endpoint", "tls", "platforms", "slots")
	if !ok {
		return h, nil
	}
	if at := fields["name"]; at == nil {
		n.Fail("the host has no name")
	} else if text, ok := at.Line("the name of a host", maxName); ok {
		if !validName.MatchString(text) {
			at.Fail("%q can not be the name of a host: %s", text, nameRule)
		}
		h.Name, named = text, at
	}
	if at := fields["attributes"]; at != nil {
		h.Attributes = readAttributes(at)
	}
	h.readEngine(n, fields)
	if at := fields["platforms"]; at != nil {
		for _, p := range at.List("platforms", maxPlatforms) {
			text, ok := p.Line("a platform such as linux/amd64", maxText)
			if ok && !validPlatform.MatchString(text) {
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
		if len(a.Name) > maxName || !validName.MatchString(a.Name) {
			a.FailName("%.60q can not be the name of an attribute: %s", a.Name, nameRule)
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

// readEngine reads where the engine is.
func (h *Host) readEngine(n *yamlfile.Node, fields map[string]*yamlfile.Node) {
	h.Engine = Docker
	if at := fields["engine"]; at != nil {
		known := []string{Docker, OCI}
		text, ok := at.Line("docker or oci", maxText)
		if ok && text != Docker && text != OCI {
			at.FailLike(text, known, "there is no engine %.60q", text)
		}
		if !ok || text != Docker && text != OCI {
			h.Engine = "" // what else is there can not be judged
		} else {
			h.Engine = text
		}
	}
	endpoint, tls := fields["endpoint"], fields["tls"]
	var address *url.URL
	switch {
	case h.Engine == OCI:
		for _, at := range []*yamlfile.Node{endpoint, tls} {
			if at != nil {
				at.Fail("the engine oci runs on this machine and has no %s", at.Name)
			}
		}
		return
	case endpoint != nil:
		text, ok := endpoint.Line("the address of a Docker Engine", maxText)
		if !ok {
			break
		}
		var err error
		if address, err = parseEndpoint(text); err != nil {
			endpoint.Fail("%s", err)
		}
		h.Endpoint = text
	case h.Engine == Docker:
		n.Fail("the host has no endpoint, such as unix:///var/run/docker.sock or ssh://user@host; without one it must have engine: oci")
	}
	if tls != nil {
		h.TLS = readTLS(tls)
	}
	switch {
	case address == nil:
	case tls != nil && address.Scheme != "tcp":
		tls.Fail("only a tcp:// endpoint is reached with TLS")
	case tls == nil && address.Scheme == "tcp" && !isLoopback(address.Hostname()):
		endpoint.Fail("whoever reaches a Docker Engine over plain tcp:// owns its host: give tls with ca, cert and key, or use ssh://")
	}
}

func readTLS(n *yamlfile.Node) *TLS {
	fields, ok := n.Fields("tls", "ca", "cert", "key")
	if !ok {
		return nil
	}
	path := func(name string) string {
		if fields[name] == nil {
			return ""
		}
		text, _ := fields[name].Line("the path of a file", maxText)
		return text
	}
	tls := &TLS{CA: path("ca"), Cert: path("cert"), Key: path("key")}
	if fields["ca"] == nil {
		n.Fail("there is no ca, the certificate by which the engine is known")
	}
	if (fields["cert"] == nil) != (fields["key"] == nil) {
		n.Fail("cert and key belong together; one of them is missing")
	}
	return tls
}

// parseEndpoint takes an address apart. The error does not repeat it when it
// holds a password.
func parseEndpoint(text string) (*url.URL, error) {
	const known = "use unix://, ssh:// or tcp://"
	if strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q is a path, did you mean %q?", text, "unix://"+text)
	}
	if !strings.Contains(text, "://") {
		return nil, fmt.Errorf("%q has no scheme; %s", text, known)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not an address; " + known)
	}
	if _, secret := u.User.Password(); secret {
		return nil, errors.New("must not hold a password; use a key and the ssh agent")
	}
	fail := func(why string) (*url.URL, error) { return nil, fmt.Errorf("%q %s", text, why) }
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fail("has an impossible port")
		}
	}
	switch {
	case u.RawQuery != "" || u.Fragment != "":
		return fail("holds a ? or #, which no address of an engine has")
	case u.Scheme == "unix" && (u.Host != "" || u.User != nil || len(u.Path) < 2):
		return fail("must be unix:// and an absolute path, as in unix:///var/run/docker.sock")
	case u.Scheme == "unix":
		return u, nil
	case u.Scheme != "ssh" && u.Scheme != "tcp":
		return fail("has an unknown scheme; " + known)
	case u.Hostname() == "":
		return fail("names no host")
	case strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-"):
		return fail("holds a name that begins with -, which ssh would take for an option")
	case u.Scheme == "tcp" && (u.User != nil || u.Path != ""):
		return fail("must be tcp://HOST:PORT")
	}
	return u, nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
