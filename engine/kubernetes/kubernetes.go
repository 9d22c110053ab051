// Package kubernetes runs containers as Pods of a cluster.
//
// A run is one Pod that is never restarted. Its program is started by the entrypoint shim
// (see package entrypoint), which an init container brings along, when this process is
// attached to it. Input, output and exit code are messages between the two: the program has
// its whole input or does not run, whoever dies in between is not taken for the end of an
// input, and the shim ends when this process has read all that it said. Attachments of
// clusters alone lose what is written before them, and at times what is written last.
//
// A Pod outlives the connection with it. Messages have numbers and are in the log of the Pod, too, so
// that reading goes on there. A Pod is removed when it has ended and was read, or when its run is
// canceled, and otherwise stays. Where the connection breaks before the program begins, another Pod
// begins anew.
//
// A cluster has no store of images that could be asked or loaded. Images are looked up in
// their registries by this process, and Pods name them by digest. What is loaded is pushed
// to a repository that whoever uses the engine names, and the shim as well.
//
// Nothing of this machine is visible in a cluster. What is mounted read-only is copied
// into the Pod, within bounds, and so is the workspace where that is asked for. What is
// mounted writable has to be a claim for a volume of the cluster, see Claim.
package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/registryauth"
)

// PodSecurity is a level of the Pod Security Standards to which Pods keep.
type PodSecurity string

// The levels.
const (
	Restricted PodSecurity = "restricted" // no root, no capabilities
	Baseline   PodSecurity = "baseline"   // root where an image wants it, with the capabilities it has on every engine
)

// Options say which cluster is used, and how.
type Options struct {
	Kubeconfig string // file; "" is what KUBECONFIG names or ~/.kube/config, and in a Pod without either the cluster it is in, unless Context names one
	Context    string // of the configuration; "" is its current one
	InCluster  bool   // it is the cluster of the Pod in which this runs, whatever kubeconfigs there are; Kubeconfig and Context are none then
	Namespace  string // of the Pods; "" is the one of the context

	Program    string // file of this program for the nodes, which is the shim
	Repository string // in a registry, to which the shim and what is loaded are pushed
	ConfigDir  string // of Docker, with the credentials for registries; "" is the user's

	PullSecrets []string    // names of Secrets in the namespace with which the cluster pulls images
	PodSecurity PodSecurity // "" is Restricted

	NodeSelector   map[string]string // labels of the nodes on which Pods may run
	Tolerations    []string          // of taints of nodes, see Toleration
	ServiceAccount string            // of Pods, which decides itself whether they have its token; "" is that of the namespace, and no token

	CopyWorkspace bool // Info says that Pods are to have a copy of the workspace

	LostFor time.Duration // for which a Pod is asked for whose connection is lost; 0 is ten minutes

	Env    func(string) string // of this process; nil is none
	Logger *slog.Logger        // required
}

// How long things may take.
const (
	startTimeout = 10 * time.Minute // from the creation of a Pod until its program can start
	claimTimeout = 5 * time.Second  // from when a scheduler says that there is no claim until that is believed
	retryTimeout = 3 * time.Minute  // from when an image cannot be pulled, or a container not be made, until it is taken that this stays so
	shimIdle     = 10 * time.Minute // after how long without a sign of its caller a shim gives up
	longestLife  = 24 * time.Hour   // of a Pod whose program has no time limit: nothing runs for ever whose caller died
	leftFor      = 24 * time.Hour   // from the end of a Pod that its run did not remove until any other run does
	confirmation = time.Minute      // from when a Pod is to have ended until its node has said so

	// For what a cancelled run still has to put in order: a busy node needs a while to end a Pod, and
	// of one that does not say so the error comes only then.
	gracePeriod = confirmation + 15*time.Second
)

// Cluster is one namespace of a cluster: which Pods of engines are there, whoever made them.
type Cluster struct {
	options Options
	config  *rest.Config
	api     *api
	context string
	log     *slog.Logger

	unconfirmed time.Duration // see confirmation
}

// quiet keeps the client's own lines from coming between those of this program. The client has
// one logger for all of a process, and clusters are opened at the same time.
var quiet = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// OpenCluster connects to a cluster for its Pods alone: what of the Options is for new ones
// need not be there.
func OpenCluster(ctx context.Context, o Options) (*Cluster, error) {
	config, where, namespace, err := configuration(o)
	if err != nil {
		return nil, err
	}
	o.Namespace = namespace
	quiet()
	client, err := newAPI(config, namespace)
	if err != nil {
		return nil, fmt.Errorf("use the configuration of %s: %w", config.Host, err)
	}
	c := &Cluster{options: o, config: config, api: client, context: where, log: o.Logger, unconfirmed: confirmation}
	if _, err := c.Info(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Engine runs Pods in one namespace of a cluster.
type Engine struct {
	*Cluster
	repository name.Repository
	keychain   registryauth.Keychain
	idle, life time.Duration
	lostFor    time.Duration // see Options.LostFor
	silence    time.Duration // see silenceTimeout
	connect    func(pod, container string) (remotecommand.Executor, error)
	ran        atomic.Bool // there was a Pod

	mu    sync.Mutex
	known map[string]resolved // by reference and by id
	shim  string              // the shim's image by digest, once it is in the repository
}

// Open connects to a cluster.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if o.PodSecurity == "" {
		o.PodSecurity = Restricted
	}
	if o.PodSecurity != Restricted && o.PodSecurity != Baseline {
		return nil, fmt.Errorf("pod security %q is not known: use restricted or baseline", o.PodSecurity)
	}
	if err := checkPlacement(o); err != nil {
		return nil, err
	}
	repository, err := name.NewRepository(o.Repository)
	if err != nil {
		return nil, fmt.Errorf("repository %q: %w; it has no tag and no digest", o.Repository, err)
	}
	c, err := OpenCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Engine{
		Cluster: c, repository: repository, idle: shimIdle, life: longestLife, known: map[string]resolved{},
		lostFor: cmp.Or(o.LostFor, lostFor), silence: silenceTimeout, connect: c.api.attach,
		keychain: registryauth.Keychain{File: dockerConfig(o.ConfigDir), Env: o.Env},
	}, nil
}

// Info asks the cluster for its version. Pods run on nodes of this program's platform.
func (c *Cluster) Info(ctx context.Context) (engine.Info, error) {
	version, err := c.api.version(ctx)
	if err != nil {
		return engine.Info{}, c.wrap("ask for its version", err)
	}
	return engine.Info{Name: "kubernetes", Version: version, OS: "linux", Arch: runtime.GOARCH, Address: c.address(), Remote: true, Works: true, Copies: c.options.CopyWorkspace}, nil
}

// address is where the cluster was reached, and the namespace in it.
func (c *Cluster) address() string { return c.config.Host + "/" + c.options.Namespace }

// Identity asks which namespace of which cluster it is. Where that is forbidden it has no ID.
func (c *Cluster) Identity(ctx context.Context) (engine.Identity, error) {
	identity := engine.Identity{Context: c.context}
	namespace, err := c.api.askNamespace(ctx)
	if apierrors.IsForbidden(err) {
		return identity, nil
	}
	if err != nil {
		return identity, c.wrap("ask which namespace "+c.options.Namespace+" is", err)
	}
	identity.ID = string(namespace.UID)
	return identity, nil
}

// Close releases the connections. Pods are left alone.
func (c *Cluster) Close() error {
	c.api.close()
	return nil
}
