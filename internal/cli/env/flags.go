package env

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
)

// workFlags are the flags of what looks at and works on tasks.
type workFlags struct {
	inventory  string
	checkEvery time.Duration
	input      session.Flags
	engine     engines.Flags
}

func (w *workFlags) register(c *cobra.Command) {
	arguments.RegisterInventory(c, &w.inventory)
	w.input.RegisterVariables(c)
	w.engine.Register(c)
	w.engine.RegisterCache(c)
}

// registerWatch adds the flags of what keeps watch, too.
func (w *workFlags) registerWatch(c *cobra.Command) {
	w.register(c)
	w.engine.RegisterAbandon(c)
	c.Flags().DurationVar(&w.checkEvery, "check-every", environments.DefaultProbeEvery, "how often to probe every task, in addition to the events of engines")
}

func (w *workFlags) check() error {
	if w.checkEvery < time.Second {
		return exit.Usage("--check-every %s: it must be at least 1s", w.checkEvery)
	}
	own := work.TaskVariables(environment.Task{}, work.NewHosts(w.inventory))
	for _, v := range w.input.Variables {
		if _, taken := own[v.Name]; taken {
			return exit.Usage("--var %s: every task has its own", v.Name)
		}
		if v.File == "" {
			continue
		}
		switch info, err := os.Stat(v.File); {
		case err != nil:
			return exit.Usage("--var-file: %w", err)
		case !info.Mode().IsRegular():
			return exit.Usage("--var-file %s: it is read again for every task, and so must be a regular file", v.File)
		}
	}
	return nil
}
