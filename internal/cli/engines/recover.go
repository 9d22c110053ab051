package engines

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/suggest"
)

// finder finds the engines of dead runs for one that uses an engine itself. It is a
// runs.Engines.
type finder struct {
	app     *app.App
	news    io.Writer
	engine  engine.Engine // of this run; nil before it is chosen
	info    engine.Info
	reached reach
	lostFor time.Duration // see docker.Options
}

// Used implements runs.Engines.
func (f *finder) Used(ctx context.Context) runs.EngineUsed {
	used := here()
	identity, _ := identify(ctx, f.engine) // has no ID where that fails
	used.Kind, used.Address, used.TLS, used.Kubeconfig = f.info.Name, f.info.Address, f.reached.tls, f.reached.cluster.Kubeconfig
	used.ID, used.Context, used.Local = identity.ID, identity.Context, identity.Local
	return used
}

// ID implements runs.Engines.
func (f *finder) ID(ctx context.Context) (string, error) {
	identity, err := identify(ctx, f.engine)
	return identity.ID, err
}

// identify asks an engine which one it is; it need not answer that.
func identify(ctx context.Context, e engine.Engine) (engine.Identity, error) {
	asked, can := e.(interface {
		Identity(context.Context) (engine.Identity, error)
	})
	if !can {
		return engine.Identity{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	return asked.Identity(ctx)
}

// here says of an engine used by this process what does not depend on the engine:
// whose process it is, on which machine, and on which start of that. What cannot be
// found out is empty. Machines that were copied have an id in common, so that their
// names must tell them apart.
func here() runs.EngineUsed {
	read := func(path string) string {
		text, _ := os.ReadFile(path)
		return strings.TrimSpace(string(text))
	}
	who := runs.Who()
	u := runs.EngineUsed{
		UID: strconv.Itoa(os.Geteuid()), User: who["user"], Host: who["host"], Boot: read("/proc/sys/kernel/random/boot_id"),
	}
	if id := read("/etc/machine-id"); id != "" && u.Host != "" {
		sum := sha256.Sum256([]byte("deployster " + id + " " + u.Host)) // the id itself is confidential
		u.Machine = hex.EncodeToString(sum[:16])
	}
	return u
}

// Machine tells this machine from others; "" is not known.
func Machine() string { return here().Machine }

// restarted reports whether this is the machine on which a run was, and it was
// started anew since.
func restarted(u runs.EngineUsed) bool {
	here := here()
	return u.Local && u.Machine != "" && u.Machine == here.Machine && u.Boot != "" && here.Boot != "" && u.Boot != here.Boot
}

// elsewhere reports whether a run was on another machine than this one, as far as
// the log records.
func elsewhere(u runs.EngineUsed) bool {
	switch here := here(); {
	case u.Boot != "" && u.Boot == here.Boot:
		return false
	case u.Machine != "" && here.Machine != "":
		return u.Machine != here.Machine
	default:
		return here.Host == "" || u.Host != here.Host
	}
}

// Open implements runs.Engines.
func (f *finder) Open(ctx context.Context, used runs.EngineUsed) (found runs.Containers, done func(), err error) {
	switch used.Kind {
	case Docker:
		found, done, err = f.openDocker(ctx, used)
	case OCI:
		found, err = f.openOCI(ctx, used)
	case Kubernetes:
		found, done, err = f.openCluster(ctx, used)
	default:
		err = errors.New("the log does not record how to reach it")
	}
	if err != nil && restarted(used) {
		return nil, nil, nil // what ran there ended with the machine
	}
	return found, done, err
}

// ofLog is the source of the engine of a dead run.
const ofLog = "the log"

// openDocker opens the Docker Engine that a run used: by the context that led to it
// then, and by its address. An old log records only the address, and a socket means
// another engine on each machine.
func (f *finder) openDocker(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	socket := strings.HasPrefix(used.Address, "unix:") || strings.HasPrefix(used.Address, "npipe:")
	if used.ID == "" && socket && elsewhere(used) {
		return nil, nil, fmt.Errorf("the run was on machine %s, and that socket can be asked only there", cmp.Or(used.Host, "unknown"))
	}
	if f.info.Name == Docker {
		same := used.Address == f.info.Address
		if used.ID != "" {
			identity, _ := identify(ctx, f.engine)
			same = used.ID == identity.ID
		}
		if same {
			return f.engine, nil, nil
		}
	}
	env := f.app.Getenv
	if used.TLS != (runs.EngineTLS{}) {
		env = f.app.WithoutTLS
	}
	ways := []docker.Options{dockerAt(f.app, used.Address, ofLog, used.TLS, env, f.news)}
	if used.Context != "" {
		ways = append([]docker.Options{{Context: used.Context, Source: ofLog, Env: f.app.Getenv, Tunnels: f.app.Tunnels(), Timeout: work.HostTimeout, Logger: app.Logger(f.news)}}, ways...)
	}
	var away error
	for _, way := range ways {
		way.LostFor = f.lostFor
		e, err := try(ctx, way, used)
		if err == nil {
			return e, func() { _ = e.Close() }, nil
		}
		away = err
	}
	return nil, nil, away
}

// try opens a Docker Engine, and only the one that a run used.
func try(ctx context.Context, way docker.Options, used runs.EngineUsed) (*docker.Engine, error) {
	e, err := docker.Open(ctx, way)
	if err != nil || used.ID == "" {
		return e, err
	}
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	identity, err := e.Identity(ctx)
	switch {
	case err != nil:
	case identity.ID == "":
		err = errors.New("what answers there does not say which engine it is")
	case identity.ID != used.ID:
		err = fmt.Errorf("another engine answers there now: it is %q, and the run used %q", identity.ID, used.ID)
	default:
		return e, nil
	}
	return nil, errors.Join(err, e.Close())
}

// openOCI finds the containers that a run had without a daemon: they are of its
// machine and its user.
func (f *finder) openOCI(ctx context.Context, used runs.EngineUsed) (runs.Containers, error) {
	here := here()
	own, _ := identify(ctx, f.engine)
	if used.UID == "" && used.User != "" && used.User == here.User { // an old log records only the name
		used.UID = here.UID
	}
	switch {
	case elsewhere(used):
		return nil, fmt.Errorf("the run was on machine %s, and its containers can be asked for only there", cmp.Or(used.Host, "unknown"))
	case restarted(used):
		return nil, nil
	case used.UID != here.UID:
		return nil, fmt.Errorf("the run was of user %s (uid %s), who alone can ask for its containers: run this as that user", cmp.Or(used.User, "unknown"), cmp.Or(used.UID, "unknown"))
	case f.info.Name == OCI && used.ID == own.ID:
		return f.engine, nil
	}
	left, err := oci.OpenLeftovers(oci.Options{RunDir: used.ID, Logger: app.Logger(f.news)})
	if err != nil {
		return nil, err
	}
	return left, nil
}

// Preferred returns the dead run of a target whose engine "auto" prefers, as
// something of it may still be at work there; nil when there is none.
func Preferred(ctx context.Context, log deploylog.Log, target deploylog.Target) (*runs.Unfinished, error) {
	unfinished, err := runs.UnfinishedRuns(ctx, log, target)
	if err != nil {
		return nil, err
	}
	for _, u := range slices.Backward(unfinished) {
		if !u.Alive && !u.Abandoned && len(u.Acting) > 0 && !restarted(u.Used) {
			return &u, nil
		}
	}
	return nil, nil
}

// Abandon records that dead runs are not waited for, and who said so.
func Abandon(ctx context.Context, log deploylog.Log, ids []string) error {
	for _, run := range ids {
		err := runs.Abandon(ctx, log, run, runs.Who())
		switch {
		case err == nil:
		case errors.Is(err, runs.ErrNoSuchRun), errors.Is(err, runs.ErrRunEnded), errors.Is(err, runs.ErrRunAlive):
			return exit.Usage("--abandon %s: %w%s", run, err, suggestRun(ctx, log, run))
		default:
			return fmt.Errorf("--abandon %s: %w", run, err)
		}
	}
	return nil
}

// suggestRun names the dead runs that can be abandoned.
func suggestRun(ctx context.Context, log deploylog.Log, run string) string {
	unfinished, err := runs.UnfinishedRuns(ctx, log, "")
	if err != nil {
		return ""
	}
	var names []string
	for _, u := range unfinished {
		if !u.Alive {
			names = append(names, u.Run)
		}
	}
	switch near := suggest.Closest(run, names); {
	case len(names) == 0:
		return "; no dead run is unfinished"
	case near != "":
		return fmt.Sprintf("; did you mean %s?", near)
	default:
		return "; unfinished and dead are " + strings.Join(names, ", ")
	}
}
