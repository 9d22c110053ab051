// Package kubetest has clusters for tests: real ones, which the programs of the module test/kube
// run on this machine. scripts/kube builds these, and runs all tests that ask for a cluster
// (Shared) with one, in their packages one after the other. These tests are in files
// *_kube_test.go with the tag kube.
package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Variable is that of the environment with the cluster that tests share, as text.
const Variable = "DEPLOYSTER_KUBETEST_CLUSTER"

// User and Password are what the registry Cluster.Private wants to hear.
const (
	User     = "nodes"
	Password = "not for everybody"
)

// Cluster is a cluster that runs.
type Cluster struct {
	Kubeconfig string // file of an administrator
	Server     string // address of the API server
	Second     string // address of that of another cluster, see StartSecond
	Authority  string // file of the certificate that vouches for it
	Token      string // of the administrator
	Limited    string // token of the user "limited", who may do nothing yet
	Host       string // address of this machine as nodes see it
	Registry   string // HOST:PORT at which nodes expect a registry without TLS
	Private    string // the same of one that answers only who knows the Password
	Orders     string // socket of the cluster, see order

	Programs string // directory with those that run it, and with deployster

	process *exec.Cmd
	hold    io.Closer
}

// Start starts a cluster with the programs in a directory, and returns once it takes Pods. It
// ends with this process, however that ends.
func Start(programs string) (*Cluster, error) {
	c := &Cluster{Programs: programs, process: exec.Command(filepath.Join(programs, "cluster"), filepath.Join(programs, "kubetest"))}
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

// Program is the file of deployster, as it was built when the cluster was started.
func (c *Cluster) Program() string { return filepath.Join(c.Programs, "deployster") }

// Stop ends the cluster, of which nothing is left then.
func (c *Cluster) Stop() error {
	return errors.Join(c.hold.Close(), c.process.Wait())
}

// Shared is the cluster that all tests of scripts/kube share, with a registry. What a test makes
// must be in namespaces of its own (Namespace), or have a name that no other test uses.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	var c Cluster
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &c); err != nil {
		t.Fatal("this test needs a cluster: run it with scripts/kube PACKAGE -run NAME")
	}
	return &c
}
