package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/deployster-go/deployster/engine"
)

// configuration finds out which cluster is meant: with which context of a kubeconfig,
// and in which namespace. Nothing takes the place of what is named: another cluster
// would run what is meant for that one.
func configuration(o Options) (config *rest.Config, where, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	if o.InCluster {
		rules = &clientcmd.ClientConfigLoadingRules{} // of no file, so that the Pod is asked
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.Context.Namespace = o.Namespace
	loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	if o.Kubeconfig != "" || o.Context != "" {
		read, err := rules.Load()
		if err != nil {
			return nil, "", "", fmt.Errorf("read the configuration of the cluster: %w", err)
		}
		loading = clientcmd.NewNonInteractiveClientConfig(*read, o.Context, overrides, rules)
	}
	config, err = loading.ClientConfig()
	switch none := errors.Is(err, rest.ErrNotInCluster) || clientcmd.IsEmptyConfig(err); {
	case none && o.InCluster:
		return nil, "", "", fmt.Errorf("%w: this runs in no Pod that knows its cluster (KUBERNETES_SERVICE_HOST, and the token of a service account): in_cluster is for what runs in the cluster; name a kubeconfig or a context elsewhere", engine.ErrUnavailable)
	case none && (o.Kubeconfig != "" || o.Context != ""):
		return nil, "", "", fmt.Errorf("%w: the kubeconfig names no cluster, or has no current context: name one that does", engine.ErrUnavailable)
	case none:
		return nil, "", "", fmt.Errorf("%w: no cluster is configured: name a file with --kubeconfig or KUBECONFIG, or run this in a Pod", engine.ErrUnavailable)
	case err != nil:
		return nil, "", "", fmt.Errorf("read the configuration of the cluster: %w", err)
	}
	if namespace, _, err = loading.Namespace(); err != nil {
		return nil, "", "", fmt.Errorf("find the namespace: %w", err)
	}
	where = o.Context
	if raw, err := loading.RawConfig(); err == nil && where == "" {
		where = raw.CurrentContext
	}
	// Runs of one process come at once; a client waits by itself otherwise.
	config.QPS, config.Burst = 100, 200
	config.UserAgent = "deployster"
	config.WarningHandler = rest.NoWarnings{}
	return config, where, namespace, nil
}

// dockerConfig is the file with the credentials for registries; "" is the user's.
func dockerConfig(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "config.json")
}

func decodeJSON(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("what answers is no API server: %w", err)
	}
	return nil
}
