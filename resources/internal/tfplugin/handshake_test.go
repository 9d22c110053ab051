package tfplugin

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHandshakes(t *testing.T) {
	own, _, err := ownCertificate(time.Now())
	require.NoError(t, err)
	certificate := base64.RawStdEncoding.EncodeToString(own.Certificate[0])
	for line, problem := range map[string]string{
		"1|6|unix|/tmp/plugin|grpc|" + certificate + "\n":        "",
		"1|5|unix|/tmp/plugin|grpc|" + certificate + "|true\r\n": "",
		"":                              "is not that of a provider of Terraform",
		"usage: terraform-provider":     "is not that of a provider of Terraform",
		"2|6|unix|/tmp/plugin|grpc|x":   `version "2" of the handshake`,
		"1|4|unix|/tmp/plugin|grpc|x":   `version "4" of the plugin protocol`,
		"1|x|unix|/tmp/plugin|grpc|x":   `version "x" of the plugin protocol`,
		"1|6|tcp|127.0.0.1:1234|grpc|x": "not at a Unix socket",
		"1|6|unix|plugin|grpc|x":        "not at a Unix socket",
		"1|6|unix|/tmp/plugin":          "too old",
		"1|5|unix|/tmp/plugin|netrpc|x": "too old",
		"1|6|unix|/tmp/plugin|grpc|":    "too old",
		"1|6|unix|/tmp/plugin|grpc|???": "is not base64",
		"1|6|unix|/tmp/plugin|grpc|AAA": "its certificate",
	} {
		h, err := parseHandshake(line)
		switch {
		case problem == "" && (err != nil || h.socket != "/tmp/plugin" || h.certificate == nil):
			t.Errorf("%.30q gave %v and %v", line, h, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%.30q gave %v, want %q", line, err, problem)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add("1|6|unix|/tmp/plugin|grpc|MIIB")
	f.Fuzz(func(t *testing.T, line string) {
		if h, err := parseHandshake(line); err == nil && (versions()[h.version].service == "" || h.certificate == nil) {
			t.Errorf("%q was accepted", line)
		}
	})
}
