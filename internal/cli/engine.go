package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/runner"
)

// The engines that --engine names.
const (
	engineAuto   = "auto"
	engineDocker = "docker"
	engineOCI    = "oci"
)

// engineFlags are the flags of commands that run containers.
type engineFlags struct {
	pull       string
	network    string
	typesImage string
	memory     sizeFlag
	pids       int64
	noCache    bool     // see registerCache
	abandon    []string // see registerAbandon

	changes    bool             // the command changes things
	unfinished *runs.Unfinished // the dead run whose engine auto prefers; may be nil
}

func (f *engineFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.pull, "pull", string(engine.PullMissing), "when to pull images: missing, always or never")
	c.Flags().StringVar(&f.network, "network", "", "network of every container (default: the engine's)")
	c.Flags().StringVar(&f.typesImage, "types-image", "", "image that holds the deployster binary for the engine's platform, for the types that ship with it")
	c.Flags().Var(&f.memory, "memory", "memory of every container, such as 512MiB (default: the engine's)")
	c.Flags().Int64Var(&f.pids, "pids", 0, "how many processes and threads every container may have (default: the engine's)")
	_ = c.RegisterFlagCompletionFunc("pull", cobra.FixedCompletions([]string{"missing", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("network", cobra.FixedCompletions([]string{"none", "host"}, cobra.ShellCompDirectiveNoFileComp))
}

// leastMemory is what a Docker Engine gives a container at least.
const leastMemory = 6 << 20

func (f *engineFlags) policy() (engine.PullPolicy, error) {
	if f.memory != 0 && f.memory < leastMemory {
		return "", usage("--memory %s: a container needs at least %s", sizeText(int64(f.memory)), sizeText(leastMemory))
	}
	if f.pids < 0 {
		return "", usage("--pids %d: it must be at least 1, or 0 for the engine's default", f.pids)
	}
	switch p := engine.PullPolicy(f.pull); p {
	case engine.PullMissing, engine.PullAlways, engine.PullNever:
		return p, nil
	default:
		return "", usage("--pull %s: it must be missing, always or never", f.pull)
	}
}

// openEngine connects to the engine that --engine asks for.
func (a *app) openEngine(ctx context.Context, news io.Writer, f engineFlags) (engine.Engine, engine.Info, error) {
	e, err := a.chooseEngine(ctx, news, f.unfinished)
	if err != nil {
		return nil, engine.Info{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patienceWithEngine)
	defer cancel()
	info, err := e.Info(ctx)
	if err == nil && info.Name == engineOCI && f.network != "" && f.network != "none" && f.network != "host" {
		err = usage("--network %s: without a daemon there are the networks host and none; others need --engine docker", f.network)
	}
	if err != nil {
		return nil, engine.Info{}, errors.Join(err, e.Close())
	}
	return e, info, nil
}

// patienceWithEngine is how long an engine may take to answer at first.
const patienceWithEngine = 30 * time.Second

func (a *app) chooseEngine(ctx context.Context, news io.Writer, unfinished *runs.Unfinished) (engine.Engine, error) {
	if a.global.ociRuntime != "" && a.global.engine != engineOCI {
		return nil, usage("--oci-runtime is for --engine oci, and this is --engine %s", a.global.engine)
	}
	switch a.global.engine {
	case engineDocker:
		return a.openDocker(ctx, news)
	case engineOCI:
		return a.openOCI(ctx, news)
	case engineAuto:
		if unfinished != nil && a.leftHere(news, unfinished.Used) {
			if e, err := a.openOCI(ctx, news); err == nil {
				fmt.Fprintf(news, "note: --engine auto takes oci, which run %s used: it did not end\n", unfinished.Run)
				return e, nil
			}
		}
		e, err := a.openDocker(ctx, news)
		if err == nil || !errors.Is(err, engine.ErrUnavailable) || a.getenv("DOCKER_HOST") != "" || a.getenv("DOCKER_CONTEXT") != "" {
			return e, err // who names a Docker Engine means that one
		}
		if err := a.mayLeave(ctx, news, unfinished); err != nil {
			return nil, err
		}
		without, ociErr := a.openOCI(ctx, news)
		if ociErr != nil {
			return nil, fmt.Errorf("%w: there is no container engine. Either will do:\n  docker: %w\n  oci: %w", engine.ErrUnavailable, err, ociErr)
		}
		return without, nil
	default:
		return nil, unknownEngine(a.global.engine)
	}
}

func unknownEngine(name string) error {
	return usage("--engine %s: it must be auto, docker or oci", name)
}

func (a *app) openDocker(ctx context.Context, news io.Writer) (engine.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, patienceWithEngine)
	defer cancel()
	shim, err := entrypoint.Executable()
	if err != nil {
		shim = "" // containers then start a little later
	}
	e, err := docker.Open(ctx, docker.Options{Shim: shim, Logger: logger(news)})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (a *app) openOCI(ctx context.Context, news io.Writer) (*oci.Engine, error) {
	return oci.Open(ctx, oci.Options{Runtime: a.global.ociRuntime, AllowUnbounded: a.global.unbounded, Logger: logger(news)})
}

// images makes the images of an engine available, those of the types that ship
// with this binary among them.
func (a *app) images(e engine.Engine, info engine.Info, f engineFlags) (*shipped.Images, error) {
	return shipped.NewImages(e, shipped.Options{Version: version(), OS: info.OS, Arch: info.Arch, TypesImage: f.typesImage})
}

// registerCache adds the flag of commands that ask types what they are.
func (f *engineFlags) registerCache(c *cobra.Command) {
	c.Flags().BoolVar(&f.noCache, "no-cache", false, "ask every resource type what it is, and remember nothing of that")
}

// initCache returns where runs remember what types answered init, nil where
// they do not.
func (a *app) initCache(f engineFlags) runner.InitCache {
	cache, err := os.UserCacheDir()
	if f.noCache || err != nil {
		return nil
	}
	return work.NewInitCache(filepath.Join(cache, "deployster", "init"), a.now, func(text string) { logger(a.err).Warn(text) })
}
