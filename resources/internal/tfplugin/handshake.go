package tfplugin

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// What tells a provider that it was not started by a person.
const (
	cookieName  = "TF_PLUGIN_MAGIC_COOKIE"
	cookieValue = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"
)

// maxHandshake is how long the first line of a provider may be.
const maxHandshake = 16 << 10

// handshake is what the first line of a provider's stdout says.
type handshake struct {
	version     int // of the plugin protocol
	socket      string
	certificate *x509.Certificate // that it proves itself with
}

// parseHandshake reads CORE|VERSION|NETWORK|ADDRESS|PROTOCOL|CERTIFICATE, where more
// fields may follow.
func parseHandshake(line string) (handshake, error) {
	fields := strings.Split(strings.TrimSpace(line), "|")
	if len(fields) < 4 {
		return handshake{}, fmt.Errorf("its first line %.200q is not that of a provider of Terraform", line)
	}
	if fields[0] != "1" {
		return handshake{}, fmt.Errorf("it speaks version %.20q of the handshake, not 1", fields[0])
	}
	version, err := strconv.Atoi(fields[1])
	if err != nil || versions()[version].service == "" {
		return handshake{}, fmt.Errorf("it speaks version %.20q of the plugin protocol; Deployster speaks 5 and 6, which providers do that were made for Terraform 0.12 or later", fields[1])
	}
	if fields[2] != "unix" || !filepath.IsAbs(fields[3]) {
		return handshake{}, fmt.Errorf("it listens at %.200q of the network %.20q, not at a Unix socket", fields[3], fields[2])
	}
	if len(fields) < 6 || fields[4] != "grpc" || fields[5] == "" {
		return handshake{}, fmt.Errorf("it does not offer gRPC with a certificate: it is too old, use a newer version of the provider")
	}
	der, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(fields[5], "="))
	if err != nil {
		return handshake{}, fmt.Errorf("its certificate is not base64: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return handshake{}, fmt.Errorf("its certificate: %w", err)
	}
	return handshake{version, fields[3], certificate}, nil
}
