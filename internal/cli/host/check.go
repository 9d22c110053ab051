package host

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/kubernetes"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/runner"
)

func newCheckCommand(a *app.App) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "check [HOST…]",
		Short: "Check that the engines of hosts answer",
		Long: `Check that the engines of hosts answer, and that they run the platforms that the
inventory lists. The table shows for each Docker Engine:

  PING   the round trip of a request, the median of three
  CLOCK  how far the engine's clock is ahead of this machine's
  DISK   what images, containers, volumes and build cache take there. Docker's
         API does not tell the free space.
  ROUTE  behind ssh: a forwarded socket, or the docker command of the host

For a cluster it checks the rights, the namespace, and whether a Pod would be
admitted there. Lines below the table say what to change. The command exits with 1
if a host cannot be deployed to.`,
		Example: "  deployster host check\n  deployster host check antworker001\n  deployster host check --query 'attribute:stack == prod'",
		RunE: func(c *cobra.Command, names []string) error {
			if err := o.named(names); err != nil {
				return err
			}
			return runCheck(c.Context(), a, o)
		},
	}
	o.register(c)
	return c
}

// checkedAtOnce is how many hosts are asked at once.
const checkedAtOnce = 50

func runCheck(ctx context.Context, a *app.App, o options) error {
	list, err := o.hosts()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	waiting := newWaiting(list)
	shown := waiting.show(a, "host check")
	answers := make([]*checkedHost, len(list)) // nil of a host that had not answered at an interrupt
	var group errgroup.Group
	group.SetLimit(checkedAtOnce)
	for i, h := range list {
		group.Go(func() (err error) {
			defer waiting.answered(i)
			defer crash.Catch(&err, "asking the host "+h.Name)
			if ctx.Err() != nil {
				return nil
			}
			if found := checkHost(ctx, a, h, o.inventory); ctx.Err() == nil || found.Error == "" {
				answers[i] = &found
			}
			return nil
		})
	}
	err = group.Wait()
	shown()
	if err != nil {
		return err
	}
	found, missing := []checkedHost{}, []string{}
	for i, answer := range answers {
		if answer == nil {
			missing = append(missing, list[i].Name)
		} else {
			found = append(found, *answer)
		}
	}
	noteShared(found)
	return printChecked(a, found, missing)
}

// printChecked prints what was found, and fails if a host cannot be deployed to. Missing are the hosts that had
// not answered at an interrupt.
func printChecked(a *app.App, found []checkedHost, missing []string) error {
	rows, extra := table(found)
	document := map[string]any{"hosts": found}
	if len(missing) > 0 {
		document["missing"] = missing
	}
	err := a.Show(document, func() error {
		if len(found) == 0 && len(missing) > 0 {
			return nil
		}
		if err := a.Table("no hosts", rows, extra...); err != nil {
			return err
		}
		if lines := remarks(found); len(lines) > 0 {
			return a.Printf("\n%s", a.Wrapped(strings.Join(lines, "\n")))
		}
		return nil
	})
	if err == nil && len(missing) > 0 {
		return fmt.Errorf("%w: %s had not answered", runner.ErrInterrupted, phrase.First(missing, 3))
	}
	bad := 0
	for _, f := range found {
		if f.Error != "" {
			bad++
		}
	}
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d of %s cannot be deployed to", bad, phrase.Count(len(found), "host"))
	}
	return err
}

// checkHost asks the engine of a host for all that host check tells.
func checkHost(ctx context.Context, a *app.App, h inventory.Host, path string) checkedHost {
	found := checkedHost{Name: h.Name, Changes: []string{}}
	on, err := engines.Dial(a, path, a.Err, engines.Flags{})(ctx, h)
	if err != nil {
		found.fail("cannot be reached", err)
		return found
	}
	defer func() { _ = on.Engine.Close() }()
	found.describe(on)
	ctx, cancel := context.WithTimeout(ctx, work.HostTimeout)
	defer cancel()
	switch e := on.Engine.(type) {
	case *docker.Engine:
		about, err := e.About(ctx, a.Now)
		if err != nil {
			found.fail("answers no more", err)
			return found
		}
		found.Route = e.Route()
		found.tell(about)
	case *kubernetes.Engine:
		if found.wrongPlatform(h) {
			return found
		}
		checked, err := e.Check(ctx)
		if found.Cluster = &checked; err == nil {
			err = checked.Err()
		}
		if err != nil {
			found.fail("cannot run Pods", err)
			return found
		}
		found.Answer += "; " + checked.Answer()
	}
	found.wrongPlatform(h)
	return found
}

// waiting knows which hosts have not answered yet.
type waiting struct {
	mu    sync.Mutex
	names []string // of all hosts
	done  []bool
}

func newWaiting(list []inventory.Host) *waiting {
	w := &waiting{done: make([]bool, len(list))}
	for _, h := range list {
		w.names = append(w.names, h.Name)
	}
	return w
}

func (w *waiting) answered(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[i] = true
}

// text returns how many hosts have answered, and which have not.
func (w *waiting) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []string
	for i, name := range w.names {
		if !w.done[i] {
			missing = append(missing, name)
		}
	}
	return phrase.Cut(fmt.Sprintf("%d of %s answered, waiting for %s", len(w.names)-len(missing), phrase.Count(len(w.names), "host"), phrase.First(missing, 2)), 60)
}

// show writes the text to a terminal again and again, from the first second on. The returned
// function ends that.
func (w *waiting) show(a *app.App, what string) (end func()) {
	const each = 250 * time.Millisecond
	progress := a.Progress(what)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(each)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				progress(w.text())
			case <-stop:
				progress("")
				return
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// named takes the hosts that a command names.
func (o *options) named(names []string) error {
	if len(names) > 0 && o.query != "" {
		return exit.Usage("name hosts, or give --query, not both")
	}
	for i, name := range names {
		switch {
		case strings.Contains(name, "=="), strings.Contains(name, "=~"), strings.HasPrefix(name, "attribute:"):
			return exit.Usage("%q is a query: write --query '%s'", name, name)
		case strings.Contains(name, "://"):
			return exit.Usage("%q is an address, and this command takes names of hosts: deployster host list shows them", name)
		case strings.Contains(name, ","):
			return exit.Usage("%q: separate the names of hosts by spaces", name)
		case slices.Contains(names[:i], name):
			return exit.Usage("host %s is named twice", name)
		}
	}
	o.names = names
	return nil
}
