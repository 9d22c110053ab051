package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// Panicking is Main with a command more, "panic", which panics in the way that its
// argument says.
func Panicking(args []string) int {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now}
	root := a.root()
	var input inputFlags
	c := &cobra.Command{Use: "panic", RunE: func(_ *cobra.Command, args []string) error {
		switch args[0] {
		case "resource": // as a run tells of it, which others did not take part in
			err := crash.Do("applying db", func() error { panic("no " + input.variables[0].Value) })
			a.crashes.add(crash.All(err)[0])
			return told(&runner.FailedError{Causes: []error{errors.New("web: exited with 1"), err}})
		case "variables": // that files hold, too
			in, err := a.environment(input, "")
			if err != nil {
				return err
			}
			panic(fmt.Sprintf("boom %v %v", in.variables["token"], in.variables["file"]))
		case "aside":
			go func() {
				defer crash.End(stateDir, "waiting")
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
	input.registerVariables(c)
	root.AddCommand(c)
	return a.run(root, args)
}

// TaskCrew is a taskCrew for tests that have the program and its images.
type TaskCrew struct{ *taskCrew }

// NewTaskCrew makes one for the workspace that is the present directory.
func NewTaskCrew(log deploylog.Log, engine string, variables ...manifest.VariableFlag) (TaskCrew, error) {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now, global: globalFlags{engine: engine, parallelism: 10}}
	h := newHosts("inventory.yaml")
	if _, err := h.load(); err != nil {
		return TaskCrew{}, err
	}
	c, err := a.newTaskCrew(log, h, inputFlags{variables: variables}, engineFlags{pull: "missing"}, io.Discard)
	return TaskCrew{c}, err
}

// Keep keeps the text of a manifest and tells its digest.
func (c TaskCrew) Keep(text string) (string, error) { return c.pinned.keep([]byte(text)) }

// Removable is taskCrew.removable.
func (c TaskCrew) Removable(ctx context.Context, d *environment.Definition, text string, hosts []string) error {
	return c.removable(ctx, d, []byte(text), hosts)
}

// Hurry lets a look at a task take no time.
func (c TaskCrew) Hurry() { c.patience = 0 }

// Close closes the crew.
func (c TaskCrew) Close() error { return c.close() }

// PlaceOf is placeOf.
var PlaceOf = placeOf
