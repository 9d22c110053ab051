package authoring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/schema"
)

// DefaultTimeout bounds each run of a container.
const DefaultTimeout = 5 * time.Minute

// Engine is what a check needs of a container engine.
type Engine interface {
	Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error)
	Run(ctx context.Context, spec engine.Spec, io engine.IO) (engine.Exit, error)
}

// Options say what to check, and how.
type Options struct {
	Engine  Engine
	Image   string            // reference of the type's image
	Config  map[string]any    // a good configuration; nil checks init only. It is applied for real
	Second  map[string]any    // that of another resource, which is made at the same time; nil is none
	Plugs   map[string]string // absolute paths of the engine's host, by the name of the plug
	Pull    engine.PullPolicy // the zero value is PullMissing
	Network string            // of every container; "" is the engine's default
	Timeout time.Duration     // of every container; 0 is DefaultTimeout

	Version string // Deployster's, told to the type
	Verbose bool

	// Workspace and Work, if set, are directories that containers see as in a
	// deployment: the workspace read-only, and for each container a directory
	// of its own below Work. Leave them empty for a remote engine, but the workspace
	// for one that copies it.
	Workspace string
	Work      string

	OwnWork bool // the engine is remote, and gives each container a work directory, see engine.Info
}

// checker is one conversation with a type.
type checker struct {
	Options
	ids     map[string]string // of images, by reference
	runs    int
	init    protocol.InitOutput
	schema  *schema.Schema
	states  *schema.Schema // of init's state_schema; nil is none
	mounts  []engine.Mount
	one     *resource            // that is made
	answer  said                 // the last init or state
	state   protocol.StateOutput // the first answer
	last    protocol.StateOutput // the last one
	found   map[string]string    // what was in the plugs before it
	after   map[string]any       // the state after the actions
	unlike  string               // how a state is otherwise than states say; "" is not at all
	secrets invoke.Secrets       // those known so far
	aside   []renames            // what the actions wrote aside, each time that they were run
	served  *session             // nil before it was started
	turn    sync.Mutex           // held by who prepares or judges one of several actions at once
}

// resource is one that the check makes.
type resource struct {
	name   string
	config map[string]any
	kept   map[string]any // what its answers had kept last
}

// step is one check. When one that others build on does not pass, those after
// it are skipped.
type step struct {
	name   string
	config bool // needs a configuration
	basis  bool // later steps build on it
	run    func(context.Context) (verdict, error)
}

func (c *checker) steps() []step {
	return []step{
		{"image is available", false, true, c.imageAvailable},
		{"init exits with 0", false, true, c.initExits},
		{"init writes only JSON to stdout", false, true, c.initOnlyJSON},
		{"init answer is valid", false, true, c.initValid},
		{"init copes with malformed input", false, false, c.initMalformed},
		{"config_schema compiles", false, true, c.schemaCompiles},
		{"state_schema compiles", false, true, c.stateSchemaCompiles},
		{"plugs are given", true, true, c.plugsGiven},
		{"good config is accepted", true, true, c.goodConfig},
		{"bad config is refused", true, false, c.badConfig},
		{"state exits with 0", true, true, c.stateExits},
		{"state writes only JSON to stdout", true, true, c.stateOnlyJSON},
		{"state answer is valid", true, true, c.stateValid},
		{"state changes nothing", true, false, c.stateChangesNothing},
		{"state refuses malformed input", true, false, c.stateMalformed},
		{"state accepts what is unknown", true, false, c.unknownBefore},
		{"actions exit with 0", true, true, c.actionsExit},
		{"state is VALID after the actions", true, true, c.validAfterActions},
		{"state is as planned", true, false, c.asPlanned},
		{"second apply changes nothing", true, true, c.secondApply},
		{"what is unknown is not compared", true, false, c.unknownAfter},
		{"what is not kept is found again", true, false, c.memoryLost},
		{"only what has the id is adopted", true, false, c.adoption},
		{"actions may be run again", true, true, c.actAgain},
		{"removal ends VALID", true, false, c.removal},
		{"two resources at once do not collide", true, false, c.twoAtOnce},
		{"states are as state_schema says", true, false, c.statesAsDescribed},
		{"serve starts and answers", true, true, c.serveStarts},
		{"served and one-shot answers agree", true, true, c.servedAgrees},
		{"two requests at once are both answered", true, true, c.servedAtOnce},
		{"serve ends when its stdin ends", true, false, c.serveEnds},
	}
}

// Check holds a resource type against the protocol and reports every check as
// it is made, those that had to be skipped too. It returns an error that is
// ErrFailed when one failed, and another one when the checks could not be made
// at all.
//
// With a configuration the actions are run for real, and a removable type's
// are run to remove the resource again at the end.
func Check(ctx context.Context, opts Options, report func(Result)) error {
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Pull == "" {
		opts.Pull = engine.PullMissing
	}
	c := &checker{Options: opts, ids: map[string]string{}, one: &resource{name: "test", config: opts.Config}}
	defer func() { c.served.stop() }()
	failed, blocked := 0, ""
	for _, s := range c.steps() {
		var v verdict
		var err error
		switch {
		case blocked != "":
			v = skip("%s", blocked)
		case s.config && c.Config == nil:
			v = skip("needs a good configuration (--config)")
		default:
			v, err = s.run(ctx)
		}
		if err := cannotGoOn(ctx, err); err != nil {
			return fmt.Errorf("checking %s: %s: %w", c.Image, s.name, err)
		}
		if err != nil {
			v = fail("%v", err)
		}
		if v.outcome == Failed {
			failed++
			if s.basis {
				blocked = fmt.Sprintf("since %q failed", s.name)
			}
		}
		report(Result{Name: s.name, Outcome: v.outcome, Detail: c.mask(v.detail)})
	}
	if failed > 0 {
		return fmt.Errorf("%s: %w: %d failed", c.Image, ErrFailed, failed)
	}
	return nil
}

// cannotGoOn returns the errors that tell nothing about the type.
func cannotGoOn(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, engine.ErrUnavailable) || errors.Is(err, errOurs) {
		return err
	}
	return nil
}

// errOurs marks what went wrong on this side.
var errOurs = errors.New("the check itself failed")

func (c *checker) imageAvailable(ctx context.Context) (verdict, error) {
	id, err := c.image(ctx, c.Image)
	if err != nil {
		return verdict{}, err
	}
	return pass("%s", id), nil
}

// image makes an image available, once.
func (c *checker) image(ctx context.Context, ref string) (string, error) {
	if id, ok := c.ids[ref]; ok {
		return id, nil
	}
	image, err := c.Engine.Image(ctx, ref, c.Pull, nil)
	if err != nil {
		return "", err
	}
	c.ids[ref] = image.ID
	return image.ID, nil
}
