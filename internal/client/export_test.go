package client

import (
	"crypto/x509"
	"net/http"
)

// Trust has a client trust a server of a test by its certificate.
func Trust(c *Client, of *x509.Certificate) {
	transport := c.http.Transport.(*http.Transport)
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(of)
}
