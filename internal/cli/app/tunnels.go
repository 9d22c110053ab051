package app

import (
	"sync"

	"github.com/deployster-go/deployster/engine/docker"
)

// tunnels holds the ssh connections of the process, once an engine needs them.
type tunnels struct {
	mu   sync.Mutex
	held *docker.Tunnels
}

// Tunnels returns the ssh connections of the process, which all of its Docker Engines share.
func (a *App) Tunnels() *docker.Tunnels {
	a.tunnels.mu.Lock()
	defer a.tunnels.mu.Unlock()
	if a.tunnels.held == nil {
		a.tunnels.held = docker.NewTunnels(a.Getenv)
	}
	return a.tunnels.held
}

// CloseTunnels ends the ssh connections of the process.
func (a *App) CloseTunnels() {
	a.tunnels.mu.Lock()
	defer a.tunnels.mu.Unlock()
	if a.tunnels.held != nil {
		_ = a.tunnels.held.Close() // what is left of its sockets is removed by the next process
		a.tunnels.held = nil
	}
}
