// Package daemon is what the resource types that manage things of a Docker
// Engine have in common: the plug that brings its socket, the mark that says
// what Deployster made, and images.
package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/protocol"
	"github.com/moby/moby/client"
)

// Socket is where the plug "docker" appears in the container.
const Socket = "/var/run/docker.sock"

// Plugs asks for the socket.
func Plugs() map[string]protocol.PlugRequest {
	return map[string]protocol.PlugRequest{"docker": {ContainerPath: Socket, Writable: true}}
}

// Connect gets ready to speak with the engine behind a socket. The caller
// closes the client. No request is made yet.
func Connect(socket string) (*client.Client, error) {
	if info, err := os.Stat(socket); err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, errors.New("the plug \"docker\" is not a socket; its path must be that of the Docker Engine's socket, such as /var/run/docker.sock")
	}
	docker, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		return nil, fmt.Errorf("connecting to the Docker Engine at %s: %w", socket, err)
	}
	return docker, nil
}

// Connector returns a Connect that all requests of a process share: the client
// keeps its connections open and asks only once which API the engine has. It
// lives as long as the process, so nobody closes it.
func Connector(socket string) func() (*client.Client, error) {
	return sync.OnceValues(func() (*client.Client, error) { return Connect(socket) })
}

func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Variables are environment variables. Numbers and booleans, which expressions
// yield, are written as JSON does.
type Variables map[string]string

// UnmarshalJSON reads an object of texts, numbers and booleans.
func (v *Variables) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("environment variables must be an object: %w", err)
	}
	*v = make(Variables, len(raw))
	for name, value := range raw {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%q is not a name for an environment variable", name)
		}
		switch value[0] {
		case '"':
			var s string
			if err := json.Unmarshal(value, &s); err != nil {
				return err
			}
			(*v)[name] = s
		case 'n': // in a plan it is not known yet; else the schema refuses it
		case '{', '[':
			return fmt.Errorf("environment variable %s must be text, a number or a boolean", name)
		default:
			(*v)[name] = string(value)
		}
	}
	return nil
}

// List is the variables as NAME=VALUE, sorted.
func (v Variables) List() []string {
	list := make([]string, 0, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		list = append(list, name+"="+v[name])
	}
	return list
}
