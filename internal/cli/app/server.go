package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/client"
)

// Server is the server whose log commands read and record in; "" is none: the log is here.
// A log that is named on the command line is meant though the environment names a server, and a
// server before the log that the environment names.
func (a *App) Server() string {
	if a.Global.Server != "" || a.Global.Log != "" {
		return a.Global.Server
	}
	return a.Getenv("DEPLOYSTER_SERVER")
}

// Local refuses what is done with the log itself, where the log is that of a server.
func (a *App) Local() error {
	server := a.Server()
	if server == "" {
		return nil
	}
	return exit.Usage("this is done with the log itself, and not through server %s: run it where the log is, without --server and DEPLOYSTER_SERVER, or name the log here with --log", server)
}

// Remote is the server, which is asked as who the token is of; nil is none, where the log is
// here.
func (a *App) Remote() (*client.Client, error) {
	server := a.Server()
	if server == "" {
		return nil, nil
	}
	if a.Global.Log != "" {
		return nil, exit.Usage("--server and --log exclude each other: a server has its own log")
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	certificate, err := a.certificate()
	if err != nil {
		return nil, err
	}
	remote, err := client.New(client.Options{Server: server, Token: token, Certificate: certificate, Notice: a.Notice})
	if err != nil {
		return nil, exit.Usage("--server: %w", err)
	}
	return remote, nil
}

// certificate is what is shown to a server; nil is none.
func (a *App) certificate() (*tls.Certificate, error) {
	cert, key := a.Getenv("DEPLOYSTER_CLIENT_CERT"), a.Getenv("DEPLOYSTER_CLIENT_KEY")
	switch {
	case cert == "" && key == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, exit.Usage("DEPLOYSTER_CLIENT_CERT and DEPLOYSTER_CLIENT_KEY go together: they name the files of a certificate and its key, in PEM")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("the certificate %s with the key %s, which DEPLOYSTER_CLIENT_CERT and DEPLOYSTER_CLIENT_KEY name: %w", cert, key, err))
	}
	return &pair, nil
}

// maxToken is how long a file of a token may be: that of an identity provider has what it says of
// somebody in it.
const maxToken = 16 << 10

// token is what authenticates at the server; "" is none.
func (a *App) token() (string, error) {
	file := a.Getenv("DEPLOYSTER_TOKEN_FILE")
	text := strings.TrimSpace(a.Getenv("DEPLOYSTER_TOKEN"))
	if file == "" || text != "" {
		return text, checkToken("DEPLOYSTER_TOKEN", text)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading the token that DEPLOYSTER_TOKEN_FILE names: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err := cmp.Or(err, f.Close()); err != nil {
		return "", fmt.Errorf("reading the token that DEPLOYSTER_TOKEN_FILE names: %w", err)
	}
	text = strings.TrimSpace(string(content))
	switch {
	case len(content) > maxToken:
		return "", fmt.Errorf("%s, which DEPLOYSTER_TOKEN_FILE names, has more than %d bytes, which no token has", file, maxToken)
	case text == "":
		return "", fmt.Errorf("%s, which DEPLOYSTER_TOKEN_FILE names, has no token", file)
	}
	return text, checkToken(file, text)
}

// checkToken refuses what cannot be a token; it is not shown.
func checkToken(where, text string) error {
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return errors.New(where + " is to have one token and nothing else: it has blanks or other characters that no token has")
		}
	}
	return nil
}
