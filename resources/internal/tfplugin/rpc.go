package tfplugin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

// maxMessage is how large an answer may be: as large as providers take requests.
const maxMessage = 256 << 20

// framed is how many bytes precede a message: whether it is compressed, and its length.
const framed = 5

// rpc calls methods of a gRPC server at a Unix socket.
type rpc struct{ http *http.Client }

func newRPC(h handshake, own tls.Certificate) rpc {
	roots := x509.NewCertPool()
	roots.AddCert(h.certificate)
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: "localhost", RootCAs: roots,
		Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return rpc{&http.Client{Transport: &http.Transport{
		Protocols: protocols,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "unix", h.socket)
			if err != nil {
				return nil, err
			}
			secured := tls.Client(conn, config)
			if err := secured.HandshakeContext(ctx); err != nil {
				_ = conn.Close()
				return nil, err
			}
			return secured, nil
		},
	}}}
}

func (r rpc) close() { r.http.CloseIdleConnections() }

// statusError is a call that the server answered with a status other than OK.
type statusError struct {
	method  string
	code    int
	message string
}

func (e *statusError) Error() string {
	if e.code == unimplemented {
		return "the provider has no " + e.method
	}
	if e.message == "" {
		return fmt.Sprintf("%s failed with the status %d of gRPC", e.method, e.code)
	}
	return fmt.Sprintf("%s failed: %s", e.method, e.message)
}

// Statuses of gRPC.
const (
	unimplemented = 12
	unavailable   = 14
)

// call makes a call with one request and one answer.
func (r rpc) call(ctx context.Context, service, method string, request []byte) ([]byte, error) {
	var answer []byte
	answered := false
	err := r.stream(ctx, service, method, request, func(message []byte) error {
		if answered {
			return fmt.Errorf("%s was answered more than once", method)
		}
		answer, answered = message, true
		return nil
	})
	if err == nil && !answered {
		err = fmt.Errorf("%s was not answered", method)
	}
	return answer, err
}

// stream makes a call that may have many answers.
func (r rpc) stream(ctx context.Context, service, method string, request []byte, answer func([]byte) error) error {
	body := make([]byte, framed, framed+len(request))
	binary.BigEndian.PutUint32(body[1:], uint32(len(request)))
	body = append(body, request...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://localhost/"+service+"/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	req.Header.Set("User-Agent", "deployster")
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s was answered with the status %s of HTTP", method, resp.Status)
	}
	for {
		message, err := readMessage(resp.Body)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the answer to %s: %w", method, err)
		}
		if err := answer(message); err != nil {
			return err
		}
	}
	status := resp.Trailer
	if status.Get("Grpc-Status") == "" {
		status = resp.Header // a call that failed at once has no trailer
	}
	code, err := strconv.Atoi(status.Get("Grpc-Status"))
	switch {
	case err != nil:
		return fmt.Errorf("the answer to %s ended without a status", method)
	case code != 0:
		message, err := url.PathUnescape(status.Get("Grpc-Message"))
		if err != nil {
			message = status.Get("Grpc-Message")
		}
		return &statusError{method, code, message}
	}
	return nil
}

// readMessage reads one message; io.EOF is the end.
func readMessage(from io.Reader) ([]byte, error) {
	var head [framed]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 {
		return nil, errors.New("it is compressed, which was not asked for")
	}
	if length > maxMessage {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", length, maxMessage)
	}
	// What is said to be coming may never come, so the memory for it is taken as it comes.
	var message bytes.Buffer
	if _, err := io.CopyN(&message, from, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return message.Bytes(), nil
}
