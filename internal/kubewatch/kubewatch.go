// Package kubewatch watches objects of clusters of Kubernetes. Whoever watches one is told what it
// is whenever that changes, and when nobody knows any more.
//
// There is one client for each cluster, and one watch for each kind and namespace of it, however
// many watch objects of these: they are made for the first, and end with the last. A cluster that
// does not answer, or refuses, is tried again, with pauses that grow.
//
// It trusts a cluster with nothing but what it says of its objects: answers are bounded, and nobody
// is led to another server.
package kubewatch

import (
	"context"
	"sync"
	"time"
)

// Object is an object of a cluster.
type Object struct {
	Cluster              string // by which Find knows it
	Group, Version, Kind string // of its API; Version "" is the one that the cluster prefers
	Namespace, Name      string // Namespace "" is of one that is in none
}

// Access is how a cluster is reached.
type Access struct {
	Kubeconfig string // path of a file; "" is KUBECONFIG or ~/.kube/config
	Context    string // of it; "" is the current one of a file that is named
	InCluster  bool   // it is the cluster in which this runs in a Pod, instead
}

// Options describes Clusters.
type Options struct {
	Find  func(cluster string) (Access, error) // how it is reached at present
	Retry time.Duration                        // the first pause after a failure; 0 is a second
	Quiet time.Duration                        // after which a watch that says nothing is made anew; 0 is 90 seconds
}

// Clusters are the clusters of which objects are watched. It is safe for concurrent use.
type Clusters struct {
	options Options

	mu      sync.Mutex
	byName  map[string]*cluster
	running sync.WaitGroup
}

// watchKey is what one watch is of.
type watchKey struct{ group, version, kind, namespace string }

// cluster is one with a watch at least.
type cluster struct {
	name    string
	watches map[watchKey]*watch // Clusters.mu

	mu     sync.Mutex
	client *client // nil before it is needed, and after it failed
}

// New watches nothing yet.
func New(o Options) *Clusters {
	if o.Retry == 0 {
		o.Retry = time.Second
	}
	if o.Quiet == 0 {
		o.Quiet = quietTime
	}
	return &Clusters{options: o, byName: map[string]*cluster{}}
}

// Watch calls seen, by one goroutine, with what an object is, nil where there is none, and whenever
// that changes; err is why it is not known. It ends with leave, after which a last call may come.
func (c *Clusters) Watch(o Object, seen func(live map[string]any, err error)) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	on := c.byName[o.Cluster]
	if on == nil {
		on = &cluster{name: o.Cluster, watches: map[watchKey]*watch{}}
		c.byName[o.Cluster] = on
	}
	key := watchKey{o.Group, o.Version, o.Kind, o.Namespace}
	w := on.watches[key]
	if w == nil {
		ctx, end := context.WithCancel(context.Background())
		w = &watch{watchKey: key, cluster: on, options: c.options, end: end, again: make(chan struct{}, 1), viewers: map[*viewer]bool{}}
		on.watches[key] = w
		defer c.running.Go(func() { w.run(ctx) })
	}
	v := &viewer{name: o.Name, seen: seen}
	w.add(v)
	return sync.OnceFunc(func() { c.leave(on, w, v) })
}

// leave ends what a viewer was the last of.
func (c *Clusters) leave(on *cluster, w *watch, v *viewer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.remove(v) > 0 {
		return
	}
	w.end()
	delete(on.watches, w.watchKey)
	if len(on.watches) == 0 {
		delete(c.byName, on.name)
		on.forget(nil)
	}
}

// Watched is of how many clusters how many watches there are at present.
func (c *Clusters) Watched() (clusters, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, on := range c.byName {
		watches += len(on.watches)
	}
	return len(c.byName), watches
}

// Wait waits until all that has ended is gone.
func (c *Clusters) Wait() { c.running.Wait() }

// open returns the client of the cluster, which is reached in the way in which it is to be now.
func (on *cluster) open(o Options) (*client, error) {
	to, config, err := reach(on.name, o.Find)
	if err != nil {
		on.forget(nil)
		return nil, err
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	if on.client != nil && on.client.reached == to {
		return on.client, nil
	}
	if on.client != nil {
		on.client.close()
		on.client = nil
	}
	on.client, err = newClient(on.name, to, config, o.Quiet)
	return on.client, err
}

// forget has the next watch open a client anew, whose credentials may be others by then. It is for
// the one that failed, nil for whichever there is.
func (on *cluster) forget(failed *client) {
	on.mu.Lock()
	defer on.mu.Unlock()
	if on.client != nil && (failed == nil || on.client == failed) {
		on.client.close()
		on.client = nil
	}
}
