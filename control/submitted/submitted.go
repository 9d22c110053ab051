// Package submitted checks build groups that somebody else has collected, such as the client of a
// server, before they enter the log: whoever may submit a group may run any program on the
// workers, but not make the dispatcher stumble, nor pass off what their jobs make as what those
// of others would.
//
// The hash of what goes into a job, by which later groups find what it made, is not taken from
// who sends the group: it is made anew, of what the group carries. What is trusted is what the
// sender says of where that comes from: which content an image had, and which commit the sources
// are of.
package submitted

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/inventory"
)

// The bounds of a group beside those of its body.
const (
	maxCarries = 10_000 // files
	maxPlaces  = 1000
	maxCause   = 4096 // bytes
)

// Checker checks groups. All fields are required.
type Checker struct {
	Load      func(hash string) ([]byte, error)                             // of what a group carries
	Check     func(hash string) error                                       // that something is there which a group carries; see objects.Store.Check
	Artifact  func(ctx context.Context, digest string) (here bool, _ error) // and stays until the group is recorded
	Inventory string                                                        // what that of the workers here is known as
	Own       string                                                        // tells the jobs of this group whose images are not pinned from those of all others
}

// InvalidError is what is wrong with a group. The same group is refused again.
type InvalidError struct{ Cause error }

// Error says what is wrong.
func (e *InvalidError) Error() string { return "the build group is refused: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Cause }

func invalid(format string, args ...any) error { return &InvalidError{fmt.Errorf(format, args...)} }

// Complete refuses a group that is not whole, or was not made as groups are, with an
// *InvalidError. In others it puts what is known here alone: the inventory, and the hashes of
// what goes into the jobs.
func (c Checker) Complete(ctx context.Context, s *build.Submit) error {
	for _, check := range []func(*build.Submit) error{checkTexts, c.completePlaces, checkJobs} {
		if err := check(s); err != nil {
			return err
		}
	}
	if err := c.checkCarried(ctx, s); err != nil {
		return err
	}
	used, err := c.completeJobs(ctx, s)
	if err != nil {
		return err
	}
	for _, digest := range slices.Sorted(maps.Keys(used)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch here, err := c.Artifact(ctx, digest); {
		case err != nil:
			return err
		case !here:
			return invalid("artifact %s of %.100s is not here: put it first", digest, used[digest])
		}
	}
	return nil
}

// checkTexts checks what is said of the group as a whole.
func checkTexts(s *build.Submit) error {
	switch {
	case !definition.IsName(s.Name):
		return invalid("%.60q cannot be its name", s.Name)
	case s.Artifacts != "" && !definition.IsRepository(s.Artifacts):
		return invalid("%.100q is no repository of a registry", s.Artifacts)
	case s.Converge < 0 || s.Converge > definition.MaxConverge:
		return invalid("converge is %d, at most %d is possible", s.Converge, definition.MaxConverge)
	case s.Source != nil && (!isText(s.Source.Commit) || !isText(s.Source.Repository)):
		return invalid("what its sources are of must be short texts of one line")
	}
	for _, name := range s.Touched {
		if !definition.IsName(name) {
			return invalid("%.60q cannot be the name of a package", name)
		}
	}
	for _, cycle := range s.Cycles {
		for _, name := range cycle {
			if !definition.IsName(name) {
				return invalid("%.60q cannot be the name of a package", name)
			}
		}
	}
	for _, u := range s.Unbuildable {
		switch {
		case !definition.IsName(u.Package) || u.Needs != "" && !definition.IsName(u.Needs):
			return invalid("%.60q or %.60q cannot be the name of a package", u.Package, u.Needs)
		case len(u.Cause) > maxCause || strings.ContainsFunc(u.Cause, isControl):
			return invalid("why %s cannot be built must be a text of at most %d bytes, without control characters", u.Package, maxCause)
		}
	}
	return nil
}

// isText reports whether a text is a short one of one line.
func isText(text string) bool {
	return len(text) <= definition.MaxText && !strings.ContainsFunc(text, unicode.IsControl)
}

// isControl reports whether a character is one that a text of several lines has not.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// completePlaces checks the places, which become ones of the inventory here.
func (c Checker) completePlaces(s *build.Submit) error {
	if len(s.Places) > maxPlaces {
		return invalid("its jobs are for %d places, at most %d are possible", len(s.Places), maxPlaces)
	}
	s.Places = slices.Clone(s.Places)
	for i := range s.Places {
		p := &s.Places[i]
		if !isText(p.Platform) || !inventory.IsPlatform(p.Platform) {
			return invalid("%.60q is not a platform, as linux/amd64 is", p.Platform)
		}
		if p.Workers != "" {
			if err := inventory.CheckQuery(p.Workers); err != nil || !isText(p.Workers) {
				return invalid("%.100q does not select workers: %w", p.Workers, errors.Join(err))
			}
		}
		p.Inventory = c.Inventory
	}
	return nil
}

// checkJobs checks what jobs are and use. That what they use comes before them, and where they
// are done, build.Submit checks.
func checkJobs(s *build.Submit) error {
	for i, j := range s.Jobs {
		n := i + 1
		switch {
		case !definition.IsName(j.Package):
			return invalid("%.60q cannot be the name of job %d", j.Package, n)
		case !isText(j.Version):
			return invalid("the version of job %d must be a short text of one line", n)
		case j.Pass < 0 || j.Of < 0 || j.Pass > j.Of || j.Of > definition.MaxConverge:
			return invalid("job %d is for pass %d of %d", n, j.Pass, j.Of)
		case j.Place < 0 || j.Place >= len(s.Places):
			return invalid("job %d is for place %d of %d", n, j.Place, len(s.Places))
		case j.Recipe < 0 || j.Recipe >= len(s.Jobs):
			return invalid("job %d runs recipe %d, and jobs have no more than one each: %d", n, j.Recipe, len(s.Jobs))
		}
		for _, u := range j.Uses {
			if err := checkUse(s, n, u); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkUse checks what a job uses of a package.
func checkUse(s *build.Submit, n int, u record.Use) error {
	switch {
	case !definition.IsName(u.Package):
		return invalid("%.60q, which job %d uses, cannot be the name of a package", u.Package, n)
	case u.Job < 0 || u.Job >= n:
		return invalid("job %d uses job %d, which does not come before it", n, u.Job)
	case u.Job > 0 && (u.Artifact != "" || s.Jobs[u.Job-1].Package != u.Package):
		return invalid("job %d uses %s of job %d, which does not make that", n, u.Package, u.Job)
	case u.Artifact != "" && !definition.IsDigest(u.Artifact):
		return invalid("%.90q, which job %d uses, is not the digest of an artifact", u.Artifact, n)
	}
	return nil
}

// checkCarried makes sure that all that the group carries is kept, and can be read.
func (c Checker) checkCarried(ctx context.Context, s *build.Submit) error {
	if len(s.Carries) > maxCarries {
		return invalid("it carries %d files, at most %d are possible", len(s.Carries), maxCarries)
	}
	if s.Carries[s.File] == "" {
		return invalid("it does not carry its definition, %.200q", s.File)
	}
	checked := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.Carries)) {
		hash := s.Carries[name]
		if !isText(name) {
			return invalid("%.60q cannot be the name of a file that it carries", name)
		}
		if checked[hash] {
			continue
		}
		checked[hash] = true
		if ctx.Err() != nil { // each may be large
			return context.Cause(ctx)
		}
		switch err := c.Check(hash); {
		case !objects.IsHash(hash), errors.Is(err, objects.ErrMissing), errors.Is(err, objects.ErrAltered):
			return invalid("object %.90s of %.200q is not here: put it first", hash, name)
		case err != nil:
			return fmt.Errorf("what the group carries as %.200q: %w", name, err)
		}
	}
	if hash := s.Carries[revision.VariablesName]; hash != "" {
		text, err := c.Load(hash)
		if err == nil {
			_, err = revision.DecodeVariables(text)
		}
		if err != nil {
			return invalid("its variables: %w", err)
		}
	}
	return nil
}

// completeJobs checks what jobs run, one document of recipes at a time, and makes the hashes of
// all that goes into them. used are the artifacts that the group carries, with who uses each.
func (c Checker) completeJobs(ctx context.Context, s *build.Submit) (used map[string]string, err error) {
	s.Jobs = slices.Clone(s.Jobs)
	byDocument := map[string][]int{}
	for i, j := range s.Jobs {
		byDocument[recipe.Name(j.Recipe)] = append(byDocument[recipe.Name(j.Recipe)], i)
	}
	used = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(byDocument)) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		from, all, err := c.recipes(s, name)
		if err != nil {
			return nil, err
		}
		checked := map[int]bool{}
		for _, i := range byDocument[name] {
			if ctx.Err() != nil { // each is hashed with all that its recipe says
				return nil, context.Cause(ctx)
			}
			j := &s.Jobs[i]
			r, err := recipe.Select(from, all, j.Recipe)
			if err == nil && !checked[j.Recipe] {
				checked[j.Recipe] = true
				err = checkRecipe(r)
			}
			if err != nil {
				return nil, invalid("what job %d (%s) runs: %w", i+1, j.Package, err)
			}
			if r.Artifact != "" {
				used[r.Artifact] = "the sources of " + j.Package
			}
			for _, u := range j.Uses {
				if u.Artifact != "" {
					used[u.Artifact] = "what was released of " + u.Package
				}
			}
			j.Inputs = r.Inputs(*j, s.Places[j.Place].Platform, c.Own)
		}
	}
	return used, nil
}

// recipes are those of a document that the group carries.
func (c Checker) recipes(s *build.Submit, name string) (from int, all []recipe.Recipe, err error) {
	hash := s.Carries[name]
	if hash == "" {
		return 0, nil, invalid("it does not carry %s, in which is what its jobs run", name)
	}
	text, err := c.Load(hash)
	if err != nil {
		return 0, nil, err
	}
	if from, all, err = recipe.Decode(text); err != nil {
		return 0, nil, &InvalidError{err}
	}
	if len(all) == 0 || recipe.Name(from) != name || recipe.Name(from+len(all)-1) != name {
		return 0, nil, invalid("%s does not hold the recipes of that name", name)
	}
	return from, all, nil
}
