package app

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/client"
)

// Server is the server whose log commands read and record in; "" is none: the log is here.
// A log that is named on the command line is meant though the environment names a server.
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
	remote, err := client.New(client.Options{Server: server, Token: token})
	if err != nil {
		return nil, exit.Usage("--server: %w", err)
	}
	return remote, nil
}

// maxToken is how long a file of a token may be.
const maxToken = 4096

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
	content := make([]byte, maxToken)
	n, err := f.Read(content)
	if err := cmp.Or(err, f.Close()); err != nil {
		return "", fmt.Errorf("reading the token that DEPLOYSTER_TOKEN_FILE names: %w", err)
	}
	text = strings.TrimSpace(string(content[:n]))
	if text == "" {
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
