//go:build !linux

package oci

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/deployster-go/deployster/engine"
)

// Engine runs containers by an OCI runtime. It exists on Linux only.
type Engine struct{ engine.Engine }

// Open fails.
func Open(context.Context, Options) (*Engine, error) {
	return nil, fmt.Errorf("%w: running containers without a daemon needs Linux, and this is %s; use Docker", engine.ErrUnavailable, runtime.GOOS)
}

// Identity cannot be called.
func (*Engine) Identity(context.Context) (engine.Identity, error) {
	return engine.Identity{}, engine.ErrUnavailable
}

// Leftovers exist on Linux only.
type Leftovers struct{ engine.Engine }

// OpenLeftovers fails.
func OpenLeftovers(Options) (*Leftovers, error) {
	return nil, fmt.Errorf("%w: containers without a daemon are only on Linux, and this is %s", engine.ErrUnavailable, runtime.GOOS)
}

// Images cannot be called.
func (*Engine) Images() ([]Image, error) { return nil, engine.ErrUnavailable }

// LoadPath cannot be called.
func (*Engine) LoadPath(context.Context, string, func(int64)) ([]Image, error) {
	return nil, engine.ErrUnavailable
}

// LoadFrom cannot be called.
func (*Engine) LoadFrom(context.Context, io.Reader, func(int64)) ([]Image, error) {
	return nil, engine.ErrUnavailable
}

// Prune cannot be called.
func (*Engine) Prune(context.Context, func(Image) bool) (Pruned, error) {
	return Pruned{}, engine.ErrUnavailable
}
