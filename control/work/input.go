package work

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// InputError is an error in what somebody wrote: manifests, files of variables,
// or variables themselves.
type InputError struct{ Cause error }

// Error implements error.
func (e *InputError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Cause }

// Inputs loads manifests with their variables.
type Inputs struct {
	Workspace string                  // absolute
	Home      string                  // of the user; "" is none
	Version   string                  // of Deployster
	Verbose   bool                    // passed to resource types
	Variables []manifest.VariableFlag // set for everything that is loaded, in this order
	Now       func() time.Time
	Hide      func(value any) // keeps the value of a variable out of crash reports
}

// LoadOptions is what may differ from one load to the next.
type LoadOptions struct {
	Confirm  runner.ConfirmMode // as manifests see it; "" is ConfirmNo
	Targets  []string           // only these resources and what they depend on; none is all
	Removing bool               // Targets are to be removed: they include what depends on them
	Last     map[string]any     // variables that win over all others, taken as they are
	Builtin  map[string]any     // variables that nobody else can set, in addition to the usual ones
	Usage    *manifest.Usage    // collects over several loads; nil is one for each
	Accept   func(*Input) error // refuses an input; may be nil: any will do
}

// Input is what manifests and variables came to.
type Input struct {
	Workspace   string
	Run         string // ULID
	Work        string // directory of the run, below the workspace
	Expressions *expression.Evaluator
	Variables   map[string]any
	Builtin     map[string]any // those of the variables that Deployster sets itself, in every run
	Manifest    *manifest.Manifest
	Remove      []string // what a destroy removes; nil is everything
	Usage       *manifest.Usage
}

// Evaluate loads the variables, without any manifest.
func (i *Inputs) Evaluate(o LoadOptions) (*Input, error) {
	in := &Input{
		Workspace: i.Workspace, Run: newID(i.Now()), Expressions: expression.New(i.Workspace), Usage: o.Usage,
	}
	if in.Usage == nil && len(i.Variables)+len(o.Last) > 0 { // without either nobody needs it
		in.Usage = &manifest.Usage{}
	}
	in.Work = filepath.Join(i.Workspace, engine.StateDir, "work", in.Run)
	conf := ""
	if i.Home != "" {
		conf = filepath.Join(i.Home, engine.StateDir)
	}
	in.Builtin = map[string]any{
		"_version": i.Version, "_verbose": i.Verbose, "_conf": conf,
		"_workspace": i.Workspace, "_work": in.Work, "_confirm": string(cmp.Or(o.Confirm, runner.ConfirmNo)),
	}
	builtin := maps.Clone(in.Builtin)
	maps.Copy(builtin, o.Builtin)
	var err error
	in.Variables, err = manifest.LoadVariables(manifest.VariableOptions{
		ConfDir: conf, Workspace: i.Workspace, Flags: i.Variables, Last: o.Last, Evaluator: in.Expressions, Builtin: builtin, Usage: in.Usage,
	})
	if err != nil {
		return nil, &InputError{err}
	}
	for name, value := range in.Variables {
		if _, ours := builtin[name]; !ours {
			i.Hide(value)
		}
	}
	return in, nil
}

// Load loads manifests, merged into one, and the variables.
func (i *Inputs) Load(sources []manifest.Source, o LoadOptions) (*Input, error) {
	for _, s := range sources {
		if planfile.Is(bytes.NewReader(s.Data)) {
			return nil, &InputError{fmt.Errorf("%s is a saved plan and no manifest", s.Name)}
		}
	}
	in, err := i.Evaluate(o)
	if err != nil {
		return nil, err
	}
	m, err := manifest.Load(sources, manifest.Options{
		Variables: in.Variables, Evaluator: in.Expressions, Workspace: in.Workspace, Home: i.Home, Usage: in.Usage,
	})
	if err != nil {
		return nil, &InputError{err}
	}
	switch {
	case len(o.Targets) == 0:
	case o.Removing:
		in.Remove, err = m.Dependents(o.Targets)
	default:
		m, err = m.Select(o.Targets)
	}
	if err != nil {
		return nil, &InputError{err}
	}
	in.Manifest = m
	if o.Accept != nil {
		if err := o.Accept(in); err != nil {
			return nil, err
		}
	}
	return in, knownTypes(m)
}

// Below is a path relative to the workspace where it lies in it, so that it also
// fits another copy of the workspace.
func (in *Input) Below(path string) string {
	whole, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(in.Workspace, whole); err == nil && (filepath.IsLocal(relative) || !filepath.IsAbs(path)) {
		return relative
	}
	return path
}

func newID(now time.Time) string { return ulid.MustNew(ulid.Timestamp(now), rand.Reader).String() }

// shippedPrefix is how manifests name the types that ship with Deployster.
const shippedPrefix = "deployster/"

// knownTypes refuses a type that reads like one that ships and is none.
func knownTypes(m *manifest.Manifest) error {
	var problems []manifest.Problem
	for _, r := range m.Resources {
		name, ships := strings.CutPrefix(r.Type, shippedPrefix)
		_, known := shipped.Lookup(name)
		if tag := strings.IndexAny(name, ":@"); ships && tag > 0 {
			if _, known := shipped.Lookup(name[:tag]); known {
				problems = append(problems, manifest.Problem{
					Position: r.Position, Path: "resources." + r.Name + ".type",
					Message: fmt.Sprintf("%q would be an image in a registry; the type that ships with Deployster is of its version and has no tag: write %s%s", r.Type, shippedPrefix, name[:tag]),
				})
			}
		}
		if !ships || known || strings.ContainsAny(name, ":@/") {
			continue
		}
		problems = append(problems, manifest.Problem{
			Position: r.Position, Path: "resources." + r.Name + ".type",
			Message: fmt.Sprintf("%q is not a type that ships with this version; those are %s", r.Type, strings.Join(shipped.Names(), ", ")),
			Hint:    suggest.Closest(name, shipped.Names()),
		})
	}
	return invalid(problems)
}
