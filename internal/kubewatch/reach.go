package kubewatch

import (
	"errors"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// reached is where a cluster is, as its kubeconfig has it at some moment.
type reached struct {
	Access
	server string
}

// config reads how a cluster is reached. Nothing takes the place of what is named: another cluster
// would answer as if it were that one.
func (a Access) config() (*rest.Config, error) {
	if a.InCluster {
		return rest.InClusterConfig()
	}
	if a.Kubeconfig == "" && a.Context == "" {
		return nil, errors.New("it is not said which cluster it is: name a kubeconfig, a context, or in_cluster: true in the inventory")
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.Kubeconfig
	read, err := rules.Load()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*read, a.Context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("its kubeconfig names no cluster, or has no current context")
	}
	return config, err
}

// reach is how a cluster is reached now.
func reach(name string, find func(string) (Access, error)) (to reached, config *rest.Config, err error) {
	access, err := find(name)
	if err != nil {
		return to, nil, &Error{Cluster: name, Attempt: "find out how it is reached", Cause: err}
	}
	config, err = access.config()
	if err != nil {
		return to, nil, &Error{Cluster: name, Attempt: "read how it is reached", Cause: err}
	}
	return reached{access, config.Host}, config, nil
}
