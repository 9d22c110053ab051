package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/cli/output"
)

// asking is a program that asks a server, in an environment.
func asking(environment map[string]string) *App {
	a := &App{Printer: &output.Printer{Getenv: func(name string) string { return environment[name] }}}
	a.Global.Server = "https://deploy.example"
	return a
}

// A token is taken as it is in its file, or not at all: half of one would be refused by the server,
// which does not say why.
func TestATokenIsTakenAsAWhole(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"one of ours", "dpl_1_x\n", ""},
		{"one of an identity provider", strings.Repeat("x", 12_000) + "\n", ""},
		{"none", "", "has no token"},
		{"blank", " \n", "has no token"},
		{"something else", strings.Repeat("x", 17_000), "has more than 16384 bytes, which no token has"},
		{"two", "a\nb", "one token and nothing else"},
	} {
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
		token, err := asking(map[string]string{"DEPLOYSTER_TOKEN_FILE": file}).token()
		switch {
		case c.want == "" && (err != nil || token != strings.TrimSpace(c.content)):
			t.Errorf("%s: %d bytes are taken: %v", c.name, len(token), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v", c.name, err)
		}
	}
}

// Who names half of a certificate, or one that cannot be read, is not asked for a token instead.
func TestACertificateIsNamedWithItsKey(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("no certificate"), 0o600))
	for _, c := range []struct{ cert, key, want string }{
		{broken, "", "go together"},
		{"", broken, "go together"},
		{broken, broken, "which DEPLOYSTER_CLIENT_CERT and DEPLOYSTER_CLIENT_KEY name: tls: failed"},
		{broken, filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		_, err := asking(map[string]string{"DEPLOYSTER_CLIENT_CERT": c.cert, "DEPLOYSTER_CLIENT_KEY": c.key}).Remote()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: the error is %v", c, err)
		}
	}
	if _, err := asking(nil).Remote(); err != nil {
		t.Error(err)
	}
}
