package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"

	"github.com/spf13/pflag"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine/kubernetes"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/usercache"
)

// RegisterKubernetes adds the flags of --engine kubernetes.
func RegisterKubernetes(flags *pflag.FlagSet, k *app.KubernetesFlags) {
	flags.StringVar(&k.Kubeconfig, "kubeconfig", "", "file that says how clusters are reached (default KUBECONFIG or ~/.kube/config; in a Pod, its own cluster)")
	flags.StringVar(&k.Context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVar(&k.Namespace, "namespace", "", "namespace in which Pods run (default: that of the context)")
	flags.StringVar(&k.PodSecurity, "pod-security", "", "Pod Security Standard to which Pods keep: restricted or baseline, which allows root (default restricted)")
	flags.StringArrayVar(&k.PullSecrets, "image-pull-secret", nil, "Secret of the namespace with which the cluster pulls images (repeatable)")
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
	} {
		if given {
			return exit.Usage("--%s is for --engine kubernetes, and this is --engine %s", flag, a.Global.Engine)
		}
	}
	return nil
}

func openKubernetes(ctx context.Context, a *app.App, news io.Writer, f Flags) (*kubernetes.Engine, error) {
	switch level := kubernetes.PodSecurity(a.Global.Kubernetes.PodSecurity); {
	case f.typesImage == "":
		return nil, exit.Usage("--engine kubernetes needs a repository of a registry, from which the cluster pulls this program: name one to which you may push, as in --types-image registry.example/team/deployster")
	case level != "" && level != kubernetes.Restricted && level != kubernetes.Baseline:
		return nil, exit.Usage("--pod-security %s: it must be restricted or baseline", level)
	case f.Network != "":
		return nil, exit.Usage("--network %s: a Pod has the network of its cluster, and no other; what it may reach a NetworkPolicy bounds", f.Network)
	case f.Pids != 0:
		return nil, exit.Usage("--pids: a cluster bounds that for all Pods of a node (podPidsLimit of its kubelet), and not for one")
	}
	program, err := nodeProgram()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	options := clusterOptions(a, news)
	options.Program, options.Repository = program, f.typesImage
	return kubernetes.Open(ctx, options)
}

// clusterOptions are those by which a cluster is found.
func clusterOptions(a *app.App, news io.Writer) kubernetes.Options {
	k := a.Global.Kubernetes
	return kubernetes.Options{
		Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace,
		PodSecurity: kubernetes.PodSecurity(k.PodSecurity), PullSecrets: k.PullSecrets, Env: a.Getenv, Logger: app.Logger(news),
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

// openCluster opens the cluster that a run used: by the context that led to it then.
func (f *finder) openCluster(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	if f.info.Name == Kubernetes {
		same := used.Address == f.info.Address
		if used.ID != "" {
			same = used.ID == identify(ctx, f.engine).ID
		}
		if same {
			return f.engine, nil, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	options := clusterOptions(f.app, f.news)
	options.Context, options.Namespace = used.Context, path.Base(used.Address)
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
