package work

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/runner/invoke"
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
	Workspace string      // absolute
	Home      string      // of the user; "" is none
	Version   string      // of Deployster
	Verbose   bool        // passed to resource types
	Variables []vars.Flag // set for everything that is loaded, in this order
	Now       func() time.Time
	Outside   vars.Outside    // of this process, for whoever calls it himself; see LoadOptions.Here
	Hide      func(value any) // keeps the value of a variable out of crash reports
}

// LoadOptions is what may differ from one load to the next.
type LoadOptions struct {
	Confirm  runner.ConfirmMode // as manifests see it; "" is ConfirmNo
	Targets  []string           // only these resources and what they depend on; none is all
	Replace  []string           // resources that are removed and made again, of those that Targets select
	Removing bool               // Targets are to be removed: they include what depends on them
	Last     map[string]any     // variables that win over all others, taken as they are
	Builtin  map[string]any     // variables that nobody else can set, in addition to the usual ones
	Included expression.Files   // what manifests and values of variables may include; nil is the workspace as it is now
	Assigned []vars.Assignment  // the variables; nil are those of the files and flags as they are now
	Usage    *usage.Variables   // collects over several loads; nil is one for each
	Here     bool               // values may also come from Inputs.Outside; not where somebody else asks for something
	Static   bool               // but commands are not run: some value stands for what they print
	Partly   bool               // only some of the variables are known: others are no problem
	Accept   func(*Input) error // refuses an input; may be nil: any will do

	bounds   *bounds                 // what the input may bring; nil is everything
	declared []*declaration.Variable // by the manifests
	images   *revision.Images        // whose contents the revision carries; nil are none
	applies  bool                    // the input is to be applied: an image that is not carried is refused
	unknown  []string                // variables whose values are not known
	doubtful []string                // variables that may not have the values that the revision has
}

// Input is what manifests and variables came to.
type Input struct {
	Workspace   string
	Run         string // ULID
	Work        string // directory of the run, below the workspace
	Expressions *expression.Evaluator
	Variables   map[string]any
	Manifest    *manifest.Manifest
	Whole       *manifest.Manifest // also what is no target
	Targeted    bool               // the run is of some of the resources
	Remove      []string           // what a destroy removes; nil is everything
	Replace     []string           // what an apply removes and makes again
	Usage       *usage.Variables
	Secrets     []any // what of the variables may not be shown, as manifests declare it

	Unknown []*declaration.Variable // those whose commands were not run

	texts    map[string]any   // variables whose type nobody declares, with numbers and truth values as they are written
	hidden   *invoke.Secrets  // Secrets
	bounds   *bounds          // what it may bring; nil is everything
	images   *revision.Images // whose contents the revision carries; nil are none
	applies  bool             // an image that is not carried is refused
	doubtful []string         // variables that may not have the values that the revision has
	builtin  map[string]any   // those of the variables that Deployster sets itself, in every run
}

// Set are the variables but for those that Deployster sets itself: they describe the
// run, not what is desired.
func (in *Input) Set() map[string]any {
	set := maps.Clone(in.Variables)
	for name := range in.builtin {
		delete(set, name)
	}
	return set
}

// Evaluate loads the variables, without any manifest.
func (i Inputs) Evaluate(o LoadOptions) (*Input, error) {
	in := &Input{
		Workspace: i.Workspace, Run: newID(i.Now()), Expressions: expression.New(i.Workspace), Usage: o.Usage, images: o.images, applies: o.applies, doubtful: o.doubtful,
	}
	in.hidden, in.texts = &invoke.Secrets{}, map[string]any{}
	if in.Usage == nil && len(i.Variables)+len(o.Last) > 0 { // without either nobody needs it
		in.Usage = &usage.Variables{}
	}
	if o.Included != nil {
		in.Expressions = expression.Over(o.Included)
	}
	in.Work = filepath.Join(i.Workspace, engine.StateDir, "work", in.Run)
	conf := i.conf()
	in.builtin = map[string]any{
		"_version": i.Version, "_verbose": i.Verbose, "_conf": conf,
		"_workspace": i.Workspace, "_work": in.Work, "_confirm": string(cmp.Or(o.Confirm, runner.ConfirmNo)),
	}
	builtin := maps.Clone(in.builtin)
	maps.Copy(builtin, o.Builtin)
	var outside *vars.Outside
	if o.Here {
		own := i.Outside
		if outside = &own; o.Static {
			own.Run, own.Unknown = nil, func(d *declaration.Variable) { in.Unknown = append(in.Unknown, d) }
		}
	}
	var err error
	in.Variables, err = vars.Load(vars.Options{
		ConfDir: conf, Workspace: i.Workspace, Flags: i.Variables, Assignments: o.Assigned, Last: o.Last, Evaluator: in.Expressions, Builtin: builtin, Usage: in.Usage,
		Declared: o.declared, Outside: outside, Partly: o.Partly, Unknown: o.unknown, Texts: in.texts, Hide: in.hide,
	})
	if err != nil {
		return nil, in.invalid(err)
	}
	for name, value := range in.Variables {
		if _, ours := builtin[name]; !ours {
			i.Hide(value)
		}
	}
	return in, nil
}

// hide notes a value of a variable that may not be shown.
func (in *Input) hide(value any) {
	in.Secrets = append(in.Secrets, value)
	in.hidden.Add(value, [][]string{{}})
}

// conf is the directory of the user's configuration; "" is none.
func (i Inputs) conf() string {
	if i.Home == "" {
		return ""
	}
	return filepath.Join(i.Home, engine.StateDir)
}

// Read reads the variables as they are written, for manifests that may each declare some. own
// are those that nobody else can set, in addition to the usual ones.
func (i Inputs) Read(own map[string]any, sources ...manifest.Source) ([]vars.Assignment, error) {
	var declared []*declaration.Variable
	for _, source := range sources {
		some, err := manifest.Declarations([]manifest.Source{source})
		if err != nil {
			return nil, &InputError{err}
		}
		for _, d := range some {
			at := slices.IndexFunc(declared, func(other *declaration.Variable) bool { return other.Name == d.Name })
			switch {
			case at < 0:
				declared = append(declared, d)
			case declared[at].File != d.File || !slices.Equal(declared[at].Command, d.Command):
				return nil, &InputError{&manifest.Error{Problems: []manifest.Problem{{Position: d.Position, Path: "variables." + d.Name, Message: fmt.Sprintf(
					"comes from elsewhere than as it is declared at %s: both are carried as one", declared[at].Position)}}}}
			}
		}
	}
	builtin := map[string]any{}
	maps.Copy(builtin, own)
	for _, name := range []string{"_version", "_verbose", "_conf", "_workspace", "_work", "_confirm"} {
		builtin[name] = nil
	}
	given, err := vars.Read(vars.Options{ConfDir: i.conf(), Workspace: i.Workspace, Flags: i.Variables, Builtin: builtin, Declared: declared, Outside: &i.Outside})
	if err != nil {
		return nil, &InputError{err}
	}
	for _, a := range given {
		i.Hide(a.Value)
	}
	return given, nil
}

// Load loads manifests, merged into one, and the variables.
func (i Inputs) Load(sources []manifest.Source, o LoadOptions) (*Input, error) {
	for _, s := range sources {
		if err := planfile.Refuse(s.Name, s.Data); err != nil {
			return nil, &InputError{err}
		}
	}
	var err error
	if o.declared, err = manifest.Declarations(sources); err != nil {
		return nil, &InputError{err}
	}
	in, err := i.Evaluate(o)
	if err != nil {
		return nil, err
	}
	m, err := manifest.Load(sources, manifest.Options{
		Variables: in.Variables, Texts: in.texts, Evaluator: in.Expressions, Workspace: in.Workspace, Home: i.Home, Usage: in.Usage, Partly: o.Partly,
		Secret: func(text string) bool { return in.hidden.Whole(text) != text },
		Hide:   func(value any) { in.hide(value); i.Hide(value) },
	})
	if err != nil {
		return nil, in.invalid(err)
	}
	whole := m
	switch {
	case len(o.Targets) == 0:
	case o.Removing:
		in.Remove, err = m.Dependents(o.Targets)
	default:
		m, err = m.Select(o.Targets)
	}
	if err != nil {
		return nil, in.invalid(err)
	}
	in.Manifest, in.Whole, in.Targeted = m, whole, len(o.Targets) > 0
	if in.Replace, err = replaced(m, o.Replace); err != nil {
		return nil, &InputError{err}
	}
	if o.bounds != nil {
		in.bounds, in.images = o.bounds, o.bounds.believed(in.images)
		if err := o.bounds.check(in); err != nil {
			return nil, in.invalid(err)
		}
	}
	if o.Accept != nil {
		if err := o.Accept(in); err != nil {
			return nil, err
		}
	}
	return in, in.problems(shipped.UnknownTypes(m))
}

// replaced are the resources that names of what is to be replaced mean.
func replaced(m *manifest.Manifest, names []string) (all []string, err error) {
	for _, name := range names {
		named, err := m.Named(name)
		if err != nil {
			return nil, fmt.Errorf("--replace %s: %w", name, err)
		}
		for _, one := range named {
			if !m.Has(one) {
				return nil, fmt.Errorf("--replace %s: it is not among the targets; name it with --target, too", one)
			}
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all, nil
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

// Meaning returns the runs.Options.Meaning of an input. It covers what the
// manifest says of a resource and of all it depends on, the plugs, and the
// variables.
func (in *Input) Meaning() func(salt, resource string) string {
	said := map[string]string{}
	for _, r := range in.Manifest.Resources { // each after all it depends on
		text := r.Hash()
		for _, name := range in.Manifest.Dependencies(r.Name) {
			text += " " + said[name]
		}
		sum := sha256.Sum256([]byte(text))
		said[r.Name] = hex.EncodeToString(sum[:])
	}
	shared := in.Set()
	for _, p := range in.Manifest.Plugs {
		shared["plug "+p.Name] = in.Below(p.Path) // no variable has a space in its name
	}
	var mu sync.Mutex
	salted := map[string]string{} // shared, by salt
	return func(salt, resource string) string {
		if said[resource] == "" {
			return "" // an instance of what is late is whatever the states made of it
		}
		mu.Lock()
		defer mu.Unlock()
		if _, known := salted[salt]; !known {
			hash, err := planfile.Salt(salt).Fingerprint(shared)
			if err != nil {
				return "" // a variable that JSON cannot express
			}
			salted[salt] = hash
		}
		meaning, err := planfile.Salt(salt).Fingerprint([]string{said[resource], salted[salt]})
		if err != nil {
			return ""
		}
		return meaning
	}
}

func newID(now time.Time) string { return ulid.MustNew(ulid.Timestamp(now), rand.Reader).String() }

// Conflicts fails where resources manage one thing, as far as that is known
// without a run.
func (in *Input) Conflicts() error { return in.problems(in.shipped().Conflicts()) }

// Check finds all that can be found wrong with the input without running
// anything. answered is what types that do not ship are known to answer; it may be nil.
func (in *Input) Check(answered func(ref string) (inits.Type, bool)) error {
	check := in.shipped()
	check.Answered = answered
	problems, err := check.Misuse()
	if err != nil {
		return err
	}
	problems = append(problems, in.shipped().Conflicts()...)
	var plugs *manifest.Error
	if errors.As(in.Manifest.CheckPlugs(), &plugs) {
		problems = append(problems, plugs.Problems...)
	}
	return in.problems(manifest.Sorted(problems, in.Manifest.Files))
}

// Unmatched finds paths to ignore that the schemas of types forbid, without running anything. answered is as for
// Check.
func (in *Input) Unmatched(answered func(ref string) (inits.Type, bool)) ([]diff.Unmatched, error) {
	check := in.shipped()
	check.Answered = answered
	return check.Unmatched()
}

func (in *Input) shipped() shipped.Check {
	known := in.Variables
	if len(in.Unknown) > 0 {
		known = maps.Clone(known)
		for _, d := range in.Unknown {
			delete(known, d.Name)
		}
	}
	return shipped.Check{Manifest: in.Manifest, Variables: known, Expressions: in.Expressions}
}

// problems makes an error of problems; nil of none.
func (in *Input) problems(all []manifest.Problem) error {
	if len(all) == 0 {
		return nil
	}
	return in.invalid(&manifest.Error{Problems: all})
}

// invalid is an error in the input, without what may not be shown.
func (in *Input) invalid(err error) error { return &InputError{in.Masked(err)} }

// Masked is an error without what of the variables may not be shown.
func (in *Input) Masked(err error) error {
	var found *manifest.Error
	switch {
	case err == nil || len(in.Secrets) == 0:
		return err
	case errors.As(err, &found):
		hidden := slices.Clone(found.Problems)
		for i, p := range hidden {
			hidden[i].Path, hidden[i].Message, hidden[i].Hint = in.hidden.Mask(p.Path), in.hidden.Mask(p.Message), in.hidden.Mask(p.Hint)
		}
		return &manifest.Error{Problems: hidden}
	}
	if text := in.hidden.Mask(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}
