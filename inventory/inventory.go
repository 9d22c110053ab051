// Package inventory knows the hosts that can be deployed to.
//
// An inventory is a file with a list of hosts: their names, attributes to
// select them by, and how their engines are reached (Parse). Queries choose
// among them (ParseQuery):
//
//	attribute:stack == beta and (platform in (linux/amd64, linux/arm64) or not attribute:old exists)
//
// Everything here is plain values that were checked as far as is possible
// without asking a host anything; nothing is connected to, no file is opened.
package inventory

import "strings"

// The kinds of engines.
const (
	Docker = "docker"
	OCI    = "oci" // this program itself, on the machine it runs on

	KubernetesEngine = "kubernetes" // a namespace of a cluster
)

// Inventory is the hosts, checked.
type Inventory struct {
	Name  string // by which it is known wherever its file lies; "" is none
	Hosts []Host // in the order of the file

	Clusters []Cluster // of which stages name objects

	byName map[string]int
}

// Host is a machine with an engine, or a namespace of a cluster.
type Host struct {
	Name       string              `json:"name"`
	Engine     string              `json:"engine"`               // Docker, OCI or KubernetesEngine
	Endpoint   string              `json:"endpoint,omitempty"`   // of Docker: unix://PATH, ssh://[USER@]HOST[:PORT] or tcp://HOST[:PORT]; "" for others
	Context    string              `json:"context,omitempty"`    // of Docker: name of a context of the docker command, in place of an Endpoint
	TLS        *TLS                `json:"-"`                    // of a tcp:// endpoint; nil is none, which only a loopback address may have
	Kubernetes *Kubernetes         `json:"kubernetes,omitempty"` // of KubernetesEngine alone
	Platforms  []string            `json:"platforms"`            // such as linux/amd64; none is not known
	Slots      int                 `json:"slots"`                // steps that may run at once, from 1
	Attributes map[string][]string `json:"attributes"`           // each has a value at least; one that was written as a text has exactly one
}

// IsHere reports whether its engine runs on this machine, as far as its address tells. The
// address of a context is not known here.
func (h Host) IsHere() bool { return h.Engine == OCI || strings.HasPrefix(h.Endpoint, "unix://") }

// TLS names the files that authenticate an engine and this client, as they are
// written in the inventory: relative paths are below its directory.
type TLS struct {
	CA        string // certificate of the authority that signed that of the engine
	Cert, Key string // of this client; both or none
}

// Of is an inventory of hosts that were read elsewhere, each with a name of its own.
func Of(name string, hosts []Host) *Inventory {
	v := &Inventory{Name: name, Hosts: hosts, byName: map[string]int{}}
	for i, h := range hosts {
		v.byName[h.Name] = i
	}
	return v
}

// Host finds a host by its name.
func (v *Inventory) Host(name string) (Host, bool) {
	i, ok := v.byName[name]
	if !ok {
		return Host{}, false
	}
	return v.Hosts[i], true
}

// Select returns the hosts that match a query, in the order of the file.
func (v *Inventory) Select(q Query) []Host {
	var hosts []Host
	for _, h := range v.Hosts {
		if q.Match(h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}
