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
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

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

// Finder finds the engines of runs for one that uses an engine itself. It is a
// runs.Engines.
type Finder struct {
	app    *app.App
	engine engine.Engine
	info   engine.Info
	TLS    *runs.EngineTLS // of a host that has its own
	news   io.Writer
}

// identify asks an engine which one it is; it need not answer that.
func identify(ctx context.Context, e engine.Engine) engine.Identity {
	asked, can := e.(interface {
		Identity(context.Context) (engine.Identity, error)
	})
	if !can {
		return engine.Identity{}
	}
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	identity, err := asked.Identity(ctx)
	if err != nil {
		identity.ID = ""
	}
	return identity
}

// Used implements runs.Engines.
func (f *Finder) Used(ctx context.Context) runs.EngineUsed {
	here := thisMachine()
	identity := identify(ctx, f.engine)
	return runs.EngineUsed{
		Kind: f.info.Name, Address: f.info.Address, ID: identity.ID, Context: identity.Context, TLS: f.TLS, Local: identity.Local,
		UID: strconv.Itoa(os.Geteuid()), Machine: here.id, Boot: here.boot,
	}
}

// machine identifies one start of one machine.
type machine struct{ id, boot string }

// thisMachine is empty where that cannot be found out. Machines that were copied
// have an id in common, so that their names must tell them apart.
func thisMachine() machine {
	var m machine
	if id, err := os.ReadFile("/etc/machine-id"); err == nil {
		name, err := os.Hostname()
		if text := strings.TrimSpace(string(id)); err == nil && text != "" {
			sum := sha256.Sum256([]byte("deployster " + text + " " + name)) // the id itself is confidential
			m.id = hex.EncodeToString(sum[:16])
		}
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		m.boot = strings.TrimSpace(string(boot))
	}
	return m
}

// restarted reports whether this is the machine on which a run was, and it was
// started anew since.
func restarted(u runs.EngineUsed) bool {
	here := thisMachine()
	return u.Local && u.Machine != "" && u.Machine == here.id && u.Boot != "" && here.boot != "" && u.Boot != here.boot
}

// elsewhere reports whether a run was on another machine than this one, as far as
// the log records.
func elsewhere(u runs.EngineUsed) bool {
	if here := thisMachine(); u.Boot != "" && here.boot == u.Boot {
		return false
	} else if u.Machine != "" && here.id != "" {
		return u.Machine != here.id
	}
	name, err := os.Hostname()
	return err != nil || u.Host != name
}

// Open implements runs.Engines.
func (f *Finder) Open(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	if f.engine != nil && f.is(ctx, used) {
		return f.engine, nil, nil
	}
	var found runs.Containers
	var done func()
	var err error
	switch used.Kind {
	case Docker:
		found, done, err = f.openDocker(ctx, used)
	case OCI:
		found, err = f.openOCI(used)
	default:
		err = errors.New("the log does not record how to reach it")
	}
	if err != nil && restarted(used) {
		return nil, nil, nil // what ran there ended with the machine
	}
	return found, done, err
}

// is reports whether the engine of this run is the one that another used.
func (f *Finder) is(ctx context.Context, used runs.EngineUsed) bool {
	switch {
	case f.info.Name != used.Kind:
		return false
	case used.Kind == OCI:
		return !elsewhere(used) && !restarted(used) && used.UID == strconv.Itoa(os.Geteuid()) && used.ID == identify(ctx, f.engine).ID
	case used.ID != "":
		return used.ID == identify(ctx, f.engine).ID
	default: // an old log records only the address
		return used.Address == f.info.Address && (!socket(used) || !elsewhere(used))
	}
}

// socket reports whether an engine was reached by a file, which means another
// engine on each machine.
func socket(used runs.EngineUsed) bool {
	return strings.HasPrefix(used.Address, "unix:") || strings.HasPrefix(used.Address, "npipe:")
}

// openDocker opens the Docker Engine that a run used: by the context that led to it
// then, and by its address.
func (f *Finder) openDocker(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	if used.ID == "" && socket(used) && elsewhere(used) {
		return nil, nil, fmt.Errorf("the run was on machine %s, and that socket can be asked only there", cmp.Or(used.Host, "unknown"))
	}
	byAddress := docker.Options{Host: used.Address, Env: f.app.Getenv, Logger: app.Logger(f.news)}
	if used.TLS != nil {
		byAddress.TLS, byAddress.Env = &docker.TLS{CA: used.TLS.CA, Cert: used.TLS.Cert, Key: used.TLS.Key}, f.app.WithoutTLS
	}
	ways := []docker.Options{byAddress}
	if used.Context != "" {
		ways = []docker.Options{{Context: used.Context, Env: f.app.Getenv, Logger: app.Logger(f.news)}, byAddress}
	}
	var away error
	for _, way := range ways {
		e, err := f.try(ctx, way, used)
		if err == nil {
			return e, func() { _ = e.Close() }, nil
		}
		away = err
	}
	return nil, nil, away
}

// try opens a Docker Engine, and only the one that a run used.
func (f *Finder) try(ctx context.Context, way docker.Options, used runs.EngineUsed) (*docker.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	e, err := docker.Open(ctx, way)
	if err != nil || used.ID == "" {
		return e, err
	}
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
func (f *Finder) openOCI(used runs.EngineUsed) (runs.Containers, error) {
	uid := strconv.Itoa(os.Geteuid())
	if used.UID == "" { // an old log records only the name
		if u, err := user.Current(); err == nil && u.Username == used.User {
			used.UID = uid
		}
	}
	switch {
	case elsewhere(used):
		return nil, fmt.Errorf("the run was on machine %s, and its containers can be asked for only there", cmp.Or(used.Host, "unknown"))
	case restarted(used):
		return nil, nil
	case used.UID != uid:
		return nil, fmt.Errorf("the run was of user %s (uid %s), who alone can ask for its containers: run this as that user", cmp.Or(used.User, "unknown"), cmp.Or(used.UID, "unknown"))
	}
	left, err := oci.OpenLeftovers(oci.Options{RunDir: used.ID, Logger: app.Logger(f.news)})
	if err != nil {
		return nil, err
	}
	return left, nil
}

// usedHere reports whether a run without a daemon was of this machine and this
// user, who can ask for its containers. For another's, the engine of this machine
// is no better than any.
func usedHere(a *app.App, news io.Writer, used runs.EngineUsed) bool {
	if used.Kind != OCI {
		return false
	}
	f := Finder{app: a, news: news}
	left, err := f.openOCI(used)
	return err == nil && left != nil
}

// RegisterAbandon adds --abandon, for commands that may be held.
func (f *Flags) RegisterAbandon(c *cobra.Command) {
	f.Changes = true
	c.Flags().StringArrayVar(&f.Abandon, "abandon", nil, "do not wait for this dead run, whose engine cannot be asked any more (repeatable)")
}

// Abandon records that dead runs are not waited for, and who said so.
func Abandon(ctx context.Context, a *app.App, log deploylog.Log, ids []string) error {
	by := map[string]string{}
	if u, err := user.Current(); err == nil {
		by["user"] = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		by["host"] = host
	}
	for _, run := range ids {
		err := runs.Abandon(ctx, log, run, by)
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

// Preferred returns the dead run of a target whose engine "auto" prefers, as
// something of it may still be at work there; nil when there is none.
func Preferred(ctx context.Context, log deploylog.Log, target deploylog.Target) (*runs.Unfinished, error) {
	unfinished, err := runs.UnfinishedRuns(ctx, log, target)
	if err != nil {
		return nil, err
	}
	for i := len(unfinished) - 1; i >= 0; i-- {
		if u := unfinished[i]; !u.Alive && !u.Abandoned && len(u.Acting) > 0 && !restarted(u.Used) {
			return &u, nil
		}
	}
	return nil, nil
}

// checkLeaving fails where auto must not go over to another engine than the one that a
// dead run used, because that one cannot be asked.
func checkLeaving(ctx context.Context, a *app.App, news io.Writer, unfinished *runs.Unfinished) error {
	if unfinished == nil {
		return nil
	}
	f := Finder{app: a, news: news}
	_, done, err := f.Open(ctx, unfinished.Used)
	if done != nil {
		done()
	}
	if err != nil {
		return &runs.HeldError{Run: *unfinished, Cause: err}
	}
	return nil
}
