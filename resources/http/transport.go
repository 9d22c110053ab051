package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	nethttp "net/http"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// newTransport trusts the system's authorities where there are some. In the
// container of a shipped type there are none, hence the bundle.
func newTransport(c Config) (*nethttp.Transport, error) {
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
	if c.CAPEM != "" && !roots.AppendCertsFromPEM([]byte(c.CAPEM)) {
		return nil, errors.New("ca_pem contains no certificate in PEM form")
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
