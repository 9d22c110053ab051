//go:build kube

package cli_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// The same of objects in a cluster, each with the uid that its API server gave it.
func TestAClusterHoldsWhatIsDeclaredAndListed(t *testing.T) {
	c := kubetest.Shared(t)
	c.StartControllers(t) // who remove what is being deleted
	s := newSite(t, " {}")
	namespace := c.Namespace(t, "")
	kubetest.Kubeconfig(t, filepath.Join(s.dir, "cluster.kubeconfig"), c.Server, c.Token, namespace)
	object := func(name, path, spec string) kind {
		config := "{manifest: {apiVersion: v1, kind: " + name + ", metadata: {name: NAME}, " + spec + "}}"
		return kind{"deployster/kubernetes", "kubeconfig: {path: cluster.kubeconfig}", config, func(t require.TestingT) map[string]string {
			var list struct {
				Items []struct {
					Metadata struct{ Name, UID string }
				}
			}
			require.NoError(t, json.Unmarshal(c.Ask(s.T, http.MethodGet, "/api/v1/namespaces/"+namespace+"/"+path, nil), &list))
			there := map[string]string{}
			for _, one := range list.Items {
				there[one.Metadata.Name] = one.Metadata.UID
			}
			return there
		}}
	}
	holdsWhatIsDeclared(s, map[string]kind{
		"map":     object("ConfigMap", "configmaps", "data: {a: b}"),
		"service": object("Service", "services", "spec: {ports: [{port: 80}], selector: {app: NAME}}"),
	}, "--engine", "oci", "--network", "host")
}
