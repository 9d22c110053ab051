// Package engines opens container engines: the one that --engine names, those of
// hosts, and those that runs of the past used. With package app, which opens the
// log, it is where concrete engines and stores have names.
package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/usercache"
	"github.com/deployster-go/deployster/runner"
)

// The engines that --engine names.
const (
	Auto   = "auto"
	Docker = "docker"
	OCI    = "oci"
)

// Flags are the flags of commands that run containers.
type Flags struct {
	Pull       string
	Network    string
	typesImage string
	Memory     sizeFlag
	Pids       int64
	noCache    bool     // see registerCache
	Abandon    []string // see registerAbandon

	Changes    bool             // the command changes things
	Unfinished *runs.Unfinished // the dead run whose engine auto prefers; may be nil
}

// Register adds the flags.
func (f *Flags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.Pull, "pull", string(engine.PullMissing), "when to pull images: missing, always or never")
	c.Flags().StringVar(&f.Network, "network", "", "network of every container (default: the engine's)")
	c.Flags().StringVar(&f.typesImage, "types-image", "", "image that holds the deployster binary for the engine's platform, for the types that ship with it")
	c.Flags().Var(&f.Memory, "memory", "memory of every container, such as 512MiB (default: the engine's)")
	c.Flags().Int64Var(&f.Pids, "pids", 0, "how many processes and threads every container may have (default: the engine's)")
	_ = c.RegisterFlagCompletionFunc("pull", cobra.FixedCompletions([]string{"missing", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("network", cobra.FixedCompletions([]string{"none", "host"}, cobra.ShellCompDirectiveNoFileComp))
}

// leastMemory is what a Docker Engine gives a container at least.
const leastMemory = 6 << 20

// Policy checks the flags and returns when images are pulled.
func (f *Flags) Policy() (engine.PullPolicy, error) {
	if f.Memory != 0 && f.Memory < leastMemory {
		return "", exit.Usage("--memory %s: a container needs at least %s", phrase.Size(int64(f.Memory)), phrase.Size(leastMemory))
	}
	if f.Pids < 0 {
		return "", exit.Usage("--pids %d: it must be at least 1, or 0 for the engine's default", f.Pids)
	}
	switch p := engine.PullPolicy(f.Pull); p {
	case engine.PullMissing, engine.PullAlways, engine.PullNever:
		return p, nil
	default:
		return "", exit.Usage("--pull %s: it must be missing, always or never", f.Pull)
	}
}

// Open connects to the engine that --engine asks for.
func Open(ctx context.Context, a *app.App, news io.Writer, f Flags) (engine.Engine, engine.Info, error) {
	e, err := chooseEngine(ctx, a, news, f.Unfinished)
	if err != nil {
		return nil, engine.Info{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	info, err := e.Info(ctx)
	if err == nil && info.Name == OCI && f.Network != "" && f.Network != "none" && f.Network != "host" {
		err = exit.Usage("--network %s: without a daemon there are the networks host and none; others need --engine docker", f.Network)
	}
	if err != nil {
		return nil, engine.Info{}, errors.Join(err, e.Close())
	}
	return e, info, nil
}

// engineTimeout is how long an engine may take to answer at first.
const engineTimeout = 30 * time.Second

func chooseEngine(ctx context.Context, a *app.App, news io.Writer, unfinished *runs.Unfinished) (engine.Engine, error) {
	if a.Global.OciRuntime != "" && a.Global.Engine != OCI {
		return nil, exit.Usage("--oci-runtime is for --engine oci, and this is --engine %s", a.Global.Engine)
	}
	switch a.Global.Engine {
	case Docker:
		return openDocker(ctx, a, news)
	case OCI:
		return OpenOCI(ctx, a, news)
	case Auto:
		if unfinished != nil && usedHere(a, news, unfinished.Used) {
			if e, err := OpenOCI(ctx, a, news); err == nil {
				fmt.Fprintf(news, "note: --engine auto takes oci, which run %s used: it did not end\n", unfinished.Run)
				return e, nil
			}
		}
		e, err := openDocker(ctx, a, news)
		if err == nil || !errors.Is(err, engine.ErrUnavailable) || a.Getenv("DOCKER_HOST") != "" || a.Getenv("DOCKER_CONTEXT") != "" {
			return e, err // who names a Docker Engine means that one
		}
		if err := checkLeaving(ctx, a, news, unfinished); err != nil {
			return nil, err
		}
		without, ociErr := OpenOCI(ctx, a, news)
		if ociErr != nil {
			return nil, fmt.Errorf("%w: there is no container engine. Either will do:\n  docker: %w\n  oci: %w", engine.ErrUnavailable, err, ociErr)
		}
		return without, nil
	default:
		return nil, UnknownEngine(a.Global.Engine)
	}
}

// UnknownEngine refuses a name that is of no engine.
func UnknownEngine(name string) error {
	return exit.Usage("--engine %s: it must be auto, docker or oci", name)
}

func openDocker(ctx context.Context, a *app.App, news io.Writer) (engine.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	shim, err := entrypoint.Executable()
	if err != nil {
		shim = "" // containers then start a little later
	}
	e, err := docker.Open(ctx, docker.Options{Shim: shim, Logger: app.Logger(news)})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// OpenOCI opens the engine that needs no daemon.
func OpenOCI(ctx context.Context, a *app.App, news io.Writer) (*oci.Engine, error) {
	return oci.Open(ctx, oci.Options{Runtime: a.Global.OciRuntime, AllowUnbounded: a.Global.Unbounded, Logger: app.Logger(news)})
}

// Images makes the images of an engine available, those of the types that ship
// with this binary among them.
func Images(a *app.App, e engine.Engine, info engine.Info, f Flags) (*shipped.Images, error) {
	return shipped.NewImages(e, shipped.Options{Version: a.Version, OS: info.OS, Arch: info.Arch, TypesImage: f.typesImage})
}

// RegisterCache adds the flag of commands that ask types what they are.
func (f *Flags) RegisterCache(c *cobra.Command) {
	c.Flags().BoolVar(&f.noCache, "no-cache", false, "ask every resource type what it is, and remember nothing of that")
}

// InitCache returns where runs remember what types answered init, nil where
// they do not.
func InitCache(a *app.App, f Flags) runner.InitCache {
	if f.noCache {
		return nil
	}
	return usercache.NewInitCache(a.Now, func(text string) { app.Logger(a.Err).Warn(text) })
}
