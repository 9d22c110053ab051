package env

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
)

// workFlags are the flags of what looks at and works on tasks.
type workFlags struct {
	session.WorkerFlags
	checkEvery time.Duration
}

// registerWatch adds the flags of what keeps watch, too.
func (w *workFlags) registerWatch(c *cobra.Command) {
	w.Register(c)
	w.Engine.RegisterAbandon(c)
	c.Flags().DurationVar(&w.checkEvery, "check-every", environments.DefaultProbeEvery, "how often to probe every task, in addition to the events of engines")
}

func (w *workFlags) check() error {
	if w.checkEvery < time.Second {
		return exit.Usage("--check-every %s: it must be at least 1s", w.checkEvery)
	}
	own := work.TaskVariables(environment.Task{}, work.NewHosts(w.Inventory))
	for _, v := range w.Input.Variables {
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
