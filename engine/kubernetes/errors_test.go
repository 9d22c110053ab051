package kubernetes

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Of requests without an answer those are made again that may succeed then, and those may have done
// something that were sent.
func TestRequestsWithoutAnAnswer(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = connection.Close()
		}
	}
	serve := func(config *tls.Config) *httptest.Server {
		server := httptest.NewUnstartedServer(http.HandlerFunc(cut))
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		server.TLS = config
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	secure, strict := serve(nil), serve(&tls.Config{ClientAuth: tls.RequireAnyClientCert})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = closed.Close()
	}
	require.NoError(t, err)
	trusting := rest.TLSClientConfig{Insecure: true}
	plugin := &clientcmdapi.ExecConfig{Command: "/no/such/plugin", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
	for name, tc := range map[string]struct {
		config             rest.Config
		passing, maybeDone bool
	}{
		"the connection was cut":                {rest.Config{Host: secure.URL, TLSClientConfig: trusting}, true, true},
		"nobody listens":                        {rest.Config{Host: "https://" + closed.Addr().String(), TLSClientConfig: trusting}, true, false},
		"its certificate is not trusted":        {rest.Config{Host: secure.URL}, false, false},
		"it wants a certificate":                {rest.Config{Host: strict.URL, TLSClientConfig: trusting}, false, false},
		"what credentials come from is missing": {rest.Config{Host: secure.URL, TLSClientConfig: trusting, ExecProvider: plugin}, true, false},
		"the proxy is away":                     {rest.Config{Host: secure.URL, TLSClientConfig: trusting, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: closed.Addr().String()})}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := rest.HTTPClientFor(&tc.config)
			require.NoError(t, err)
			answer, err := client.Post(tc.config.Host+"/api/v1/namespaces/shop/pods", "application/json", http.NoBody)
			if err == nil {
				_ = answer.Body.Close()
				t.Fatal("there is an answer")
			}
			if passing(err) != tc.passing || maybeDone(err) != tc.maybeDone {
				t.Errorf("%v: passes %t, want %t; was maybe done %t, want %t", err, passing(err), tc.passing, maybeDone(err), tc.maybeDone)
			}
		})
	}
}
