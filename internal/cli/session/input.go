package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
)

// Flags are the flags of commands that read manifests.
type Flags struct {
	Variables []vars.Flag
	Targets   []string
	Replace   []string                // resources to remove and make again
	Placed    bool                    // the modules that are locked are in the workspace already
	Locked    bool                    // only images that deployster.lock has are used
	Prune     bool                    // what the manifests no longer declare is removed
	Removing  bool                    // targets are to be removed: they take along what depends on them
	Fits      func(*work.Input) error // of a saved plan; may be nil: any input will do
	Static    bool                    // commands that give variables are not run
	Strict    bool                    // variables that nothing reads are an error
}

// Register adds the flags of commands that read whole manifests.
func (f *Flags) Register(c *cobra.Command) {
	f.RegisterVariables(c)
	c.Flags().StringArrayVar(&f.Targets, "target", nil, "only this resource and what it depends on (repeatable)")
}

// RegisterReplace adds the flags of what is to be removed, and perhaps made again.
func (f *Flags) RegisterReplace(c *cobra.Command) {
	f.RegisterPrune(c, "remove what runs of these manifests made and they no longer declare, once the rest is as configured")
	c.Flags().StringArrayVar(&f.Replace, "replace", nil, "remove this resource and make it again, with what depends on it looked at after that (repeatable)")
}

// RegisterLocked adds --locked, for commands that use what deployster.lock says.
func (f *Flags) RegisterLocked(c *cobra.Command) {
	c.Flags().BoolVar(&f.Locked, "locked", false, "refuse images of types that deployster.lock does not have")
}

// RegisterPrune adds the flag of what is no longer declared.
func (f *Flags) RegisterPrune(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&f.Prune, "prune", false, usage)
}

// RegisterVariables adds --var and --var-file, which together keep the order of
// the command line, and --strict, which is about them.
func (f *Flags) RegisterVariables(c *cobra.Command) {
	c.Flags().BoolVar(&f.Strict, "strict", false, "refuse variables of --var and --var-file that nothing reads")
	f.RegisterValues(c)
}

// RegisterValues adds --var and --var-file alone, for commands that cannot know yet what
// reads them.
func (f *Flags) RegisterValues(c *cobra.Command) {
	c.Flags().Func("var", "set a variable, as NAME=VALUE (repeatable)", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not NAME=VALUE", s)
		}
		f.Variables = append(f.Variables, vars.Flag{Name: name, Value: value})
		return nil
	})
	c.Flags().Func("var-file", "set the variables of a YAML file (repeatable; later ones win)", func(s string) error {
		if s == "" {
			return errors.New("the path of a file is missing")
		}
		f.Variables = append(f.Variables, vars.Flag{File: s})
		return nil
	})
}

// Inputs loads manifests with the variables of these flags.
func Inputs(a *app.App, flags Flags) work.Inputs {
	home, _ := os.UserHomeDir() // without a home there is no configuration in it
	return work.Inputs{
		Workspace: a.Workspace, Home: home, Version: a.Version, Verbose: a.Verbose,
		Variables: flags.Variables, Now: a.Now, Hide: a.Crashes.Hide,
		Outside: vars.Outside{Lookup: os.LookupEnv, Run: a.Commands.In(a.Workspace), Workspace: a.Workspace, Home: home},
	}
}

// Assignments reads the variables as they are written, for manifests that may each declare
// some. own are those that nobody else can set, in addition to the usual ones.
func Assignments(a *app.App, flags Flags, own map[string]any, sources ...manifest.Source) ([]vars.Assignment, error) {
	if err := placeModules(a); err != nil {
		return nil, err
	}
	return Inputs(a, flags).Read(own, sources...)
}

// Pinning is how variables of these flags become what a revision carries; public are no
// secrets.
func Pinning(a *app.App, flags Flags, public []string) (work.Pinning, error) {
	texts, err := a.Texts()
	return work.Pinning{Inputs: Inputs(a, flags), Texts: texts, Public: public}, err
}

// Variables loads the variables, without any manifest.
func Variables(a *app.App, flags Flags, confirm runner.ConfirmMode) (*work.Input, error) {
	return Inputs(a, flags).Evaluate(work.LoadOptions{Confirm: confirm})
}

// LoadAndWarn loads manifests and warns of variables that nothing reads.
func LoadAndWarn(a *app.App, files []string, flags Flags, confirm runner.ConfirmMode) (*work.Input, error) {
	if flags.Prune && len(flags.Targets) > 0 {
		return nil, exit.Usage("--prune removes what is no longer declared, which cannot be a --target: leave one of them out")
	}
	if i := slices.IndexFunc(files, planfile.IsAt); i >= 0 {
		word := output.ShellWord(output.Operand(files[i]))
		return nil, exit.Usage("%s is a saved plan and no manifest; \"deployster apply %s\" applies it, \"deployster plan %s\" shows it", files[i], word, word)
	}
	sources, err := manifest.ReadFiles(files)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	if i := slices.IndexFunc(sources, func(s manifest.Source) bool { return planfile.Is(bytes.NewReader(s.Data)) }); i >= 0 {
		return nil, exit.Usage("%s is a saved plan, and not a file that can be read twice: give the file that \"plan -o\" wrote", sources[i].Name)
	}
	if !flags.Placed {
		if err := placeModules(a); err != nil {
			return nil, err
		}
	}
	in, err := Inputs(a, flags).Load(sources, work.LoadOptions{
		Confirm: confirm, Targets: flags.Targets, Replace: flags.Replace, Removing: flags.Removing, Accept: flags.Fits, Here: true, Static: flags.Static,
	})
	if err != nil {
		return nil, err
	}
	for _, d := range in.Unknown {
		a.Notice(fmt.Sprintf("note: the variable %s comes from a command, which is not run for this: what reads it is not checked", d.Name))
	}
	return in, WarnUnread(a, in.Usage.Unread(), flags.Strict)
}

// mostUnread is how many variables that nothing reads are named. A file of
// variables may be made for many manifests.
const mostUnread = 10

// WarnUnread warns of variables that were given and nothing reads: they may be
// mistyped. With --strict they are an error.
func WarnUnread(a *app.App, unread []manifest.Problem, strict bool) error {
	if strict && len(unread) > 0 {
		return exit.Invalid(&manifest.Error{Problems: unread})
	}
	more := max(0, len(unread)-mostUnread)
	for _, p := range unread[:len(unread)-more] {
		fmt.Fprintf(a.Err, "warning: %s\n", view.Clean(p.String()))
	}
	if more > 0 {
		fmt.Fprintf(a.Err, "warning: nothing reads %s more\n", phrase.Count(more, "variable"))
	}
	return nil
}

// WarnUnmatched warns of paths to ignore that match nothing.
func WarnUnmatched(a *app.App, all []diff.Unmatched) {
	for _, u := range all {
		fmt.Fprintf(a.Err, "warning: %s\n", view.Clean(u.Resource+": "+u.String()))
	}
}

// NoteOmitted says which files a revision is to do without. A directory from which
// something is included may hold much that nobody meant to include.
func NoteOmitted(a *app.App, c *work.Collection) error {
	all, err := c.Omitted()
	if err != nil {
		return err
	}
	more := max(0, len(all)-mostUnread)
	for _, o := range all[:len(all)-more] {
		fmt.Fprintf(a.Err, "note: %s; what includes it fails\n", view.Clean(o.Described()))
	}
	if more > 0 {
		fmt.Fprintf(a.Err, "note: %s more left out\n", phrase.Count(more, "file")+" "+map[bool]string{true: "is", false: "are"}[more == 1])
	}
	return nil
}

// ManifestBelow is work.ManifestBelow, with an error in plain words.
func ManifestBelow(workspace, path string) (string, error) {
	below, err := work.ManifestBelow(workspace, path)
	if err != nil {
		return "", errors.New(exit.FileWords(err))
	}
	return below, nil
}
