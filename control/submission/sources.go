package submission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/regularfile"
	"github.com/deployster-go/deployster/internal/worktree"
)

// sourceLimits bound the sources of one package, and what was released of one.
var sourceLimits = artifacts.Limits{Files: 100_000, Bytes: 4 << 30}

// keepSources makes artifacts of the sources of packages, one of each set of them.
func (s *collecting) keepSources(p *plan.Plan) error {
	kept := map[string]string{}
	causes := map[string][]sourceFault{}
	done, blamed := map[*recipe.Recipe]bool{}, map[string]bool{}
	for _, j := range p.Jobs {
		of := s.jobs[j.Package]
		if len(of.recipe.Sources) == 0 {
			continue
		}
		var paths []string
		for _, source := range of.recipe.Sources {
			paths = append(paths, source.Path)
		}
		key := strings.Join(paths, "\x00")
		if !done[of.recipe] && kept[key] == "" && causes[key] == nil {
			a, faults, err := s.keep(paths)
			switch {
			case err != nil:
				return err
			case len(faults) > 0:
				causes[key] = faults
			default:
				kept[key] = a.Digest
				s.out.Sources = append(s.out.Sources, Kept{Paths: paths, Artifact: a.Digest, Size: a.Size, Files: a.Files})
			}
		}
		done[of.recipe] = true
		if faults := causes[key]; !blamed[j.Package] && len(faults) > 0 {
			blamed[j.Package] = true
			s.blameSources(of, faults)
		}
		of.recipe.Artifact = kept[key]
	}
	return nil
}

// sourceFault is what is wrong with a source.
type sourceFault struct {
	path  string // of the workspace; "" is all sources of a package
	cause error
}

// blameSources makes a package unbuildable because of its sources.
func (s *collecting) blameSources(of *job, faults []sourceFault) {
	causes := make([]string, len(faults))
	for i, f := range faults {
		causes[i] = f.cause.Error()
		at := max(0, slices.Index(s.sources[of.recipe], f.path))
		s.fault(of.pkg.Job.Sources[at].At, of.pkg, fmt.Sprintf("sources[%d]", at), "%v: %s cannot be built without it; correct the path, or what is there", f.cause, of.pkg.Name)
	}
	s.blame(of.pkg, "its sources: %s", strings.Join(causes, "; "))
}

// keepReleased finds the artifacts of what was released, or makes them. Who needs what is
// not there cannot be built.
func (s *collecting) keepReleased(p *plan.Plan) error {
	s.released = map[string]string{}
	causes := map[string]error{}
	for _, pkg := range s.uses(p) {
		if pkg.Have == nil || *pkg.Have == (definition.Released{Path: definition.Value{At: pkg.Have.Path.At}}) {
			continue // it needs not be known, or that cannot be read
		}
		digest, err := s.have(pkg)
		var fault *faultError
		switch {
		case errors.As(err, &fault):
			causes[pkg.Name] = fault
			if pkg.Have.Artifact == "" {
				s.fault(pkg.Have.Path.At, pkg, "released.path", "%v: what needs %s cannot be built without it; correct the path, or what is there", fault, pkg.Name)
			} else {
				s.fault(pkg.At, pkg, "released.artifact", "%v", fault)
			}
		case err != nil:
			return fmt.Errorf("getting what was released of %s: %w", pkg.Name, err)
		default:
			s.released[pkg.Name] = digest
		}
	}
	blamed := map[[2]string]bool{}
	for _, j := range p.Jobs {
		for _, u := range j.Uses {
			if cause := causes[u.Package]; cause != nil && u.Job == 0 && !blamed[[2]string{j.Package, u.Package}] {
				blamed[[2]string{j.Package, u.Package}] = true
				s.blame(s.packages[j.Package], "it needs what was released of %s: %v", u.Package, cause)
			}
		}
	}
	return nil
}

// have is the artifact of what was released of a package.
func (s *collecting) have(pkg *definition.Package) (digest string, err error) {
	if digest := pkg.Have.Artifact; digest != "" {
		return digest, s.fetch(digest)
	}
	at := pkg.Have.Path.Text
	root, err := os.OpenRoot(s.Inputs.Workspace)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	info, err := root.Stat(at)
	switch {
	case err != nil:
		return "", unread(at, err)
	case !info.IsDir():
		return "", &faultError{fmt.Errorf("%s is no directory", at)}
	}
	if err := outsideState(s.Inputs.Workspace, at); err != nil {
		return "", err
	}
	below, err := root.OpenRoot(at)
	if err != nil {
		return "", unread(at, err)
	}
	a, err := s.collect(func(c *copier) error { return c.directory(below, c.to, at) }, below)
	if err == nil {
		s.out.Sources = append(s.out.Sources, Kept{Paths: []string{at}, Artifact: a.Digest, Size: a.Size, Files: a.Files})
	}
	return a.Digest, err
}

// fetch has an artifact pulled that is not here.
func (s *collecting) fetch(digest string) error {
	switch here, err := s.Artifacts.Use(s.ctx, digest); {
	case here || err != nil:
		return err
	case s.d.Artifacts == "":
		return &faultError{fmt.Errorf("artifact %s is not here; say with artifacts which registry has it, or give what was released as a path", digest)}
	}
	_, err := s.Artifacts.Pull(s.ctx, s.d.Artifacts+"@"+digest, sourceLimits, nil)
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case errors.As(err, new(*artifacts.RefusedError)), errors.Is(err, artifacts.ErrAltered), errors.Is(err, artifacts.ErrMissing):
		return &faultError{err}
	default: // it may be there when this is tried again
		return err
	}
}

// faultError is what is wrong with what a package uses of the workspace.
type faultError struct{ cause error }

func (e *faultError) Error() string { return e.cause.Error() }
func (e *faultError) Unwrap() error { return e.cause }

// unread is why a file of the workspace cannot be used. What is not a fault of the workspace
// is another error.
func unread(at string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &faultError{fmt.Errorf("there is no %s in the workspace", at)}
	case errors.Is(err, fs.ErrPermission):
		return &faultError{fmt.Errorf("%s cannot be read: permission denied", at)}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EIO), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	var detail *fs.PathError
	if errors.As(err, &detail) {
		err = detail.Err
	}
	return &faultError{fmt.Errorf("%s cannot be read: %w", at, err)}
}

// keep makes an artifact of files and directories of the workspace, each at its path, or says of
// each what is wrong with it.
func (s *collecting) keep(paths []string) (a artifacts.Artifact, faults []sourceFault, err error) {
	root, err := os.OpenRoot(s.Inputs.Workspace)
	if err != nil {
		return a, nil, err
	}
	compared := s.tree().Compare()
	a, err = s.collect(func(c *copier) error {
		var last *faultError
		c.compared = compared
		for _, at := range paths {
			err := c.source(root, at)
			switch {
			case errors.As(err, &last):
				faults = append(faults, sourceFault{at, last})
			case err != nil:
				return err
			}
			if c.files < 0 || c.bytes < 0 {
				break // there is no room for any other
			}
		}
		if last != nil {
			return last
		}
		return nil
	}, root)
	var fault *faultError
	switch {
	case err == nil:
		s.copied, s.modified = true, s.modified || !compared.Exact()
		return a, nil, nil
	case !errors.As(err, &fault):
		return a, nil, err
	}
	if len(faults) == 0 {
		faults = []sourceFault{{"", fault}}
	}
	return a, faults, nil
}

// collect copies files to a directory of its own, of which it makes an artifact: what is
// still written to by its owner would be half one thing, and half another.
func (s *collecting) collect(copying func(*copier) error, from *os.Root) (a artifacts.Artifact, err error) {
	defer from.Close() //nolint:errcheck // opened for reading
	state := filepath.Join(s.Inputs.Workspace, engine.StateDir)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return a, err
	}
	is, err := os.Stat(state)
	if err != nil {
		return a, err
	}
	dir, remove, err := MakeCopies(state, s.Inputs.Now())
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := copying(&copier{ctx: s.ctx, workspace: s.Inputs.Workspace, state: is, to: dir, files: sourceLimits.Files, bytes: sourceLimits.Bytes}); err != nil {
		return a, err
	}
	a, err = s.Artifacts.Collect(s.ctx, dir, sourceLimits)
	var refused *artifacts.RefusedError
	if errors.As(err, &refused) {
		err = &faultError{refused}
	}
	return a, err
}

// copier copies files of the workspace.
type copier struct {
	ctx       context.Context
	workspace string
	state     fs.FileInfo // of the directory of what Deployster keeps
	to        string
	files     int                  // that may still be copied
	bytes     int64                // the same
	compared  *worktree.Comparison // with the commit; nil is none
}

// outsideState fails where a path of the workspace leads to what Deployster keeps, through
// whatever links: the log and the artifacts are no sources of anything.
func outsideState(workspace, at string) error {
	state, err := filepath.EvalSymlinks(filepath.Join(workspace, engine.StateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	is, err := filepath.EvalSymlinks(filepath.Join(workspace, filepath.FromSlash(at)))
	if err != nil {
		return unread(at, err)
	}
	if below, err := filepath.Rel(state, is); err == nil && filepath.IsLocal(below) {
		return &faultError{fmt.Errorf("%s leads to %s, where Deployster keeps its state", at, engine.StateDir)}
	}
	return nil
}

// source copies a file, or a directory with all that is in it, to its path. Links that lead
// to it are followed, as far as they stay in the workspace.
func (c *copier) source(root *os.Root, at string) error {
	info, err := root.Stat(at)
	if err != nil {
		return unread(at, err)
	}
	if err := outsideState(c.workspace, at); err != nil {
		return err
	}
	to := filepath.Join(c.to, filepath.FromSlash(at))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	switch {
	case info.IsDir():
		below, err := root.OpenRoot(at)
		if err != nil {
			return unread(at, err)
		}
		defer below.Close() //nolint:errcheck // opened for reading
		if err := c.directory(below, to, at); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		if err := c.file(root, at, to, at); err != nil {
			return err
		}
	default:
		return &faultError{fmt.Errorf("%s is no file and no directory", at)}
	}
	c.compared.Source(at)
	return nil
}

// directory copies what is in a directory. What Deployster keeps is no part of it.
func (c *copier) directory(from *os.Root, to, at string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	c.compared.Directory(at)
	opened, err := from.Open(".")
	if err != nil {
		return unread(at, err)
	}
	entries, err := opened.ReadDir(-1)
	if err := errors.Join(err, opened.Close()); err != nil {
		return unread(at, err)
	}
	for _, e := range entries {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		if c.files--; c.files < 0 {
			return &faultError{fmt.Errorf("%s and what is before it have more than %d files", at, sourceLimits.Files)}
		}
		name, to, at := e.Name(), filepath.Join(to, e.Name()), path.Join(at, e.Name())
		var err error
		switch {
		case name == engine.StateDir, e.IsDir() && c.isState(e):
		case e.IsDir():
			var below *os.Root
			if below, err = from.OpenRoot(name); err == nil {
				err = errors.Join(c.directory(below, to, at), below.Close())
			}
		case e.Type() == fs.ModeSymlink:
			var target string
			if target, err = from.Readlink(name); err == nil {
				err = os.Symlink(target, to)
				c.compared.Link(at, target)
			}
		case e.Type().IsRegular():
			err = c.file(from, name, to, at)
		default:
			err = &faultError{fmt.Errorf("%s is no file, link or directory", at)}
		}
		var fault *faultError
		if err != nil && !errors.As(err, &fault) {
			err = unread(at, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isState reports whether a directory is that of what Deployster keeps, under another name.
func (c *copier) isState(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && os.SameFile(info, c.state)
}

// file copies a file, which must be the same before and after that.
func (c *copier) file(from *os.Root, name, to, at string) error {
	in, before, err := regularfile.OpenIn(from, name)
	if err != nil {
		return unread(at, err)
	}
	defer in.Close() //nolint:errcheck // opened for reading
	if c.bytes -= before.Size(); c.bytes < 0 {
		return &faultError{fmt.Errorf("%s and what is before it have more than %d bytes", at, sourceLimits.Bytes)}
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600|before.Mode()&0o100)
	if err != nil {
		return err
	}
	sum := c.compared.Hash(before.Size())
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, before.Size()+1))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	after, err := in.Stat()
	if err != nil || n != before.Size() || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return &faultError{fmt.Errorf("%s was changed while it was read: try again", at)}
	}
	c.compared.File(at, before.Mode()&0o100 != 0, sum)
	return nil
}
