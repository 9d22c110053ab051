package kubeapi

import (
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// requestTimeout bounds one request, with what it takes to connect.
const requestTimeout = time.Minute

// configuration reads a kubeconfig. What names files or programs is refused: the container of a
// type has neither, and a text that somebody gave a resource is not to run anything.
func configuration(kubeconfig []byte, context string) (config *rest.Config, namespace string, err error) {
	loaded, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, "", errors.New("the kubeconfig cannot be read: it must be one in YAML or JSON, as `kubectl config view --raw` prints it") // the error may quote a secret
	}
	if context == "" {
		context = loaded.CurrentContext
	}
	chosen := loaded.Contexts[context]
	if chosen == nil {
		return nil, "", fmt.Errorf("the kubeconfig has no context %q; it has %s: name one in \"context\"", context, names(loaded.Contexts))
	}
	if err := selfContained(loaded, chosen); err != nil {
		return nil, "", fmt.Errorf("the context %q of the kubeconfig: %w", context, err)
	}
	loading := clientcmd.NewNonInteractiveClientConfig(*loaded, context, &clientcmd.ConfigOverrides{}, nil)
	if config, err = loading.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("the context %q of the kubeconfig cannot be used: %w", context, err)
	}
	if len(config.CAData) == 0 && !config.Insecure && !strings.HasPrefix(strings.ToLower(config.Host), "http:") {
		config.CAData = publicAuthorities()
	}
	// Many objects are asked for at once; a client waits by itself otherwise.
	config.QPS, config.Burst, config.Timeout = 100, 200, requestTimeout
	config.UserAgent = "deployster"
	if chosen.Namespace == "" {
		return config, "default", nil
	}
	return config, chosen.Namespace, nil
}

func names(contexts map[string]*api.Context) string {
	if len(contexts) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(contexts)), ", ")
}

// selfContained refuses what leads out of a kubeconfig.
func selfContained(c *api.Config, chosen *api.Context) error {
	cluster, user := c.Clusters[chosen.Cluster], c.AuthInfos[chosen.AuthInfo]
	if cluster == nil || cluster.Server == "" {
		return fmt.Errorf("its cluster %q has no server", chosen.Cluster)
	}
	u, err := url.Parse(cluster.Server)
	switch {
	case err != nil || u.User != nil:
		return fmt.Errorf("the server of its cluster %q must be an address without a user and password, which would be shown", chosen.Cluster)
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http": // clients would take it for one with http
		return fmt.Errorf("the server of its cluster %q must be an address like https://cluster.example:6443", chosen.Cluster)
	}
	if user == nil {
		user = &api.AuthInfo{}
	}
	if u.Scheme == "http" && (user.Token != "" || user.TokenFile != "" || user.Username != "" || user.Password != "") {
		return fmt.Errorf("its cluster %q has the address %s, over which no credentials are sent: name one with https", chosen.Cluster, cluster.Server)
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return fmt.Errorf("its user %q runs a program for credentials, which the container of a type does not have; give it the token of a service account, such as of `kubectl create token`", chosen.AuthInfo)
	}
	files := []string{cluster.CertificateAuthority, user.ClientCertificate, user.ClientKey, user.TokenFile}
	if i := slices.IndexFunc(files, func(f string) bool { return f != "" }); i >= 0 {
		return fmt.Errorf("it names the file %s, which the container of a type does not see; write its content into the kubeconfig, as `kubectl config view --raw --flatten --minify` does", files[i])
	}
	return nil
}

// publicAuthorities are those that are trusted where a kubeconfig names none: the container of a
// type has no files of the system with them.
func publicAuthorities() []byte {
	var all []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return all
}

// isLocal reports whether an address of a server is the machine that asks, which within a
// container is the container.
func isLocal(host string) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
