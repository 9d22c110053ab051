package registryauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/deployster-go/deployster/internal/regularfile"
)

// mostConfig bounds Docker's configuration file, in bytes.
const mostConfig = 4 << 20

// Connection is of Docker's configuration file what is about connections to engines.
type Connection struct {
	CurrentContext string            `json:"currentContext"`
	HTTPHeaders    map[string]string `json:"HttpHeaders"`
}

// config is of Docker's configuration file what is used of it.
type config struct {
	Connection
	Auths       map[string]authEntry `json:"auths"`
	CredsStore  string               `json:"credsStore"`
	CredHelpers map[string]string    `json:"credHelpers"`

	file string
}

type authEntry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// keys are the names in auths, in an order that does not change.
func (c *config) keys() []string { return slices.Sorted(maps.Keys(c.Auths)) }

// decode returns the credentials of an entry. Its errors show nothing of them.
func (e authEntry) decode() (authn.AuthConfig, error) {
	found := authn.AuthConfig{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
	if e.Auth == "" {
		return found, nil
	}
	text, err := base64.StdEncoding.DecodeString(e.Auth)
	if err != nil {
		return found, errors.New("auth is not in base64")
	}
	user, password, ok := strings.Cut(string(text), ":")
	if !ok || user == "" {
		return found, errors.New("auth is not USER:PASSWORD in base64")
	}
	found.Username, found.Password = user, strings.Trim(password, "\x00")
	return found, nil
}

// places are where the configuration file may be, the first that exists counting: the docker
// command's, then podman's, which has the same form.
func (k Keychain) places() []string {
	if k.File != "" {
		return []string{k.File}
	}
	home := k.env("HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	var places []string
	add := func(directory string, below ...string) {
		if directory != "" {
			places = append(places, filepath.Join(append([]string{directory}, below...)...))
		}
	}
	if directory := k.env("DOCKER_CONFIG"); directory != "" {
		add(directory, "config.json")
	} else {
		add(home, ".docker", "config.json")
	}
	add(k.env("REGISTRY_AUTH_FILE"))
	add(k.env("XDG_RUNTIME_DIR"), "containers", "auth.json")
	if directory := k.env("XDG_CONFIG_HOME"); directory != "" {
		add(directory, "containers", "auth.json")
	} else {
		add(home, ".config", "containers", "auth.json")
	}
	return places
}

// read reads the configuration file; it is nil where there is none.
func (k Keychain) read() (*config, error) {
	for _, file := range k.places() {
		text, err := readFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w; make it readable for you, or name another directory in DOCKER_CONFIG", err)
		}
		read, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s %w; correct it, or name another directory in DOCKER_CONFIG", file, err)
		}
		read.file = file
		return read, nil
	}
	return nil, nil
}

// ConnectionOf is what Docker's configuration in a directory says of connections, if there is one.
func ConnectionOf(directory string) (Connection, error) {
	read, err := Keychain{File: filepath.Join(directory, "config.json")}.read()
	if err != nil {
		return Connection{}, fmt.Errorf("reading Docker's configuration: %w", err)
	}
	if read == nil {
		return Connection{}, nil
	}
	return read.Connection, nil
}

// readFile reads a regular file that is not too large.
func readFile(path string) (text []byte, err error) {
	file, info, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if info.Size() > mostConfig {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read of one", path, info.Size(), mostConfig)
	}
	return io.ReadAll(io.LimitReader(file, mostConfig))
}

// parse reads a configuration. Its errors say where it is wrong and not what stands there.
func parse(text []byte) (*config, error) {
	read := &config{}
	if len(text) == 0 {
		return read, nil
	}
	err := json.Unmarshal(text, read)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("is no JSON, in line %d", lineAt(text, syntax.Offset))
	case errors.As(err, &kind):
		return nil, fmt.Errorf("has in line %d a value of JSON's type %s where another belongs", lineAt(text, kind.Offset), strings.Fields(kind.Value)[0])
	case err != nil:
		return nil, errors.New("cannot be understood")
	}
	return read, nil
}

func lineAt(text []byte, offset int64) int {
	return 1 + strings.Count(string(text[:min(max(offset, 0), int64(len(text)))]), "\n")
}
