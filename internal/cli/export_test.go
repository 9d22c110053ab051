package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/manifest"
)

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
