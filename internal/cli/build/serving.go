package build

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/control/workers"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/inventory"
)

// The bounds of asking engines for their platforms, to tell what they serve.
const (
	askTimeout = 2 * time.Second // all of them together
	askAgain   = time.Minute     // those that did not answer
	askAtOnce  = 32
)

// workersHere are the workers that jobs are done on from here: the hosts of the inventory,
// or, where there is none, this machine. The engine of one whose platforms the inventory does
// not say is asked, the first time that somebody wants to know; one that does not answer
// serves nothing.
func workersHere(ctx context.Context, a *app.App, path string) (build.Workers, error) {
	hosts, err := hostsHere(path)
	if err != nil {
		return nil, err
	}
	return servingOn(ctx, a, path, inventoryHere(path), hosts), nil
}

// hostsHere are the hosts of the inventory; without one they are this machine.
func hostsHere(path string) ([]inventory.Host, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return []inventory.Host{{Name: workers.Local, Slots: runtime.NumCPU()}}, nil
	}
	all, err := work.NewHosts(path).Inventory()
	if err != nil {
		return nil, exit.Invalid(err)
	}
	return all.Hosts, nil
}

func servingOn(ctx context.Context, a *app.App, path, of string, hosts []inventory.Host) build.Workers {
	s := &serving{hosts: slices.Clone(hosts), of: of, now: a.Now, ask: func(names []string) []string {
		return platformsOf(ctx, a, path, names)
	}}
	return s.workers
}

// Serving are the workers that jobs are done on from here for as long as a server runs: they
// follow the inventory, and engines are asked again only where it has changed.
func Serving(ctx context.Context, a *app.App, path string) func() (serve build.Workers, of string, err error) {
	var mu sync.Mutex
	var last []inventory.Host
	var serve build.Workers
	return func() (build.Workers, string, error) {
		mu.Lock()
		defer mu.Unlock()
		hosts, err := hostsHere(path)
		if err != nil {
			return nil, "", err
		}
		of := inventoryHere(path)
		if serve == nil || !reflect.DeepEqual(hosts, last) {
			serve, last = servingOn(ctx, a, path, of, hosts), hosts
		}
		return serve, of, nil
	}
}

// workersThere are the workers of a server, whose engines that asks; of is what their inventory is
// known as.
func workersThere(ctx context.Context, a *app.App, remote *client.Client) (_ build.Workers, of string, err error) {
	fleet, err := remote.Workers(ctx)
	if err != nil {
		return nil, "", err
	}
	s := &serving{hosts: fleet.Hosts, of: fleet.Identity, now: a.Now, ask: func(names []string) []string {
		return askPlatforms(ctx, names, remote.Look)
	}}
	return s.workers, fleet.Identity, nil
}

// checkListed refuses an inventory that was named and is not there: this machine would be
// taken in its place.
func checkListed(path string, listed bool) error {
	if _, err := os.Stat(path); listed && errors.Is(err, fs.ErrNotExist) {
		return exit.Usage("--inventory %s: there is no such file; without --inventory the worker is this machine", path)
	}
	return nil
}

// present are the workers that there are: here, or of the server that has the log, unless an
// inventory is named. They are nil where the past is asked for, or they are not known: that is said
// then beside what the log knows.
func present(ctx context.Context, a *app.App, b *query.Builds, q session.Question) (workers build.Workers) {
	if q.At != 0 {
		return nil
	}
	remote, err := a.Remote()
	of := ""
	switch {
	case err != nil:
	case remote != nil && !q.Listed:
		workers, of, err = workersThere(ctx, a, remote)
	default:
		workers, err = workersHere(ctx, a, q.Inventory)
		of = inventoryHere(q.Inventory)
	}
	if b.NoInventory = err; err != nil {
		return nil
	}
	b.Inventory = of
	return workers
}

// inventoryHere is what the inventory is known as; "" where there is none.
func inventoryHere(path string) string {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return work.NewHosts(path).Identity()
}

// serving knows which hosts serve which places.
type serving struct {
	ask func(names []string) (platforms []string) // "" of a host that does not answer
	now func() time.Time
	of  string // the inventory; "" is none

	mu    sync.Mutex
	hosts []inventory.Host // their platforms are empty as long as they are not known
	asked time.Time
}

// workers implements build.Workers.
func (s *serving) workers(p record.Place) (serve []build.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Inventory != "" && p.Inventory != s.of {
		return nil // as a dispatcher with this inventory leaves it alone
	}
	s.complete()
	for _, h := range s.hosts {
		if builds.Serves(h, p) {
			serve = append(serve, build.Worker{Name: h.Name, Slots: h.Slots})
		}
	}
	return serve
}

// complete finds out the platforms of hosts that are not known.
func (s *serving) complete() {
	if !s.asked.IsZero() && s.now().Sub(s.asked) < askAgain {
		return
	}
	var names []string
	var at []int
	for i, h := range s.hosts {
		switch {
		case len(h.Platforms) > 0:
		case h.Engine == inventory.OCI: // which is this machine
			s.hosts[i].Platforms = []string{"linux/" + runtime.GOARCH}
		default:
			names, at = append(names, h.Name), append(at, i)
		}
	}
	if len(names) > 0 {
		for i, platform := range s.ask(names) {
			if platform != "" {
				s.hosts[at[i]].Platforms = []string{platform}
			}
		}
	}
	s.asked = s.now()
}

// platformsOf asks the engines of hosts for which platform they build; see askPlatforms.
func platformsOf(ctx context.Context, a *app.App, path string, names []string) []string {
	pool := session.OpenPool(a, session.WorkerFlags{Inventory: path}, io.Discard)
	defer pool.Close() //nolint:errcheck // it was only asked
	of, _ := workersOf(path, false, 1, pool)
	return askPlatforms(ctx, names, of.Look)
}

// askPlatforms asks hosts, in parallel, for which platform they build; that of one that does not
// answer is "".
func askPlatforms(ctx context.Context, names []string, look func(context.Context, string) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	platforms, room := make([]string, len(names)), make(chan struct{}, askAtOnce)
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			if has, err := look(ctx, name); err == nil && len(has) > 0 {
				platforms[i] = has[0]
			}
		})
	}
	asking.Wait()
	return platforms
}
