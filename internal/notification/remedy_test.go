package notification

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certificate is one for a name, which has signed itself.
func certificate(t *testing.T, name string, ends time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: ends.Add(-48 * time.Hour), NotAfter: ends,
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if ip := net.ParseIP(name); ip != nil {
		about.IPAddresses = []net.IP{ip}
	} else {
		about.DNSNames = []string{name}
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
}

// A receiver whose certificate is wrong is told nothing, and the error says what to do.
func TestAWrongCertificateIsExplained(t *testing.T) {
	later := time.Now().Add(24 * time.Hour)
	for name, tc := range map[string]struct {
		has  tls.Certificate
		want string
	}{
		"of nobody":    {certificate(t, "127.0.0.1", later), "SSL_CERT_FILE"},
		"another name": {certificate(t, "mail.example", later), "write the name that its certificate is for"},
		"expired":      {certificate(t, "127.0.0.1", time.Now().Add(-time.Hour)), "has to renew its certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 1)
			e := speak(t, func(c net.Conn, in *bufio.Reader) {
				_, _ = io.WriteString(c, "220 mail.example\r\n")
				for {
					line, err := in.ReadString('\n')
					switch {
					case err != nil:
						close(heard)
						return
					case strings.HasPrefix(line, "EHLO"):
						_, _ = io.WriteString(c, "250-mail.example\r\n250 STARTTLS\r\n")
					case strings.HasPrefix(line, "STARTTLS"):
						_, _ = io.WriteString(c, "220 go on\r\n")
						text, _ := io.ReadAll(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{tc.has}}))
						heard <- string(text)
						return
					}
				}
			})
			e.Plain = false
			err := send(t.Context(), Rule{Email: e}, message)
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.want) && strings.Contains(err.Error(), e.Server), "mail: %v", err)
			assert.Empty(t, <-heard, "it was told")

			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was told") }))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{tc.has}}
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			defer s.Close()
			assert.ErrorContains(t, send(t.Context(), Rule{Webhook: &Webhook{URL: s.URL}}, message), tc.want, "webhook")
		})
	}
}

// Mail that nobody allowed to be read by others is not sent, and the error says how it could be.
func TestAMailServerWithoutTLSIsExplained(t *testing.T) {
	to, _ := mailbox(t)
	to.Plain = false
	err := send(t.Context(), Rule{Email: to}, message)
	assert.True(t, err != nil && strings.Contains(err.Error(), "does not offer STARTTLS") && strings.Contains(err.Error(), "plain: true"), "%v", err)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	assert.ErrorContains(t, send(t.Context(), Rule{Webhook: &Webhook{URL: strings.Replace(s.URL, "http:", "https:", 1)}}, message), "check the port")
}
