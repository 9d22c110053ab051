// Cluster runs a Kubernetes cluster of two nodes for as long as its standard input is open,
// and leaves nothing behind, however whoever started it ends:
//
//	cluster KUBETEST
//
// KUBETEST is the program of this module with the components of Kubernetes. containerd,
// runc and the plugins of CNI are the machine's. When the nodes are ready a line of JSON on
// the standard output says where everything is, see Ready.
//
// All of it runs in namespaces of its own: of processes, so that it ends with this program;
// of mounts, so that its files below /var/lib and /run are its own; and of the network. What
// the kernel has no namespace for, control groups and some settings, is put in order at the
// end, and where this program was killed when the next cluster starts.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Ready says where a cluster is.
type Ready struct {
	Kubeconfig string // of an administrator
	Server     string // the address of the API server
	Second     string // that of another cluster, which has no nodes and runs when a test orders "start second-apiserver"
	Authority  string // the file of the certificate that vouches for it
	Token      string // the administrator's
	Limited    string // the token of the user "limited", who may do nothing yet
	Host       string // the address of this machine as the cluster sees it
	Registry   string // HOST:PORT at which nodes expect a registry without TLS; nothing listens there yet
	Private    string // the same of another registry
	Orders     string // socket: what is to happen to components, see takeOrders
}

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == inside:
		err = runInside(os.Args[2])
	case len(os.Args) == 2:
		err = run(os.Args[1])
	default:
		err = errors.New("usage: cluster KUBETEST")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run runs a cluster until the standard input ends.
func run(kubetest string) (err error) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // they are sent to the tests, whose end is noticed
	if err := removeLeftovers(); err != nil {
		return err
	}
	p, err := newPlace(kubetest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	ended, stop, err := p.start()
	if err != nil {
		return err
	}
	defer stop()
	ready, err := p.await(ended)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case err := <-ended:
		return fmt.Errorf("the cluster ended by itself: %w\n%s", err, p.logs())
	}
}
