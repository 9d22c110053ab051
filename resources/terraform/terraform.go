// Package terraform makes every resource of every provider of Terraform a resource type:
// it speaks Deployster's protocol to the one side, and that of Terraform's plugins to a
// provider on the other.
//
// What Terraform has in its state is what the type has kept. What it calls a plan becomes
// actions, a refresh is what the state action does, an import is an adoption, and a data
// source is a type whose resources are only observed.
//
// A provider runs beside the type, in the same container. One process of it serves all
// requests with the same configuration of the provider.
package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deployster-go/deployster/protocol"
)

// Where an image of the type has what belongs to it.
const (
	Dir         = "/terraform"
	programFile = "provider"
	initsDir    = "types"
)

// TypeName is that of the command that images of such types run.
const TypeName = "terraform"

// DataPrefix is before the names of data sources, which may be those of resources, too.
const DataPrefix = "data."

// Init is what a type of a resource says about itself, which was found out when its image
// was made.
type Init struct {
	Plugs        map[string]protocol.PlugRequest `json:"plugs,omitempty"`
	ConfigSchema json.RawMessage                 `json:"config_schema"`
	StateSchema  json.RawMessage                 `json:"state_schema"`
}

// Encode is the content of the file that InitPath names.
func (i Init) Encode() ([]byte, error) { return json.Marshal(i) }

// InitsPath is the directory of all such files.
func InitsPath(dir string) string { return filepath.Join(dir, initsDir) }

// InitPath is where an image has the Init of a resource, or of a data source with its
// prefix.
func InitPath(dir, name string) string { return filepath.Join(InitsPath(dir), name+".json") }

// ProgramPath is where an image has the provider.
func ProgramPath(dir string) string { return filepath.Join(dir, programFile) }

// Run is what a container of an image does whose files are in dir. args begin with the name
// of the resource; the others are those of protocol.Type.Run. Without any the provider's
// resources are described, see Describe.
func Run(ctx context.Context, dir string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		if err := Describe(ctx, dir, os.Environ(), time.Now(), stdout); err != nil {
			_, _ = fmt.Fprintln(stderr, "error:", err)
			return 1
		}
		return 0
	}
	p := newPool(dir)
	defer p.close()
	t, err := typeOf(p, dir, args[0])
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "error: reading what is known of %q: %v\n", args[0], err)
		return 1
	}
	return t.Run(ctx, args[1:], stdin, stdout, stderr)
}

// typeOf is the type of a resource, or of a data source with its prefix.
func typeOf(p *pool, dir, name string) (t protocol.Type[json.RawMessage], err error) {
	if name == "" || strings.ContainsAny(name, `/\`) {
		return t, errors.New("that is not the name of a resource")
	}
	text, err := os.ReadFile(InitPath(dir, name))
	if err != nil {
		return t, err
	}
	var init Init
	if err := json.Unmarshal(text, &init); err != nil {
		return t, err
	}
	if source, ok := strings.CutPrefix(name, DataPrefix); ok {
		return data(p, source, init), nil
	}
	return managed(p, name, init), nil
}

func newPool(dir string) *pool {
	return &pool{program: ProgramPath(dir), env: os.Environ(), now: time.Now}
}
