package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	nethttp "net/http"
	"sync"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// connector returns what makes the way to the servers of one request. The
// authorities are read once for all of them.
func connector() func(Config) (*nethttp.Transport, error) {
	known := sync.OnceValues(authorities)
	return func(c Config) (*nethttp.Transport, error) {
		roots, err := known()
		if err != nil {
			return nil, err
		}
		if c.CAPEM != "" {
			if roots = roots.Clone(); !roots.AppendCertsFromPEM([]byte(c.CAPEM)) {
				return nil, errors.New("ca_pem contains no certificate in PEM form")
			}
		}
		return &nethttp.Transport{
			Proxy:                  nethttp.ProxyFromEnvironment,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 1 << 20,
			DisableKeepAlives:      true, // each request shows whether a new one would be answered
			TLSClientConfig: &tls.Config{
				RootCAs:            roots,
				InsecureSkipVerify: c.InsecureSkipVerify, //nolint:gosec // the user asks for it by name
			},
		}, nil
	}
}

// authorities are those that the system trusts, where there are some. In the
// container of a shipped type there are none, hence the bundle.
func authorities() (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("reading the bundled certificates: %w", err)
		}
		if root.Constraint == nil {
			roots.AddCert(cert)
		} else {
			roots.AddCertWithConstraint(cert, root.Constraint)
		}
	}
	return roots, nil
}
