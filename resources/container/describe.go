package container

import (
	"strings"

	dockercontainer "github.com/moby/moby/api/types/container"
)

// described is the state of a container.
type described struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Image     string            `json:"image"`
	ImageID   string            `json:"image_id"`
	Addresses map[string]string `json:"addresses"` // IP address by network, of those that give one
	Ports     []Port            `json:"ports"`     // as they are published
	Running   bool              `json:"running"`
	Health    string            `json:"health"`   // "none" without a health check
	Healthy   bool              `json:"healthy"`  // running, and its health check says so where there is one
	Restarts  int               `json:"restarts"` // how often the engine has started it again after it ended by itself
}

func describe(c *dockercontainer.InspectResponse) described {
	d := described{
		ID: c.ID, Name: strings.TrimPrefix(c.Name, "/"), Image: c.Config.Image, ImageID: c.Image,
		Addresses: map[string]string{}, Ports: []Port{}, Running: running(c), Health: "none", Healthy: healthy(c), Restarts: c.RestartCount,
	}
	if h := health(c); h != "" {
		d.Health = string(h)
	}
	for name, n := range c.NetworkSettings.Networks {
		if n.IPAddress.IsValid() {
			d.Addresses[name] = n.IPAddress.String()
		}
	}
	seen := map[Port]bool{}
	for _, p := range portList(c.NetworkSettings.Ports) { // once per address family
		if !seen[p] {
			d.Ports = append(d.Ports, p)
		}
		seen[p] = true
	}
	return d
}
