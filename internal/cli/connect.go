package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/inventory"
)

// connect connects to the engine that --engine asks for.
func (a *app) connect(ctx context.Context, news io.Writer, f engineFlags) (*work.Connection, error) {
	e, info, err := a.openEngine(ctx, news, f)
	if err != nil {
		return nil, err
	}
	return a.connection(e, info, nil, news, f)
}

// connection is an engine that was opened, which it closes where it cannot be
// used. tls is that of a host which has its own.
func (a *app) connection(e engine.Engine, info engine.Info, tls *runs.EngineTLS, news io.Writer, f engineFlags) (*work.Connection, error) {
	images, err := a.images(e, info, f)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &work.Connection{
		Engine: e, Info: info, Images: images,
		Recovery: &engines{app: a, engine: e, info: info, tls: tls, news: news},
	}, nil
}

// dial connects to the engines of the hosts of an inventory file.
func (a *app) dial(file string, news io.Writer, f engineFlags) work.Dial {
	return func(ctx context.Context, h inventory.Host) (*work.Connection, error) {
		if h.Name == "" {
			return a.connect(ctx, news, f)
		}
		e, info, err := a.openHost(ctx, h, file, news)
		if err != nil {
			return nil, err
		}
		var tls *runs.EngineTLS
		if files := tlsOf(h, file); files != nil {
			tls = &runs.EngineTLS{CA: files.CA, Cert: files.Cert, Key: files.Key}
		}
		return a.connection(e, info, tls, news, f)
	}
}

// workers do the work of steps on the engines of hosts.
type workers struct {
	*work.EnginePool
	hosts *work.Hosts
	tasks *work.TaskWorker
	steps *work.StepWorker
}

// workers opens the workers of a command.
func (a *app) workers(log deploylog.Log, hosts *work.Hosts, input inputFlags, f engineFlags, news io.Writer) (*workers, error) {
	config, err := a.config(log, input, f)
	if err != nil {
		return nil, err
	}
	pool := work.NewEnginePool(hosts, a.dial(hosts.Path(), news, f))
	tasks, err := work.NewTaskWorker(config, pool)
	if err != nil {
		return nil, err
	}
	return &workers{EnginePool: pool, hosts: hosts, tasks: tasks, steps: work.NewStepWorker(config, pool)}, nil
}

func (w *workers) close() error {
	err := w.Close()
	w.tasks.Close()
	return err
}

// openHost connects to the engine of a host.
func (a *app) openHost(ctx context.Context, h inventory.Host, file string, news io.Writer) (e engine.Engine, info engine.Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	if h.Engine == inventory.OCI {
		e, err = oci.Open(ctx, oci.Options{Runtime: a.global.ociRuntime, AllowUnbounded: a.global.unbounded, Logger: logger(news)})
	} else {
		o := docker.Options{Host: h.Endpoint, Env: a.withoutTLS, Logger: logger(news)}
		o.TLS = tlsOf(h, file)
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

// tlsOf are the files for the engine of a host, nil when it has none of its own:
// relative paths are below the directory of the inventory.
func tlsOf(h inventory.Host, file string) *docker.TLS {
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

// withoutTLS is the environment without what it says of the TLS of Docker, which
// the inventory says for each host.
func (a *app) withoutTLS(name string) string {
	if strings.HasPrefix(name, "DOCKER_TLS") || name == "DOCKER_CERT_PATH" {
		return ""
	}
	return a.getenv(name)
}
