// Package kubetest has clusters for tests: real ones, which the programs of the module test/kube
// run on this machine. scripts/kube builds these.
package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Cluster is a cluster that runs.
type Cluster struct {
	Kubeconfig string // file of an administrator
	Server     string // address of the API server
	Limited    string // token of a user who may do nothing yet
	Host       string // address of this machine as the node sees it
	Registry   string // HOST:PORT at which the node expects a registry without TLS

	process *exec.Cmd
	hold    io.Closer
}

// Start starts a cluster with the programs in a directory, and returns once it takes Pods. It
// ends with this process, however that ends.
func Start(programs string) (*Cluster, error) {
	c := &Cluster{process: exec.Command(filepath.Join(programs, "cluster"), filepath.Join(programs, "kubetest"))}
	c.process.Stderr = os.Stderr
	ready, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.hold, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("start a cluster (scripts/kube does that, with what is needed): %w", err)
	}
	if err := json.NewDecoder(ready).Decode(c); err != nil {
		return nil, errors.Join(fmt.Errorf("the cluster did not start: %w", err), c.Stop())
	}
	return c, nil
}

// Stop ends the cluster, of which nothing is left then.
func (c *Cluster) Stop() error {
	return errors.Join(c.hold.Close(), c.process.Wait())
}
