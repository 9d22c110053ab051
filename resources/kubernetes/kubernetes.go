// Package kubernetes is the resource type deployster/kubernetes: objects in a cluster, which are
// applied on the server's side.
//
// Each resource is a field manager of its own. What differs is what an apply would change of the
// fields that it manages, which the server says itself: defaults, what controllers write and what
// others manage are no drift. What the resource manages and no longer declares is.
//
// An object belongs to the resource that has applied it, or that keeps its uid. One that somebody
// else has made under that name is not taken over unasked.
package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/duration"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
)

// Summary says in one line what the type is for.
const Summary = "objects in a cluster of Kubernetes, applied on the server's side, ready and pruned"

//go:embed schema.json
var configSchema []byte

// Config is the configuration of a resource.
type Config struct {
	Kubeconfig     string            `json:"kubeconfig"`
	Context        string            `json:"context"`
	Namespace      string            `json:"namespace"`
	Manifest       json.RawMessage   `json:"manifest"`
	Objects        []json.RawMessage `json:"objects"`
	Secrets        []json.RawMessage `json:"secrets"`
	Wait           Wait              `json:"wait"`
	ForceConflicts bool              `json:"force_conflicts"`
	Adopt          bool              `json:"adopt"`
	Replace        bool              `json:"replace"`

	given map[string]any // as it was written
}

// UnmarshalJSON reads a configuration, of which nothing is ignored.
func (c *Config) UnmarshalJSON(text []byte) error {
	type plain Config
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*plain)(c)); err != nil {
		return err
	}
	return json.Unmarshal(text, &c.given)
}

// Wait is what is waited for.
type Wait struct {
	For     string   `json:"for"`
	Timeout Duration `json:"timeout"`
}

func (w Wait) ready() bool { return w.For != "none" }

func (w Wait) bound() time.Duration { return cmp.Or(time.Duration(w.Timeout), 5*time.Minute) }

// Duration is written as in "1m30s"; 0 stands for the default.
type Duration time.Duration

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(text []byte) error {
	v, err := duration.Parse(text, 1, "positive")
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

const (
	plug     = "kubeconfig"
	plugPath = "/plug/kubeconfig"
)

// Type returns the resource type.
func Type() protocol.Type[Config] { return newType(connect) }

type request = protocol.Request[Config]

func newType(connect func(request) (*kubeapi.Client, error)) protocol.Type[Config] {
	with := func(do func(*manager, context.Context) error) func(context.Context, request) error {
		return func(ctx context.Context, r request) error {
			m, err := open(r, connect)
			if err != nil {
				return err
			}
			return do(m, ctx)
		}
	}
	return protocol.Type[Config]{
		Plugs:        map[string]protocol.PlugRequest{plug: {ContainerPath: plugPath, Optional: true}},
		ConfigSchema: configSchema,
		Removable:    true,
		Keeps:        true,
		State: func(ctx context.Context, r request) (protocol.StateOutput, error) {
			m, err := open(r, connect)
			if err != nil {
				return protocol.StateOutput{}, err
			}
			if r.Ensure == protocol.Absent {
				return m.absent(ctx)
			}
			return m.present(ctx)
		},
		Actions: map[string]func(context.Context, request) error{
			"apply":  with((*manager).apply),
			"prune":  with((*manager).prune),
			"wait":   with((*manager).wait),
			"remove": with((*manager).remove),
		},
	}
}

// maxKubeconfig bounds what is read as one.
const maxKubeconfig = 1 << 20

func connect(r request) (*kubeapi.Client, error) {
	text := []byte(r.Config.Kubeconfig)
	if len(text) == 0 {
		info, err := os.Stat(plugPath)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, errors.New(`no cluster is configured: give the manifest a plug "kubeconfig" with the path of a kubeconfig, or the resource one as text in "kubeconfig"`)
		case err == nil && (!info.Mode().IsRegular() || info.Size() > maxKubeconfig):
			return nil, errors.New(`the plug "kubeconfig" must be a file of at most 1 MiB`)
		}
		if text, err = os.ReadFile(plugPath); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig of the plug: %w", err)
		}
	}
	return kubeapi.Open(text, r.Config.Context, r.Warnf)
}

// manager does what one request asks for.
type manager struct {
	request  request
	config   Config
	client   *kubeapi.Client
	name     string // of the field manager
	declared []declared
	memory   memory
}

func open(r request, connect func(request) (*kubeapi.Client, error)) (*manager, error) {
	all, err := declare(r.Config)
	if err != nil {
		return nil, err
	}
	m := &manager{request: r, config: r.Config, declared: all, name: managerOf(cmp.Or(r.ID, r.Name))}
	if m.memory, err = remember(r.Kept); err != nil {
		return nil, err
	}
	if m.client, err = connect(r); err != nil {
		return nil, err
	}
	return m, nil
}

// managerPrefix is before the names of the field managers that resources are.
const managerPrefix = "deployster/"

// managerOf is the field manager of a resource, of which the server has 128 characters at most.
func managerOf(id string) string {
	if len(managerPrefix+id) > 128 {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return managerPrefix + id
}
