package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner/failure"
)

// Panicking is Main with a command more, "panic", which panics in the way that its
// argument says.
func Panicking(args []string) int {
	a := app.New()
	root := newRoot(a)
	var input session.Flags
	c := &cobra.Command{Use: "panic", RunE: func(_ *cobra.Command, args []string) error {
		switch args[0] {
		case "resource": // as a run tells of it, which others did not take part in
			err := crash.Do("applying db", func() error { panic("no " + input.Variables[0].Value) })
			a.Crashes.Add(crash.All(err)[0])
			return exit.Reported(&failure.Error{Causes: []error{errors.New("web: exited with 1"), err}})
		case "variables": // that files hold, too
			in, err := session.Variables(a, input, "")
			if err != nil {
				return err
			}
			panic(fmt.Sprintf("boom %v %v", in.Variables["token"], in.Variables["file"]))
		case "aside":
			go func() {
				defer crash.End(engine.StateDir, "waiting")
				panic("aside")
			}()
			select {}
		case "unguarded":
			go panic("unguarded")
			select {}
		}
		var list []int
		return errors.New(args[len(list)+1])
	}}
	input.RegisterVariables(c)
	root.AddCommand(c)
	return run(a, root, args)
}

// TaskWorker is a work.TaskWorker with its engines, for tests that have the program
// and its images.
type TaskWorker struct {
	*work.TaskWorker
	workers *session.Workers
}

// NewTaskWorker makes one for the workspace that is the present directory.
func NewTaskWorker(log deploylog.Log, engine string, variables ...vars.Flag) (TaskWorker, error) {
	a := app.New()
	a.Global = app.GlobalFlags{Engine: engine, Parallelism: 10}
	if err := a.FindWorkspace(); err != nil {
		return TaskWorker{}, err
	}
	w, err := session.OpenWorkers(context.Background(), a, log, session.WorkerFlags{
		Inventory: "inventory.yaml", Input: session.Flags{Variables: variables}, Engine: engines.Flags{Pull: "missing", LostFor: time.Second},
	}, io.Discard)
	if err != nil {
		return TaskWorker{}, err
	}
	_, err = w.Hosts.Inventory()
	return TaskWorker{w.Tasks, w}, err
}

// Close closes the worker and its engines.
func (w TaskWorker) Close() error { return w.workers.Close(context.Background()) }

// Commands are all commands that do something, such as "env list", sorted.
func Commands() (names []string) {
	root := newRoot(app.New())
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if !c.HasSubCommands() && !c.Hidden {
			names = append(names, strings.TrimPrefix(c.CommandPath(), root.Name()+" "))
		}
		for _, below := range c.Commands() {
			add(below)
		}
	}
	add(root)
	slices.Sort(names)
	return names
}
