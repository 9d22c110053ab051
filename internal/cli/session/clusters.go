package session

import (
	"fmt"
	"path/filepath"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/kubewatch"
)

// clusters are those of which stages of pipelines name objects, as the inventory in a file has them
// at the moment.
func clusters(hosts *work.Hosts, file string) *kubewatch.Clusters {
	return kubewatch.New(kubewatch.Options{Find: func(name string) (access kubewatch.Access, err error) {
		v, err := hosts.Inventory()
		if err != nil {
			return access, err
		}
		c, err := v.FindCluster(name)
		if err != nil {
			return access, fmt.Errorf("%s: %w", file, err)
		}
		access = kubewatch.Access{Kubeconfig: c.Kubeconfig, Context: c.Context, InCluster: c.InCluster}
		if access.Kubeconfig != "" && !filepath.IsAbs(access.Kubeconfig) {
			access.Kubeconfig = filepath.Join(filepath.Dir(file), access.Kubeconfig)
		}
		return access, nil
	}})
}
