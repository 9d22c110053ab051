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
	"github.com/deployster-go/deployster/internal/crash"
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
// is silent.
func workersHere(ctx context.Context, a *app.App, path string) (build.Workers, error) {
	hosts, err := hostsHere(path)
	if err != nil {
		return nil, err
	}
	return servingOn(ctx, a, path, inventoryHere(path), hosts).workers, nil
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

func servingOn(ctx context.Context, a *app.App, path, of string, hosts []inventory.Host) *serving {
	return &serving{hosts: slices.Clone(hosts), of: of, now: a.Now, ask: func(names []string) []string {
		return platformsOf(ctx, a, path, names)
	}}
}

// Serving are the workers that jobs are done on from here for as long as a server runs: they
// follow the inventory, and whether they answer. For that nobody waits but who asks first.
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
			s := servingOn(ctx, a, path, of, hosts)
			s.follows = true
			serve, last = s.workers, hosts
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
	ask     func(names []string) (platforms []string) // "" of a host that does not answer
	now     func() time.Time
	of      string // the inventory; "" is none
	follows bool   // it is asked for as long as a server runs: also those that have answered are asked again

	mu     sync.Mutex
	hosts  []inventory.Host // their platforms are empty as long as they are not known
	silent map[string]bool  // hosts that did not answer the last time
	asked  time.Time
	asking bool
}

// workers implements build.Workers.
func (s *serving) workers(p record.Place) (serve []build.Worker) {
	if p.Inventory != "" && p.Inventory != s.of {
		return nil // as a dispatcher with this inventory leaves it alone
	}
	s.complete()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts {
		silent := s.silent[h.Name]
		if silent && len(h.Platforms) == 0 {
			h.Platforms = []string{p.Platform} // which may be
		}
		switch {
		case !builds.Serves(h, p):
		case silent:
			serve = append(serve, build.Worker{Name: h.Name, Silent: true})
		default:
			serve = append(serve, build.Worker{Name: h.Name, Slots: h.Slots})
		}
	}
	return serve
}

// complete finds out which hosts answer, and the platforms of those of which they are not known.
func (s *serving) complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.asked.IsZero()
	if s.asking || !first && s.now().Sub(s.asked) < askAgain {
		return
	}
	var names []string
	for i, h := range s.hosts {
		switch {
		case h.Engine == inventory.OCI: // which is this machine
			if len(h.Platforms) == 0 {
				s.hosts[i].Platforms = []string{"linux/" + runtime.GOARCH}
			}
		case s.follows, len(h.Platforms) == 0:
			names = append(names, h.Name)
		}
	}
	s.asked = s.now()
	switch {
	case len(names) == 0:
	case first || !s.follows:
		s.note(names, s.ask(names))
	default:
		s.asking = true
		go func() {
			var platforms []string
			_ = crash.Do("asking the workers of builds", func() error { // who does not answer is silent
				platforms = s.ask(names)
				return nil
			})
			s.mu.Lock()
			defer s.mu.Unlock()
			s.asking = false
			s.note(names, platforms)
		}()
	}
}

// note notes what hosts answered.
func (s *serving) note(names, platforms []string) {
	s.silent = map[string]bool{}
	for i, platform := range platforms {
		at := slices.IndexFunc(s.hosts, func(h inventory.Host) bool { return h.Name == names[i] })
		switch {
		case platform == "":
			s.silent[names[i]] = true
		case len(s.hosts[at].Platforms) == 0:
			s.hosts[at].Platforms = []string{platform}
		}
	}
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
