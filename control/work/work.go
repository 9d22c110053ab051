// Package work does the work of steps: it applies and destroys manifests on the
// engines of hosts, and records each run in the deployment log.
//
// A StepWorker serves pipelines, a TaskWorker serves environments. Both take the
// engines of hosts from an EnginePool, load a manifest with the variables of its
// step (Inputs), and prepare a run of it (Config.Prepare). The commands that
// apply one manifest on one engine prepare their runs in the same way.
//
// The package knows no concrete engine and no command line: whoever uses it
// gives it a Dial, which opens engines, and a Config.
package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/rundirs"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/runner/invoke"
)

// orphanTimeout is how long a run waits for an action that a dead run left
// running, before it stops that action.
const orphanTimeout = 10 * time.Minute

// Config is what all runs of a process have in common.
type Config struct {
	Inputs

	Log         deploylog.Log
	Machine     string             // tells this machine from others that have the log; "" is not known
	Texts       Texts              // that revisions carry
	Protected   *protected.Store   // of what may be secret; nil is that of the workspace
	InitCache   inits.Cache        // may be nil: each type is asked
	InitAnswers *inits.Answers     // of all runs; may be nil
	Parallelism int                // resources of one run that are worked on at once
	Pull        engine.PullPolicy  // of every image
	Network     string             // of every container; "" is the engine's default
	Memory      int64              // of every container, in bytes; 0 is the engine's default
	Pids        int64              // processes and threads of every container; 0 is the engine's default
	MaxWork     int64              // bytes that one run may leave in its directory; 0 is invoke.DefaultMaxWork
	MaxWorkAll  int64              // bytes that the directories of all runs have; 0 is gc.DefaultMaxWork
	Notice      func(string)       // receives in a sentence what was found of dead runs
	Crashed     func(*crash.Error) // receives each panic
	Reserve     *Reserve           // of processes that serve; may be nil: they end with their run

	// Trace follows the run that details describe, in a place; may be nil.
	Trace func(details map[string]string, place string) Trace

	sweeps *runs.Sweeps // of those who do run after run; nil of others
	pasts  *runs.Pasts  // the same
}

// Trace follows what a run does, and changes nothing of it. Its methods return quickly.
type Trace interface {
	Begin()                                   // the run has its place in the log
	End()                                     // and gives it back
	Recorder(runner.Recorder) runner.Recorder // passes on what is recorded
	Engine(invoke.Engine) invoke.Engine       // passes on what is run
}

// Request says what a run is for.
type Request struct {
	Command string            // as the log names it, such as "apply"
	Files   []string          // of the manifest
	Place   string            // where the resources are, of a manifest that is applied in several places; "" is none
	Details map[string]string // what else the log names of the run; may be nil
}

// Run is a run of an input on an engine that is ready to begin.
type Run struct {
	*Input
	*Connection
	Control    runs.Options // of its place in the log
	Spec       runner.Spec
	Containers runner.Containers
	Caller     runner.Caller
	trace      Trace // may be nil
}

// Prepare describes a run of an input on an engine. It asks nobody.
func (c *Config) Prepare(in *Input, on *Connection, request Request) *Run {
	target := runs.RunTarget(in.Workspace, request.Files)
	run := &Run{
		Input: in, Connection: on,
		Control: runs.Options{
			Log: c.Log, Machine: c.Machine, Engine: on.Engine, Engines: on.Recovery, ID: in.Run, Place: request.Place, Whole: !in.Targeted,
			Target: deploylog.Target(invoke.Placed(string(target), request.Place)), Revision: in.Manifest.Hash()[:12],
			OrphanTimeout: orphanTimeout, Notice: c.Notice, Sweeps: c.sweeps, Pasts: cmp.Or(c.pasts, runs.NewPasts(c.Log)),
			Protected: cmp.Or(c.Protected, Protected(in.Workspace)),
		},
		Spec: runner.Spec{
			Key: c.Texts.Key, Manifest: in.Manifest, Replace: in.Replace, Variables: in.Variables, Secrets: in.Secrets, Expressions: in.Expressions, Configure: in.configure(!on.Info.Remote), InitCache: c.InitCache, InitAnswers: c.InitAnswers, Version: c.Version, Verbose: c.Verbose,
		},
		Containers: runner.Containers{
			Engine: on.Engine, Images: in.pinned(on.Images), Parallelism: c.Parallelism, Pull: c.Pull,
			Network: c.Network, Memory: c.Memory, Pids: c.Pids, MaxWork: c.MaxWork, Remote: on.Info.Remote, Copies: on.Info.Copies, Works: on.Info.Works, Pins: on.Info.Pins, Written: in.written(), Place: request.Place,
			Run: in.Run, Log: c.Log.ID(), Workspace: in.Workspace, Work: in.Work, Now: c.Now,
		},
		Caller: runner.Caller{Details: c.details(in, on, request), Crashed: c.Crashed},
	}
	run.Caller.Past = runs.PastOf(run.Control)
	if c.Reserve != nil && on.Info.Tied {
		run.Containers.Reserve = c.Reserve.processes
	}
	if c.Trace != nil {
		run.trace = c.Trace(run.Caller.Details, request.Place)
		run.Containers.Traced, run.Control.Ended = run.trace.Engine(run.Containers.Engine), run.trace.End
	}
	return run
}

// Protected keeps the documents of a workspace that may hold secrets.
func Protected(workspace string) *protected.Store {
	return protected.New(filepath.Join(workspace, engine.StateDir, protected.DirName))
}

// Removes makes the run one that removes resources of its manifest; nil is all.
func (r *Run) Removes(resources []string) {
	r.Spec.Remove, r.Control.Meaning = resources, r.Meaning()
	r.Control.Revision = "" // what is removed has none
}

// details is what identifies a run in the log.
func (c *Config) details(in *Input, on *Connection, request Request) map[string]string {
	d := runs.Who()
	maps.Copy(d, map[string]string{
		"command": request.Command, "manifest": strings.Join(request.Files, " "), "manifest_hash": in.Manifest.Hash(),
		"engine": on.Info.Name + " " + on.Info.Version, "engine_address": on.Info.Address,
		"plugs": fmt.Sprint(len(in.Manifest.Plugs)), "run": in.Run, "deployster": c.Version,
		"workspace": in.Workspace, "pid": fmt.Sprint(os.Getpid()),
	})
	maps.Copy(d, request.Details)
	return d
}

// Begin takes the place of the run in the log, which records what its Caller does and
// guards its resources. End of that ends it.
func (r *Run) Begin(ctx context.Context) (*runs.Run, error) {
	if r.Control.Manifest != nil && r.Control.Place == "" {
		if _, err := r.history(ctx); err != nil {
			return nil, err
		}
	}
	held, err := runs.Begin(ctx, r.Control)
	if err != nil {
		return nil, err
	}
	r.Caller.Recorder, r.Caller.Guard, r.Caller.Absence = held, held, held.Gone
	if r.trace != nil {
		r.trace.Begin()
		r.Caller.Recorder = r.trace.Recorder(held)
	}
	return held, nil
}

// worker applies manifests on the engines of hosts.
type worker struct {
	Config
	pool    *EnginePool
	command string // as the log names it
	kept    *rundirs.Kept
}

func newWorker(c Config, pool *EnginePool, command string) worker {
	c.sweeps, c.pasts = runs.NewSweeps(c.Now), runs.NewPasts(c.Log)
	w := worker{Config: c, pool: pool, command: command, kept: &rundirs.Kept{}}
	if c.Reserve != nil {
		w.kept.SpareIn(filepath.Join(c.Reserve.dir, "_spare", strings.ReplaceAll(command, " ", "-")))
	}
	return w
}

// prepare describes a run of a manifest, which is named below the workspace, in
// one of the places where it is applied.
func (w *worker) prepare(in *Input, on *Connection, name, place string, details map[string]string) (*Run, error) {
	if err := on.CheckPlugs(in.Manifest); err != nil {
		return nil, err
	}
	return w.Prepare(in, on, Request{Command: w.command, Files: []string{w.path(name)}, Place: place, Details: details}), nil
}

// path is where a manifest lies, which is named below the workspace.
func (w *worker) path(name string) string {
	return filepath.Join(w.Workspace, filepath.FromSlash(name))
}

// hold begins a run in one of the places whose last runs are kept. end ends it, and removes
// a bounded part of what old ones left.
func (w *worker) hold(ctx context.Context, run *Run, place string) (held *runs.Run, end func(), err error) {
	if held, err = run.Begin(ctx); err != nil {
		return nil, nil, err
	}
	written := w.kept.Begin(place, run.Work)
	return held, func() {
		written()
		held.End()
		// At worst it stays: a run does not fail of it.
		_ = gc.Sometimes(context.Background(), w.Log, filepath.Join(w.Workspace, engine.StateDir), run.Run, w.MaxWorkAll, w.Now())
	}, nil
}

// guard makes an error of a panic in the work of a controller, which goes on, and
// reports it. It is deferred.
func (w *worker) guard(err *error, doing string) {
	if p := recover(); p != nil {
		c := crash.New(p, doing)
		w.Crashed(c)
		*err = errors.Join(*err, c)
	}
}
