package listen

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/deployster-go/deployster/internal/regularfile"
)

// TLS is the certificate of a server, read from files that may change.
type TLS struct {
	files  Files
	logger *slog.Logger

	mu     sync.Mutex
	texts  [3][]byte // of the files, as the configuration was made of them
	last   *tls.Config
	failed string // why the present files are of no use; it was said
}

// Files are those that TLS is read from, in PEM.
type Files struct {
	Certificate string
	Key         string
	ClientCA    string // of the certificates that clients may show; "" lets them show none
}

// mostPEM is how large one of the files may be, in bytes.
const mostPEM = 1 << 20

// NewTLS reads the files for the first time.
func NewTLS(f Files, logger *slog.Logger) (*TLS, error) {
	t := &TLS{files: f, logger: logger}
	texts, err := f.read()
	if err != nil {
		return nil, err
	}
	t.texts = texts
	t.last, err = f.configure(texts)
	return t, err
}

// Authorities are those of the certificates that clients may show by now; nil are none.
func (t *TLS) Authorities() *x509.CertPool { return t.current().ClientCAs }

// config is of a server of which each connection has the configuration of its time.
func (t *TLS) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current(), nil },
	}
}

// current is the configuration that the files make now, or the last that they did.
func (t *TLS) current() *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	texts, err := t.files.read()
	if err == nil && same(texts, t.texts) {
		return t.last
	}
	var fresh *tls.Config
	if err == nil {
		fresh, err = t.files.configure(texts)
	}
	if err != nil {
		if err.Error() != t.failed {
			t.failed = err.Error()
			t.logger.Warn("the former certificate serves on", "error", err)
		}
		return t.last
	}
	t.texts, t.last, t.failed = texts, fresh, ""
	t.logger.Info("the certificate has changed, and serves from now on", "file", t.files.Certificate)
	return t.last
}

func same(a, b [3][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (f Files) read() (texts [3][]byte, err error) {
	for i, path := range []string{f.Certificate, f.Key, f.ClientCA} {
		if path == "" {
			continue
		}
		if texts[i], err = readPEM(path); err != nil {
			return texts, fmt.Errorf("reading the TLS file %s: %w", path, err)
		}
	}
	return texts, nil
}

func readPEM(path string) ([]byte, error) {
	file, _, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, mostPEM+1))
	if len(text) > mostPEM {
		return nil, errors.New("it is larger than 1 MiB")
	}
	return text, err
}

func (f Files) configure(texts [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("the certificate %s with the key %s: %w", f.Certificate, f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.ClientCA != "" {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !c.ClientCAs.AppendCertsFromPEM(texts[2]) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", f.ClientCA)
		}
	}
	return c, nil
}
