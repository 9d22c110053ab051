package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/client"
)

// Who is known by a certificate shows it to the server that asks for one.
func TestACertificateIsShown(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ada"}, NotAfter: time.Now().Add(time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.TLS.PeerCertificates[0].Subject.CommonName
		w.WriteHeader(http.StatusForbidden)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	c, err := client.New(client.Options{Server: s.URL, Certificate: &tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}})
	if err != nil {
		t.Fatal(err)
	}
	client.Trust(c, s.Certificate())
	if _, err := c.Open(t.Context()); err == nil {
		t.Error("the server is no server")
	}
	select {
	case name := <-shown:
		if name != "ada" {
			t.Errorf("the certificate of %s is shown", name)
		}
	default:
		t.Error("no certificate is shown")
	}
}
