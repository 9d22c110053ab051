// Package tftest is a provider of Terraform for tests. A test's program becomes it when it
// is started as one:
//
//	func TestMain(m *testing.M) {
//		if tftest.Started() {
//			tftest.Main()
//		}
//		os.Exit(m.Run())
//	}
//
// It has a resource and a data source, fake_thing. Things are files in the directory that
// the environment names World, so tests see them and change them behind its back. What a
// thing has as its fault makes the provider misbehave.
package tftest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// What the environment of the provider says.
const (
	World     = "TFTEST_WORLD"     // the directory of all things
	Handshake = "TFTEST_HANDSHAKE" // what it says first instead of the truth; "none" is nothing at all
	Identity  = "TFTEST_IDENTITY"  // version of the identity schema of things, which have none without
	Protocol  = "TFTEST_PROTOCOL"  // version of the protocol: 5, or 6 by default
)

// Started reports whether this process was started as a provider.
func Started() bool { return os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "" }

// Main is the provider. It does not return.
func Main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "the provider of tests:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve() error {
	switch said := os.Getenv(Handshake); said {
	case "":
	case "none":
		select {}
	default:
		fmt.Fprintln(os.Stdout, said)
		return fmt.Errorf("it was told to say %.20q", said)
	}
	dir, err := os.MkdirTemp("", "tftest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a directory of tests
	socket := filepath.Join(dir, "socket")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", socket)
	if err != nil {
		return err
	}
	own, der, err := certificate()
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	ended := make(chan struct{})
	// The client is connected by its first call, and needs the socket no longer: a provider that
	// is killed leaves nothing behind.
	connected := sync.OnceFunc(func() { _ = os.RemoveAll(dir) })
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, NextProtos: []string{"h2"}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connected()
			answer(w, r, ended)
		}),
	}
	version := os.Getenv(Protocol)
	if version == "" {
		version = "6"
	}
	fmt.Fprintf(os.Stdout, "1|%s|unix|%s|grpc|%s\n", version, socket, base64.RawStdEncoding.EncodeToString(der))
	go func() { _ = server.ServeTLS(listener, "", "") }()
	<-ended
	return nil
}

func certificate() (own tls.Certificate, der []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return own, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, der, err
}

// answer handles one call of gRPC.
func answer(w http.ResponseWriter, r *http.Request, ended chan struct{}) {
	head := make([]byte, 5)
	var request []byte
	if _, err := io.ReadFull(r.Body, head); err == nil {
		request = make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(r.Body, request); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	method := path.Base(r.URL.Path)
	switch {
	case method == "Shutdown":
		w.Header().Set("Grpc-Status", "0")
		defer close(ended)
		return
	case !strings.HasPrefix(r.URL.Path, "/tfplugin"):
		w.Header().Set("Grpc-Status", "12")
		return
	}
	reply, err := call(method, fields(request))
	if err != nil {
		w.Header().Set("Grpc-Status", "2")
		if errors.Is(err, errUnimplemented) {
			w.Header().Set("Grpc-Status", "12")
		}
		w.Header().Set("Grpc-Message", strings.ReplaceAll(err.Error(), " ", "%20"))
		return
	}
	binary.BigEndian.PutUint32(head[1:], uint32(len(reply)))
	head[0] = 0
	_, _ = io.Copy(w, io.MultiReader(bytes.NewReader(head), bytes.NewReader(reply)))
	w.Header().Set("Grpc-Status", "0")
}
