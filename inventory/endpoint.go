package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// readEngine reads where the engine is.
func (v *Inventory) readEngine(h *Host, n *yamlfile.Node, fields map[string]*yamlfile.Node) {
	h.Engine = readEngineName(fields["engine"])
	endpoint, named, tls, cluster := fields["endpoint"], fields["context"], fields["tls"], fields["kubernetes"]
	refuse := func(why string, keys ...*yamlfile.Node) {
		for _, at := range keys {
			if at != nil {
				at.Fail("%s and has no %s", why, at.Name)
			}
		}
	}
	switch h.Engine {
	case OCI:
		refuse("the engine oci runs on this machine", endpoint, named, tls, cluster)
		return
	case KubernetesEngine:
		refuse("a cluster is reached as its kubeconfig says", endpoint, tls)
		if named != nil {
			named.Fail("the context of a cluster stands in its mapping kubernetes, as in kubernetes: {context: prod}")
		}
		if cluster == nil {
			n.Fail("the host has no kubernetes, which says how its cluster is used, as in kubernetes: {context: prod, namespace: deployster, types_image: registry.example/team/deployster}")
			return
		}
		h.Kubernetes = v.readKubernetes(cluster)
		return
	case Docker:
		refuse("the engine docker is no cluster", cluster)
	}
	h.readDocker(n, endpoint, named, tls)
}

// readDocker reads where a Docker Engine is, also for a host whose engine is not known.
func (h *Host) readDocker(n, endpoint, named, tls *yamlfile.Node) {
	var address *url.URL
	if endpoint != nil {
		h.Endpoint, address = readEndpoint(endpoint)
	} else if h.Engine == Docker && named == nil {
		n.Fail("the host has no endpoint, such as unix:///var/run/docker.sock or ssh://user@host, and no context of the docker command; others have engine: oci or kubernetes")
	}
	if named != nil {
		h.Context = readContext(named)
	}
	if tls != nil {
		h.TLS = readTLS(tls)
	}
	switch {
	case named != nil && endpoint != nil:
		named.Fail("the host has an endpoint and a context: give only one of them")
	case named != nil && tls != nil:
		tls.Fail("the context has the certificates of its engine: leave tls out")
	case address == nil:
	case tls != nil && address.Scheme != "tcp":
		tls.Fail("only a tcp:// endpoint is reached with TLS")
	case tls == nil && address.Scheme == "tcp" && !isLoopback(address.Hostname()):
		endpoint.Fail("whoever reaches a Docker Engine over plain tcp:// owns its host: give tls with ca, cert and key, or use ssh://")
	}
}

// readEngineName returns "" for an unknown engine, with which the rest cannot be
// validated.
func readEngineName(n *yamlfile.Node) string {
	if n == nil {
		return Docker
	}
	known := []string{Docker, OCI, KubernetesEngine}
	text, ok := n.Line("docker, oci or kubernetes", maxText)
	if ok && !slices.Contains(known, text) {
		n.FailLike(text, known, "there is no engine %.60q", text)
		return ""
	}
	return text
}

// readEndpoint returns no address where the endpoint is none, which has been
// reported.
func readEndpoint(n *yamlfile.Node) (text string, address *url.URL) {
	text, ok := n.Line("the address of a Docker Engine", maxText)
	if !ok {
		return "", nil
	}
	address, err := parseEndpoint(text)
	if err != nil {
		n.Fail("%s", err)
	}
	return text, address
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

// readContext reads the name of a context of the docker command.
func readContext(n *yamlfile.Node) string {
	text, ok := n.Line("the name of a context of the docker command", maxName)
	switch {
	case !ok:
	case text == "default":
		n.Fail("the context default is whatever DOCKER_HOST says where this runs: give endpoint: unix:///var/run/docker.sock, or a context of docker context ls")
	case strings.Contains(text, "://"):
		n.Fail("%.60q is an address: write endpoint: in place of context:", text)
	case !validContext().MatchString(text):
		n.Fail("%q cannot be the name of a context: letters, digits, ., _, + and - are possible, at least two, with a letter or digit first", text)
	}
	return text
}

const knownSchemes = "use unix://, ssh:// or tcp://"

// parseEndpoint takes an address apart. The error does not repeat it when it
// holds a password.
func parseEndpoint(text string) (*url.URL, error) {
	if strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q is a path, did you mean %q?", text, "unix://"+text)
	}
	if !strings.Contains(text, "://") {
		return nil, fmt.Errorf("%q has no scheme; %s", text, knownSchemes)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not an address; " + knownSchemes)
	}
	if _, secret := u.User.Password(); secret {
		return nil, errors.New("must not hold a password; use a key and the ssh agent")
	}
	if problem := endpointProblem(u); problem != "" {
		return nil, fmt.Errorf("%q %s", text, problem)
	}
	return u, nil
}

// endpointProblem says why no engine can be at an address, "" when one can.
func endpointProblem(u *url.URL) string {
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "has an impossible port"
		}
	}
	switch {
	case u.RawQuery != "" || u.Fragment != "":
		return "holds a ? or #, which no address of an engine has"
	case u.Scheme == "unix":
		if u.Host != "" || u.User != nil || len(u.Path) < 2 {
			return "must be unix:// and an absolute path, as in unix:///var/run/docker.sock"
		}
		return ""
	case u.Scheme != "ssh" && u.Scheme != "tcp":
		return "has an unknown scheme; " + knownSchemes
	case u.Hostname() == "":
		return "names no host"
	case strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-"):
		return "holds a name that begins with -, which ssh would take for an option"
	case strings.ContainsAny(u.Hostname()+u.User.Username(), shellCharacters):
		return "holds a character that a shell interprets, in a name that ssh may hand to one"
	case u.Scheme == "tcp" && (u.User != nil || u.Path != ""):
		return "must be tcp://HOST:PORT"
	}
	return ""
}

// shellCharacters have no place in the name of a host or a user.
const shellCharacters = " \t\n'\"`\\$&;|<>(){}*?!#~"

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
