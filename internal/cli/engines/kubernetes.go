package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine/kubernetes"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/usercache"
	"github.com/deployster-go/deployster/inventory"
)

// RegisterKubernetes adds the flags of --engine kubernetes.
func RegisterKubernetes(flags *pflag.FlagSet, k *inventory.Kubernetes) {
	flags.StringVar(&k.Kubeconfig, "kubeconfig", "", "file that says how clusters are reached (default KUBECONFIG or ~/.kube/config; in a Pod, its own cluster)")
	flags.StringVar(&k.Context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVar(&k.Namespace, "namespace", "", "namespace in which Pods run (default: that of the context)")
	flags.StringVar(&k.PodSecurity, "pod-security", "", "Pod Security Standard to which Pods keep: restricted or baseline, which allows root (default restricted)")
	flags.StringArrayVar(&k.PullSecrets, "image-pull-secret", nil, "Secret of the namespace with which the cluster pulls images (repeatable)")
	flags.Var((*selectorFlag)(&k.NodeSelector), "node-selector", "label KEY=VALUE of the nodes on which Pods may run (repeatable)")
	flags.StringArrayVar(&k.Tolerations, "toleration", nil, "taint KEY[=VALUE][:EFFECT] of nodes on which Pods may run all the same (repeatable)")
	flags.StringVar(&k.ServiceAccount, "service-account", "", "service account that Pods run as, with its token if the account says so (default: that of the namespace, without a token)")
	flags.BoolVar(&k.CopyWorkspace, "copy-workspace", false, "give each Pod a copy of the workspace, read-only: up to 64 MiB")
}

// selectorFlag is labels that are given one by one.
type selectorFlag map[string]string

func (s *selectorFlag) String() string {
	var all []string
	for key, value := range *s {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func (s *selectorFlag) Type() string { return "stringArray" }

func (s *selectorFlag) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not a label: write KEY=VALUE", text)
	}
	if before, there := (*s)[key]; there && before != value {
		return fmt.Errorf("a node has one value of %s, and this asks for %q and %q", key, before, value)
	}
	if *s == nil {
		*s = selectorFlag{}
	}
	(*s)[key] = value
	return nil
}

// onlyForKubernetes refuses flags of a cluster for another engine.
func onlyForKubernetes(a *app.App) error {
	if a.Global.Engine == Kubernetes {
		return nil
	}
	k := a.Global.Kubernetes
	for flag, given := range map[string]bool{
		"kubeconfig": k.Kubeconfig != "", "context": k.Context != "", "namespace": k.Namespace != "",
		"pod-security": k.PodSecurity != "", "image-pull-secret": len(k.PullSecrets) > 0,
		"node-selector": len(k.NodeSelector) > 0, "toleration": len(k.Tolerations) > 0, "service-account": k.ServiceAccount != "", "copy-workspace": k.CopyWorkspace,
	} {
		if given {
			return exit.Usage("--%s is for --engine kubernetes, and this is --engine %s", flag, a.Global.Engine)
		}
	}
	return nil
}

// namedCluster is the cluster that the flags name, with the repository for this program.
func namedCluster(a *app.App, f Flags) (inventory.Kubernetes, error) {
	k := a.Global.Kubernetes
	k.TypesImage = f.typesImage
	switch level := kubernetes.PodSecurity(k.PodSecurity); {
	case k.TypesImage == "":
		return k, exit.Usage("--engine kubernetes needs a repository of a registry, from which the cluster pulls this program: name one to which you may push, as in --types-image registry.example/team/deployster")
	case level != "" && level != kubernetes.Restricted && level != kubernetes.Baseline:
		return k, exit.Usage("--pod-security %s: it must be restricted or baseline", level)
	case f.Network != "":
		return k, exit.Usage("--network %s: a Pod has the network of its cluster, and no other; what it may reach a NetworkPolicy bounds", f.Network)
	case f.Pids != 0:
		return k, exit.Usage("--pids: a cluster bounds that for all Pods of a node (podPidsLimit of its kubelet), and not for one")
	}
	for _, text := range k.Tolerations {
		if _, err := kubernetes.Toleration(text); err != nil {
			return k, exit.Usage("--toleration: %w", err)
		}
	}
	if path, err := filepath.Abs(k.Kubeconfig); err == nil && k.Kubeconfig != "" {
		k.Kubeconfig = path // the log names it, for runs that are started elsewhere
	}
	return k, nil
}

func openKubernetes(ctx context.Context, a *app.App, news io.Writer, k inventory.Kubernetes, lostFor time.Duration) (*kubernetes.Engine, error) {
	program, err := nodeProgram()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	options := clusterOptions(a, news, k)
	options.Program, options.Repository, options.LostFor = program, k.TypesImage, lostFor
	return kubernetes.Open(ctx, options)
}

// clusterOptions are those by which a cluster is found, and by which Pods run there.
func clusterOptions(a *app.App, news io.Writer, k inventory.Kubernetes) kubernetes.Options {
	return kubernetes.Options{
		Kubeconfig: k.Kubeconfig, Context: k.Context, InCluster: k.InCluster, Namespace: k.Namespace,
		PodSecurity: kubernetes.PodSecurity(k.PodSecurity), PullSecrets: k.PullSecrets,
		NodeSelector: k.NodeSelector, Tolerations: k.Tolerations, ServiceAccount: k.ServiceAccount, CopyWorkspace: k.CopyWorkspace,
		Env: a.Getenv, Logger: app.Logger(news),
	}
}

// nodeProgram is the file of this program for the nodes of a cluster.
func nodeProgram() (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the running program: %w", err)
	}
	cache, err := usercache.Dir()
	if err != nil {
		cache = "" // hashes are computed each time
	}
	binary, err := shipped.Source{Executable: executable, CacheDir: cache, GOOS: runtime.GOOS, GOARCH: runtime.GOARCH}.Binary(runtime.GOARCH)
	return binary.Path, err
}

// openCluster opens the cluster that a run used: by the kubeconfig and the context that led to
// it then, as far as this machine has them.
func (f *finder) openCluster(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	if f.info.Name == Kubernetes {
		same := used.Address == f.info.Address
		if used.ID != "" {
			identity, _ := identify(ctx, f.engine)
			same = used.ID == identity.ID
		}
		if same {
			return f.engine, nil, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	options := clusterOptions(f.app, f.news, f.reached.cluster)
	options.Context, options.Namespace = used.Context, path.Base(used.Address)
	if _, err := os.Stat(used.Kubeconfig); err == nil {
		options.Kubeconfig = used.Kubeconfig
	}
	options.InCluster = options.InCluster && options.Context == "" && options.Kubeconfig == ""
	found, err := kubernetes.OpenCluster(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	info, err := found.Info(ctx)
	identity, denied := found.Identity(ctx)
	switch {
	case err != nil:
	case used.ID != "" && denied != nil:
		err = fmt.Errorf("whether it is the same namespace cannot be found out: %w", denied)
	case used.ID != "" && identity.ID != used.ID:
		err = fmt.Errorf("another namespace answers there now: it is %q, and the run used %q", identity.ID, used.ID)
	case used.ID == "" && info.Address != used.Address:
		err = fmt.Errorf("the context leads to %s, and the run used %s", info.Address, used.Address)
	default:
		return found, func() { _ = found.Close() }, nil
	}
	return nil, nil, errors.Join(err, found.Close())
}
