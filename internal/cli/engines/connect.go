package engines

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/inventory"
)

// Connect connects to the engine that --engine asks for.
func Connect(ctx context.Context, a *app.App, news io.Writer, f Flags) (*work.Connection, error) {
	e, info, err := Open(ctx, a, news, f)
	if err != nil {
		return nil, err
	}
	return connection(a, e, info, nil, news, f)
}

// connection is an engine that was opened, which it closes where it cannot be
// used. tls is that of a host which has its own.
func connection(a *app.App, e engine.Engine, info engine.Info, tls *runs.EngineTLS, news io.Writer, f Flags) (*work.Connection, error) {
	images, err := Images(a, e, info, f)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &work.Connection{
		Engine: e, Info: info, Images: images,
		Recovery: &Finder{app: a, engine: e, info: info, TLS: tls, news: news},
	}, nil
}

// Dial connects to the engines of the hosts of an inventory file.
func Dial(a *app.App, file string, news io.Writer, f Flags) work.Dial {
	return func(ctx context.Context, h inventory.Host) (*work.Connection, error) {
		if h.Name == "" {
			return Connect(ctx, a, news, f)
		}
		e, info, err := OpenHost(ctx, a, h, file, news)
		if err != nil {
			return nil, err
		}
		var tls *runs.EngineTLS
		if files := TLSOf(h, file); files != nil {
			tls = &runs.EngineTLS{CA: files.CA, Cert: files.Cert, Key: files.Key}
		}
		return connection(a, e, info, tls, news, f)
	}
}

// OpenHost connects to the engine of a host.
func OpenHost(ctx context.Context, a *app.App, h inventory.Host, file string, news io.Writer) (e engine.Engine, info engine.Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	if h.Engine == inventory.OCI {
		e, err = oci.Open(ctx, oci.Options{Runtime: a.Global.OciRuntime, AllowUnbounded: a.Global.Unbounded, Logger: app.Logger(news)})
	} else {
		o := docker.Options{Host: h.Endpoint, Env: a.WithoutTLS, Logger: app.Logger(news)}
		o.TLS = TLSOf(h, file)
		e, err = docker.Open(ctx, o)
	}
	if err != nil {
		return nil, engine.Info{}, err
	}
	if info, err = e.Info(ctx); err != nil {
		return nil, engine.Info{}, errors.Join(err, e.Close())
	}
	return e, info, nil
}

// TLSOf are the files for the engine of a host, nil when it has none of its own:
// relative paths are below the directory of the inventory.
func TLSOf(h inventory.Host, file string) *docker.TLS {
	if h.TLS == nil {
		return nil
	}
	below := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		whole := filepath.Join(filepath.Dir(file), path)
		if abs, err := filepath.Abs(whole); err == nil {
			return abs
		}
		return whole
	}
	return &docker.TLS{CA: below(h.TLS.CA), Cert: below(h.TLS.Cert), Key: below(h.TLS.Key)}
}
